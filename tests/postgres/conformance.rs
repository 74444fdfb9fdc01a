//! The whole contract on a table, and the store's part of it for each other way to use Postgres.

/// Rows of a table.
mod table {
    use std::sync::Arc;

    use leasehold::core::backend::async_trait;
    use leasehold::{DistributedLock, LockName};
    use lock_testkit::PostgresServer;
    use lock_testkit::conformance::Harness;
    use lock_testkit::conformance_tests;

    use crate::support::connected;

    struct Table(&'static PostgresServer);

    #[async_trait]
    impl Harness for Table {
        async fn connect(&self) -> Arc<dyn DistributedLock> {
            connected(&self.0.url()).await
        }

        async fn evict(&self, name: &LockName) {
            let sql = "UPDATE leasehold.locks_grants SET owner = NULL WHERE name = ";
            self.0.psql(&format!("{sql}'{name}'"));
        }
    }

    conformance_tests!(Table(crate::server::shared().await));
}

/// Rows of a table, behind a pooler that gives each transaction another session.
mod pooled {
    use std::sync::Arc;

    use leasehold::core::Wakeup;
    use leasehold::core::backend::async_trait;
    use leasehold::{DistributedLock, LockName};
    use lock_testkit::conformance::Harness;
    use lock_testkit::conformance_tests;
    use lock_testkit::{PgBouncer, PostgresServer};
    use tokio::sync::OnceCell;

    use crate::support::connected;

    struct Pooled(&'static PostgresServer, &'static PgBouncer);

    impl Pooled {
        async fn shared() -> Self {
            static POOLER: OnceCell<PgBouncer> = OnceCell::const_new();
            let server = crate::server::shared().await;
            Self(server, POOLER.get_or_init(|| PgBouncer::start(server)).await)
        }
    }

    #[async_trait]
    impl Harness for Pooled {
        async fn connect(&self) -> Arc<dyn DistributedLock> {
            let lock = connected(&self.1.url()).await;
            assert!(matches!(lock.capabilities().wakeup, Wakeup::Poll(_)), "the pooler is seen");
            lock
        }

        async fn evict(&self, name: &LockName) {
            let sql = "UPDATE leasehold.locks_grants SET owner = NULL WHERE name = ";
            self.0.psql(&format!("{sql}'{name}'"));
        }
    }

    conformance_tests!(Pooled::shared().await; protocol);
}
