//! The HTTP answer to each outcome, and the order of the shutdown.
//!
//! | answer | when | come again? |
//! | --- | --- | --- |
//! | 200 | sold, also if the lock was lost at the very end: the fence let the write pass | |
//! | 404 | there is no such item | no |
//! | 409 | another holds the lock, or has overtaken this request: nothing was sold | after `Retry-After` |
//! | 410 | sold out | no |
//! | 503 | the lock was lost amid the sale: it may have been made | after `Retry-After`, idempotently |
//! | 503 | the store of the locks is away, or this instance shuts down: nothing was sold | after `Retry-After` |
//! | 503 | the stock cannot be reached now: the sale may have been made | after `Retry-After`, idempotently |
//! | 500 | rights, password, configuration, the stock cannot be read | no |

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use leasehold::{FenceError, LockError};
use tokio::net::TcpListener;

use crate::shop::{NoSale, Shop};

/// Serves until `until` completes; then answers the requests in progress, and then releases the locks.
pub(crate) async fn serve(
    shop: Arc<Shop>,
    listener: TcpListener,
    until: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let app = Router::new().route("/buy/{item}", post(buy)).with_state(shop.clone());
    axum::serve(listener, app).with_graceful_shutdown(until).await?;
    // After the last handler. Returns once the server of the locks has confirmed all releases.
    shop.locks().shutdown().await;
    Ok(())
}

pub(crate) async fn buy(
    State(shop): State<Arc<Shop>>,
    Path(item): Path<String>,
) -> Result<String, NoSale> {
    shop.sell(&item).await.map(|left| format!("sold; {left} left"))
}

impl IntoResponse for NoSale {
    fn into_response(self) -> Response {
        let (status, text) = (self.status(), self.to_string());
        match status {
            StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE => {
                (status, [(RETRY_AFTER, "1")], text).into_response()
            }
            _ => (status, text).into_response(),
        }
    }
}

impl NoSale {
    fn status(&self) -> StatusCode {
        match self {
            Self::Unknown => StatusCode::NOT_FOUND,
            Self::SoldOut => StatusCode::GONE,
            Self::Lock(error) => status(error),
            // A later holder has written: this request wrote nothing.
            Self::Fence(error) if error.is_stale() => StatusCode::CONFLICT,
            Self::Fence(FenceError::Backend(error)) if error.is_transient() => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Fence(_) | Self::Stock(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

fn status(error: &LockError) -> StatusCode {
    match error {
        _ if error.is_busy() => StatusCode::CONFLICT,
        // The work may be partly done: the fence decides which writes count.
        _ if error.is_lost() => StatusCode::SERVICE_UNAVAILABLE,
        _ if error.is_transient() => StatusCode::SERVICE_UNAVAILABLE,
        LockError::Closed { .. } => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
