//! What the handlers of an instance work with, and how they refuse.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use leasehold::{ClientOptions, FenceError, LockClient, LockError};

/// How long the others wait for the lead, or a licence, of an instance that died.
pub(crate) const TTL: Duration = Duration::from_secs(1);

/// Which instance it is, of which run of this story.
#[derive(clap::Args)]
pub(crate) struct Identity {
    /// What others see of it when it holds a lock.
    label: String,
    /// Runs may meet on one server: this is in the names of all locks of this one.
    run: String,
    /// What all instances share beside the locks.
    home: PathBuf,
}

/// What the handlers work with.
pub(crate) struct Instance {
    pub(crate) locks: LockClient,
    identity: Identity,
}

impl Instance {
    pub(crate) async fn connect(url: &str, identity: Identity) -> Result<Self, LockError> {
        let options = ClientOptions::new().label(&identity.label);
        Ok(Self { locks: leasehold::connect_with(url, options).await?, identity })
    }

    pub(crate) fn label(&self) -> &str {
        &self.identity.label
    }

    /// The name of a lock of this run.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("service-{}/{name}", self.identity.run)
    }

    /// A file that all instances share.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.identity.home.join(name)
    }
}

/// Why a request was not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Fence(#[from] FenceError),
    #[error(transparent)]
    File(#[from] io::Error),
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match &self {
            // A later holder has been there.
            Self::Fence(error) if error.is_stale() => StatusCode::CONFLICT,
            Self::Lock(error) if error.is_busy() => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, self.to_string()).into_response()
    }
}
