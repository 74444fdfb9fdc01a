//! Which commands a user may not run (C31).
//!
//! A server says that a script may not go on, and before Redis 7.2 not at which command. So each is tried.

use crate::error::RequestError;
use crate::keys::trial;
use crate::node::Node;
use crate::scripts::{Form, NO_KEYS, Servers, TRY_RIGHTS};

/// Those of the commands of the scripts that the user may not run; all that is known if it may not run scripts.
///
/// # Errors
/// [`RequestError`] if the server refuses to try, as it does if the user may not run `EVAL`.
pub(crate) async fn missing(
    node: &Node,
    servers: Servers,
    prefix: &str,
) -> Result<Vec<String>, RequestError> {
    let args = (trial(prefix), &*node.channel);
    let reply = node.connection.send(TRY_RIGHTS.call(Form::Text, servers, &NO_KEYS, args)).await?;
    Ok(redis::from_redis_value(reply).unwrap_or_default())
}
