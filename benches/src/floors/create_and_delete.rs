//! A create and a delete of a node.

use async_trait::async_trait;
use zookeeper_client::{Acls, CreateMode, CreateOptions};

use crate::client::{Client, Result};
use crate::contender::Contender;

pub(crate) const CREATE_AND_DELETE: Contender = Contender {
    name: "create and delete",
    connect: |url| {
        Box::pin(
            async move { Ok(Box::new(CreateAndDelete(driver(&url).await?)) as Box<dyn Client>) },
        )
    },
};

/// Connects the driver alone.
pub(crate) async fn driver(url: &str) -> Result<zookeeper_client::Client> {
    let member = url.trim_start_matches("zookeeper://").trim_end_matches('/');
    Ok(zookeeper_client::Client::connect(member).await?)
}

/// Returns the options of a node that ends with its client.
pub(crate) fn ephemeral() -> CreateOptions<'static> {
    CreateMode::Ephemeral.with_acls(Acls::anyone_all())
}

struct CreateAndDelete(zookeeper_client::Client);

#[async_trait]
impl Client for CreateAndDelete {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        self.0.create(&format!("/{name}"), b"value", &ephemeral()).await?;
        Ok(())
    }

    async fn release(&mut self, name: &str) -> Result<()> {
        self.0.delete(&format!("/{name}"), None).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self(self.0.clone()))
    }
}
