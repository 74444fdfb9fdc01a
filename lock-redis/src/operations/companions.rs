//! Finds keys of somebody else in the place of a lock's companions (C31).

use futures_util::future::join_all;
use lock_core::{BackendError, FencingToken, Finding, LockName};
use redis::cmd;

use crate::protocol::keys::Keys;
use crate::protocol::reply;
use crate::topology::Topology;

/// Form of a companion.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// A string with a token.
    Token,
    /// A key of this type.
    Of(&'static str),
}

/// Returns a finding for each of these companions that has another form. A question that the server refuses to this user
/// finds nothing.
pub(crate) async fn spoilt(
    server: &Topology,
    name: &LockName,
    companions: &[(&'static str, Form)],
) -> Vec<Finding> {
    let looks = companions.iter().map(|(what, form)| look_at(server, name, what, *form));
    join_all(looks).await.into_iter().filter_map(Result::ok).flatten().collect()
}

async fn look_at(
    server: &Topology,
    name: &LockName,
    what: &'static str,
    form: Form,
) -> Result<Option<Finding>, BackendError> {
    let keys = Keys::new(name);
    let key = keys.companion(what);
    let ask = async |word: &'static str| {
        let mut command = cmd(word);
        command.arg(key);
        reply::read::<Option<String>>(server.send(&key, command).await?, word)
    };
    let seen = match (&*ask("TYPE").await?.unwrap_or_default(), form) {
        ("none", _) => return Ok(None),
        ("string", Form::Token) => match ask("GET").await? {
            Some(token) if token.parse::<FencingToken>().is_err() => "holds no token".to_owned(),
            _ => return Ok(None),
        },
        (found, Form::Of(expected)) if found == expected => return Ok(None),
        (found, _) => format!("is of type {found}"),
    };
    let seen =
        format!("the key \"{key}\", a companion of the lock, {seen}: requests for the lock fail");
    let remedy = "delete that key, or choose another name for the lock";
    Ok(Some(Finding::risk("companions", seen, remedy)))
}
