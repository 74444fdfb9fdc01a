//! Which commands a user may not run (C31).
//!
//! A server says that a script may not go on, and before Redis 7.2 not at which command. So each is tried.

use crate::error::lacks_right;
use crate::keys::trial;
use crate::node::Node;
use crate::scripts::{Form, NO_KEYS, Servers, TRY_RIGHTS};

/// Those of the commands of the scripts that the user may not run. `EVAL` alone if the user may not run that, since
/// nothing can be tried then; none if the server does not answer.
pub(crate) async fn missing(node: &Node, servers: Servers, prefix: &str) -> Vec<String> {
    let args = (trial(prefix), &*node.channel);
    let trial = TRY_RIGHTS.call(Form::Text, servers, &NO_KEYS, args);
    match node.connection.send(trial).await {
        Ok(reply) => redis::from_redis_value(reply).unwrap_or_default(),
        Err(error) if lacks_right(&error) => vec!["EVAL".to_owned()],
        Err(_) => Vec::new(),
    }
}
