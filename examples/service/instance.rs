//! One instance of the service: a process with one client of the locks, and an HTTP port.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use leasehold::{ClientOptions, FenceError, LockClient, LockError};
use tokio::io::{AsyncReadExt, stdin};
use tokio::net::TcpListener;

use crate::{Failure, catalogue, leader, licences, nightly};

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

/// Serves until the standard input closes, and ends in the order in which nothing is left behind.
pub(crate) async fn serve(identity: Identity, url: &str) -> Result<(), Failure> {
    let options = ClientOptions::new().label(&identity.label);
    let locks = leasehold::connect_with(url, options).await?;
    let instance = Arc::new(Instance { locks, identity });
    let leading = tokio::spawn(leader::lead(instance.clone()));

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    io::stdout().flush()?;
    let until = async { drop(stdin().read_to_end(&mut Vec::new()).await) };
    axum::serve(listener, routes(instance.clone())).with_graceful_shutdown(until).await?;

    // After the last handler. It resigns if this one leads, and ends the campaign if it does not.
    instance.locks.shutdown().await;
    Ok(leading.await??)
}

fn routes(instance: Arc<Instance>) -> Router {
    Router::new()
        .route("/leader", get(leader::show))
        .route("/nightly/{night}", post(nightly::run))
        .route("/render", post(licences::render))
        .route("/catalogue", get(catalogue::read).post(catalogue::rebuild))
        .with_state(instance)
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
