//! The lease on which this client leaves the marks of withdrawn claims.

use std::sync::Arc;

use lock_core::backend::WITHDRAWAL_REMEMBERED;
use lock_core::{BackendError, Clock, SystemClock};
use parking_lot::Mutex;

use crate::sessions::session::Session;
use crate::wire::server::Server;

/// TTL of the lease for marks of withdrawn claims. It is not renewed: it gets new marks while it lasts at least as
/// long as they must be remembered.
const MARKS_SECONDS: i64 = WITHDRAWAL_REMEMBERED.as_secs() as i64 + 10;

/// The lease on which the marks of withdrawn claims are.
#[derive(Default)]
pub(crate) struct Marks(Mutex<Option<Arc<Session>>>);

impl Marks {
    /// Returns a lease that lasts as long as a withdrawal must be remembered (C19).
    pub(crate) async fn lease(&self, server: &Arc<Server>) -> Result<Arc<Session>, BackendError> {
        let session = self.current(server);
        session.last_for(WITHDRAWAL_REMEMBERED).await?;
        Ok(session)
    }

    fn current(&self, server: &Arc<Server>) -> Arc<Session> {
        let mut current = self.0.lock();
        let now = SystemClock.now();
        let is_worn = |session: &Session| {
            session.is_gone() || session.is_open() && session.left(now) < WITHDRAWAL_REMEMBERED
        };
        current.take_if(|session| is_worn(session));
        current.get_or_insert_with(|| Session::new(server.clone(), MARKS_SECONDS)).clone()
    }
}
