//! rslock: Redlock, by polling. Uses several servers if the URL is a list.

use async_trait::async_trait;

use crate::client::{Client, Result, TTL};
use crate::contender::Contender;

pub(crate) const RSLOCK: Contender = Contender {
    name: "rslock",
    connect: |urls| {
        Box::pin(async move {
            let manager = rslock::LockManager::new(urls.split(',').collect());
            Ok(Box::new(Rslock { manager, held: None }) as Box<dyn Client>)
        })
    },
};

struct Rslock {
    manager: rslock::LockManager,
    held: Option<rslock::LockGuard>,
}

#[async_trait]
impl Client for Rslock {
    async fn acquire(&mut self, name: &str) -> Result<()> {
        let acquired = self.manager.acquire(name.as_bytes(), TTL).await;
        self.held = Some(acquired.map_err(|error| format!("{error:?}"))?);
        Ok(())
    }

    async fn release(&mut self, _: &str) -> Result<()> {
        if let Some(guard) = self.held.take() {
            guard.release().await;
        }
        Ok(())
    }

    fn another(&self) -> Box<dyn Client> {
        Box::new(Self { manager: self.manager.clone(), held: None })
    }
}
