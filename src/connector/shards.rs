//! The URL of several stores over which names are spread.

use std::sync::Arc;

use lock_core::backend::{Shard, UrlParameters};
use lock_core::{DistributedLock, LockError};

use super::schemes::config;

/// One of the stores, as the URL names it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) id: String,
    pub(super) mark: Mark,
    pub(super) url: String,
}

/// Whether names move to the store, or away from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    Joins,
    Leaves,
}

impl Named {
    /// The shard, which `open` opens.
    pub(super) fn shard<F>(&self, open: impl Fn() -> F + Send + Sync + 'static) -> Shard
    where
        F: Future<Output = Result<Arc<dyn DistributedLock>, LockError>> + Send + 'static,
    {
        let shard = Shard::opened_by(&self.id, open);
        match self.mark {
            Mark::None => shard,
            Mark::Joins => shard.joining(),
            Mark::Leaves => shard.leaving(),
        }
    }

    /// Reads the start of a store in the list: `ID=`, `+ID=` or `-ID=`.
    fn begin(part: &str) -> Option<Self> {
        let (id, url) = part.split_once('=')?;
        let (mark, id) = match (id.strip_prefix('+'), id.strip_prefix('-')) {
            (Some(id), _) => (Mark::Joins, id),
            (_, Some(id)) => (Mark::Leaves, id),
            (None, None) => (Mark::None, id),
        };
        Shard::is_id(id).then(|| Self { id: id.to_owned(), mark, url: url.to_owned() })
    }
}

/// Reads what stands behind `shards:`, which is `ID=URL,ID=URL`: a comma ends a URL only if an id and `=` follow.
/// Nothing of it is repeated in an error, since any part may be of a password.
pub(super) fn parse(list: &str, is_scheme: impl Fn(&str) -> bool) -> Result<Vec<Named>, LockError> {
    let mut stores: Vec<Named> = Vec::new();
    for part in list.split(',') {
        match (Named::begin(part), stores.last_mut()) {
            (Some(store), _) => stores.push(store),
            (None, Some(store)) => store.url += &format!(",{part}"),
            (None, None) => return Err(malformed(1)),
        }
    }
    let has_scheme = |store: &Named| store.url.split_once(':').is_some_and(|(it, _)| is_scheme(it));
    match stores.iter().position(|store| !has_scheme(store)) {
        Some(at) => Err(malformed(at + 1)),
        None => same_prefix(stores),
    }
}

fn malformed(at: usize) -> LockError {
    config(format!(
        "part {at} of the list of shards is not ID=URL, as in shards:a=redis://10.0.0.1/,b=redis://10.0.0.2/; \
         in a password write %2C for a comma"
    ))
}

/// C49: a prefix that is appended to the whole URL is that of the last store alone.
fn same_prefix(stores: Vec<Named>) -> Result<Vec<Named>, LockError> {
    let prefixes = stores.iter().map(|store| UrlParameters::of(&store.url).take("prefix"));
    let prefixes: Vec<_> = prefixes.collect();
    match prefixes.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(stores),
        false => Err(config("the shards of one list have the same `prefix`: write it to each URL")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &str) -> Result<Vec<Named>, LockError> {
        parse(list, |scheme| ["redis", "etcd", "postgres"].contains(&scheme))
    }

    fn named(id: &str, mark: Mark, url: &str) -> Named {
        Named { id: id.to_owned(), mark, url: url.to_owned() }
    }

    #[test]
    fn a_comma_ends_a_url_only_before_the_next_id() {
        let list =
            "a=etcd://h1,h2:2379,h3,+b-2=etcd://h4,h5/root,-c.3=redis://:p%2Cq=r@h/?protocol=resp3";
        let expected = [
            named("a", Mark::None, "etcd://h1,h2:2379,h3"),
            named("b-2", Mark::Joins, "etcd://h4,h5/root"),
            named("c.3", Mark::Leaves, "redis://:p%2Cq=r@h/?protocol=resp3"),
        ];
        assert_eq!(read(list).expect("a list"), expected);
    }

    #[test]
    fn c32_what_is_no_list_is_refused_and_not_repeated() {
        for list in [
            "",
            "redis://:secret@h/",
            "redis://:secret@h/,b=redis://h/",
            "a=secret@h",
            "a=redis://:pass,secret=word:secret@h/",
            "a=redis://:pass,secret=word@h/",
            "a=shards:b=redis://secret/",
            "=redis://secret/",
        ] {
            let text = read(list).expect_err(list).to_string();
            assert!(text.contains("ID=URL") && !text.contains("secret"), "{list:?}: {text}");
        }
    }

    #[test]
    fn c49_shards_have_one_prefix() {
        let both = "a=redis://h1/?prefix=shop:,b=redis://h2/?prefix=shop%3A";
        assert_eq!(read(both).expect("the same").len(), 2);
        let last = read("a=redis://h1/,b=redis://h2/?prefix=shop:").expect_err("not the same");
        assert!(last.to_string().contains("`prefix`"), "{last}");
    }
}
