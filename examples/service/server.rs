//! One instance of the service: a process with one client of the locks, and an HTTP port.

use std::io::{self, Write};
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, stdin};
use tokio::net::TcpListener;

use crate::crew::Failure;
use crate::instance::{Identity, Instance};
use crate::{catalogue, leader, licences};

/// Serves until the standard input closes, and ends in the order in which nothing is left behind.
pub(crate) async fn serve(identity: Identity, url: &str) -> Result<(), Failure> {
    let instance = Arc::new(Instance::connect(url, identity).await?);
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
        .route("/render", post(licences::render))
        .route("/catalogue", get(catalogue::read).post(catalogue::rebuild))
        .with_state(instance)
}
