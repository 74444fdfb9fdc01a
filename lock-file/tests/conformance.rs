//! The file backend obeys the whole contract.

#![allow(clippy::expect_used)]

use std::sync::Arc;

use lock_core::backend::async_trait;
use lock_core::{DistributedLock, LockName};
use lock_file::FileBackend;
use lock_testkit::conformance::Harness;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// A directory that ends with the test.
struct Files(TempDir);

impl Files {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }
}

#[async_trait]
impl Harness for Files {
    async fn connect(&self) -> Arc<dyn DistributedLock> {
        Arc::new(FileBackend::open(self.0.path()).expect("opens"))
    }

    async fn evict(&self, name: &LockName) {
        let digest = hex::encode(Sha256::digest(name.as_str()));
        let file = self.0.path().join(format!("{digest}.lock"));
        std::fs::remove_file(file).expect("there was such a lock");
    }
}

lock_testkit::conformance_tests!(Files::new());
