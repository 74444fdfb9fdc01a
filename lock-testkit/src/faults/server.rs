//! A server that a test disturbs.

use std::net::SocketAddr;

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
