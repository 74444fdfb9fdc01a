//! Recognises the kind of a server that does not know a command of ours.

use redis::{Value, cmd, from_redis_value};

use lock_core::{BackendError, Outcome};

use crate::protocol::error::{BACKEND, RequestError, classify};
use crate::wire::node::Node;

/// Returns the error of a server that does not know a command. The role identifies a sentinel.
pub(crate) async fn explained(node: &Node, error: RequestError) -> BackendError {
    let error = classify(error);
    match role(node).await.as_deref() {
        Some([Value::Array(primaries), ..]) => {
            let names = primaries.iter().cloned().map(from_redis_value::<String>);
            let names: Vec<String> = names.filter_map(Result::ok).collect();
            let context = format!(
                "the server is a sentinel, which keeps no locks: connect by redis-sentinel://host/{}",
                names.first().map_or("name", String::as_str)
            );
            BackendError::permanent(BACKEND, Outcome::NotApplied, context, error)
        }
        _ => error,
    }
}

/// Returns the words of a sentinel behind `sentinel` in its role; `None` for any other server.
async fn role(node: &Node) -> Option<Vec<Value>> {
    let told = node.connection.send(cmd("ROLE")).await.ok()?;
    let told: Vec<Value> = from_redis_value(told).ok()?;
    let (role, rest) = told.split_first()?;
    let role: String = from_redis_value(role.clone()).ok()?;
    (role == "sentinel").then(|| rest.to_vec())
}
