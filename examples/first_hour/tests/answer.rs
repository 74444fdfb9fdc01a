//! The answer to an order, for the buyer and in the log.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;

use crate::http::buy;
use crate::order::Order;
use crate::reports;
use crate::shop::Shop;

/// Outcome of an order.
#[derive(Debug)]
pub(crate) struct OrderAnswer {
    pub(crate) order: Order,
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl OrderAnswer {
    pub(crate) fn is_sold(&self) -> bool {
        self.status == StatusCode::OK
    }

    /// Returns true if the buyer was told that the lock was lost during the sale, which may have been made.
    pub(crate) fn is_uncertain(&self) -> bool {
        self.status == StatusCode::SERVICE_UNAVAILABLE && self.text.contains("is lost")
    }

    /// Returns true if the buyer (by a failure) or the log was told of a loss of the hold.
    pub(crate) fn reports_loss(&self) -> bool {
        !self.is_sold() || reports::is_logged(self.order)
    }
}

/// Orders one item from one instance of the service, by its handler.
pub(crate) async fn order(shop: Arc<Shop>, item: String) -> OrderAnswer {
    let order = Order::new();
    let response = order.scope(buy(State(shop), Path(item))).await.into_response();
    let status = response.status();
    let body = to_bytes(response.into_body(), 4096).await.expect("a short text");
    OrderAnswer { order, status, text: String::from_utf8_lossy(&body).into_owned() }
}
