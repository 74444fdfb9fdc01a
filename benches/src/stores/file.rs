//! Locks in a directory.

use async_trait::async_trait;
use tempfile::TempDir;

use super::Store;
use crate::client::Result;
use crate::contender::Contender;
use crate::floors::datagram;
use crate::ours::LEASEHOLD;
use crate::peers::flock;
use crate::wake_up::WakeUp;

pub(crate) const CONTENDERS: &[Contender] = &[LEASEHOLD, flock::FLOCK];

pub(crate) struct Directory {
    url: String,
    folder: TempDir,
}

impl Directory {
    pub(crate) fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("leasehold-").tempdir()?;
        Ok(Self { url: format!("file:{}", folder.path().display()), folder })
    }
}

#[async_trait]
impl Store for Directory {
    fn url(&self) -> &str {
        &self.url
    }

    async fn wake_up(&self) -> Result<Option<Box<dyn WakeUp>>> {
        Ok(Some(Box::new(datagram::Datagram::in_folder(self.folder.path()).await?)))
    }
}
