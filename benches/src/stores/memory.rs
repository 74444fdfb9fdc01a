//! Locks in this process.

use async_trait::async_trait;

use super::Store;
use crate::contender::Contender;
use crate::ours::LEASEHOLD;

pub(crate) const CONTENDERS: &[Contender] = &[LEASEHOLD];

pub(crate) struct Memory;

#[async_trait]
impl Store for Memory {
    fn url(&self) -> &str {
        "memory:bench"
    }
}
