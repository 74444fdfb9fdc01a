//! The ZooKeeper driver's own lock: Curator's recipe, without a token.

use std::mem;

use async_trait::async_trait;
use zookeeper_client::{Acls, CreateMode, LockOptions, LockPrefix};

use crate::client::{Client, Result};
use crate::contender::Contender;
use crate::floors::create_and_delete::driver;

pub(crate) const DRIVER_LOCK: Contender = Contender {
    name: "Curator's recipe",
    connect: |url| {
        Box::pin(async move {
            let client = driver(&url).await?;
            Ok(Box::new(DriverLock { client, claim: String::new() }) as Box<dyn Client>)
        })
    },
};

struct DriverLock {
    client: zookeeper_client::Client,
    /// Path of the node that holds the lock.
    claim: String,
}

#[async_trait]
impl Client for DriverLock {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let folder = format!("/{name}");
        let parents = CreateMode::Container.with_acls(Acls::anyone_all());
        let options = LockOptions::new(Acls::anyone_all()).with_ancestor_options(parents)?;
        let prefix = LockPrefix::new_curator(&folder, "lock-")?;
        let lock = self.client.lock(prefix, b"", options).await?;
        self.claim = lock.lock_path().to_owned();
        // The drop of the lock would delete the node in a task that nobody awaits.
        mem::forget(lock);
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        self.client.delete(&self.claim, None).await?;
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self { client: self.client.clone(), claim: String::new() })
    }
}
