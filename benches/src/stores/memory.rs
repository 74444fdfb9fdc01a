//! Locks in this process.

use async_trait::async_trait;

use super::{Row, Store};
use crate::ours::LEASEHOLD;

pub(crate) const ROW: Row = Row {
    name: "memory",
    start: || Box::pin(async { Ok(Box::new(Memory) as Box<dyn Store>) }),
    contenders: &[LEASEHOLD],
    floor: None,
    wake_up: "none",
};

struct Memory;

#[async_trait]
impl Store for Memory {
    fn url(&self) -> String {
        "memory:bench".to_owned()
    }
}
