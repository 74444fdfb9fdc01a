//! How the stores of the shards are opened.

use std::sync::Arc;

use futures_util::future::join_all;

use super::away::Away;
use super::member::Member;
use super::shard::{Opened, Shard, Store};
use super::weakest::weakest;
use crate::model::{Capabilities, LockError};

/// Opens all side by side; returns them, and what they can do together. One that cannot be reached is opened by
/// its first request.
pub(super) async fn open_all(shards: Vec<Shard>) -> Result<(Vec<Member>, Capabilities), LockError> {
    let opened = join_all(shards.iter().map(reach)).await;
    let told = weakest(opened.iter().flatten().map(|backend| backend.capabilities()));
    let Some(told) = told else { return Err(why_none(opened)) };
    let members =
        shards.into_iter().zip(opened).map(|(shard, opened)| member(shard, opened, &told));
    Ok((members.collect::<Result<Vec<_>, LockError>>()?, told))
}

async fn reach(shard: &Shard) -> Opened {
    match &shard.store {
        Store::Open(backend) => Ok(backend.clone()),
        Store::ToOpen(open) => open().await.map_err(|error| named(&shard.id, error)),
    }
}

/// The error, which says of which shard it is.
fn named(id: &str, error: LockError) -> LockError {
    match error {
        LockError::Backend { operation, name, source } => LockError::Backend {
            operation,
            name,
            source: source.of_store(format_args!("shard {id}")),
        },
        LockError::Config { message } => {
            LockError::Config { message: format!("shard {id}: {message}") }
        }
        error => error,
    }
}

fn member(shard: Shard, opened: Opened, told: &Capabilities) -> Result<Member, LockError> {
    let Shard { id, store, standing } = shard;
    let backend = match (opened, store) {
        (Ok(backend), _) => backend,
        // The store may be there later.
        (Err(error), Store::ToOpen(open)) if error.is_transient() => {
            Arc::new(Away::new(told.clone(), open))
        }
        (Err(error), _) => return Err(error),
    };
    Ok(Member { id, standing, backend })
}

/// Why there is no shard: the first error, if any was tried.
fn why_none(opened: Vec<Opened>) -> LockError {
    let none = || LockError::Config { message: "shards: there is none".to_owned() };
    opened.into_iter().find_map(Result::err).unwrap_or_else(none)
}
