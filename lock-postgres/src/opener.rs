//! Opens connections with the login as it is then.

use std::sync::Arc;

use lock_core::Credentials;
use lock_core::backend::Login;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Error};

use crate::error::is_refused_login;

/// The opener of connections to one server.
#[derive(Clone)]
pub(crate) struct Opener {
    settings: Arc<PgConnectOptions>,
    login: Login,
}

impl Opener {
    pub(crate) fn new(settings: PgConnectOptions, login: Login) -> Self {
        // C32: requests hold owner ids, which must not be in a log.
        Self { settings: Arc::new(settings.disable_statement_logging()), login }
    }

    /// Returns host and port of the server.
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.settings.get_host(), self.settings.get_port())
    }

    /// Opens a connection by `open`, which gets the settings with the credentials to use.
    pub(crate) async fn log_in<T, F>(
        &self,
        open: impl Fn(PgConnectOptions) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        self.login.log_in(|given| open(self.with(given)), is_refused_login).await
    }

    /// Returns the settings with these credentials. An empty part leaves that of the URL.
    fn with(&self, given: Option<Credentials>) -> PgConnectOptions {
        let (mut settings, given) = ((*self.settings).clone(), given.unwrap_or_default());
        if !given.user.is_empty() {
            settings = settings.username(&given.user);
        }
        if !given.secret.is_empty() {
            settings = settings.password(&given.secret);
        }
        settings
    }
}
