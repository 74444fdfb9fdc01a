//! A server that a test disturbs.

use std::net::SocketAddr;

use crate::{EtcdServer, PostgresServer, RedisServer, ZooKeeperServer};

/// A server that a test may disturb, such as the launchers of [`servers`](crate::servers).
#[allow(async_fn_in_trait, reason = "a test awaits it in place, and needs no `Send`")]
pub trait Server: 'static {
    /// Returns its address, which a restart does not change.
    fn addr(&self) -> SocketAddr;

    /// Stops it (SIGSTOP): connections stay open, and nothing is answered.
    fn stop(&self);

    /// Lets a stopped server go on (SIGCONT).
    fn cont(&self);

    /// Kills it (SIGKILL), stopped or not; it is gone when this returns.
    fn kill(&mut self);

    /// Kills it if it runs, starts it again with its data, and returns once it answers.
    async fn restart(&mut self);
}

/// Forwards to the launcher of the server.
macro_rules! as_launched {
    ($($launcher:ty)*) => {
        $(
            impl Server for $launcher {
                fn addr(&self) -> SocketAddr {
                    self.addr()
                }

                fn stop(&self) {
                    self.stop();
                }

                fn cont(&self) {
                    self.cont();
                }

                fn kill(&mut self) {
                    self.kill();
                }

                async fn restart(&mut self) {
                    self.restart().await;
                }
            }
        )*
    };
}

as_launched!(EtcdServer PostgresServer RedisServer ZooKeeperServer);
