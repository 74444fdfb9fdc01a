//! The service of the page `docs/first_hour.md`, on a Redis that is stopped, killed and cut off at the worst
//! moments: no finished sale is reported as failed, no loss goes unreported, and the stock is exact (C47).

#![allow(clippy::expect_used, clippy::panic)]

mod answer;
mod counter;
#[path = "../http.rs"]
#[allow(dead_code, reason = "requests are put to the handler, without a network")]
mod http;
mod moments;
mod order;
mod reports;
#[path = "../shop.rs"]
#[allow(dead_code, reason = "the tests connect with shorter time-outs")]
mod shop;
mod storms;
