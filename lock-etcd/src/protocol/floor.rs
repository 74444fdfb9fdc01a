//! The floor of a store's tokens. Tokens rise from it with the revisions of the store.
//!
//! Revisions alone begin at 1 in each cluster, far below the tokens of other stores, which are times in
//! microseconds. So the floor is a time in microseconds, together with the store's revision at that time. A
//! resource that saw the tokens of another store, or of an earlier cluster, accepts the tokens of this one (C22).
//!
//! ```text
//!   {root}/floor = "1795251431457000 38 cdf818194e3a8c32"     the time, the revision, and the id of the cluster
//!
//!   token of a claim = time + TOKENS × (revision of the claim - revision of the floor)
//! ```
//!
//! Each claim has [`TOKENS`] tokens: its own, and those of later tasks of its client to which the hold passes
//! (C26).
//!
//! A client raises the floor to its clock when it first reads it, if no claim exists then. So a service may leave
//! the store and come back. Each transaction that grants compares the key with the version that was read. If the
//! key is missing, or was written in another cluster (a backup was restored), a client writes a later floor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use etcd_client::{Compare, CompareOp, GetOptions, KeyValue, Txn, TxnOp, TxnOpResponse};
use lock_core::backend::TokenRange;
use lock_core::{BackendError, FencingToken};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::layout::keys::Root;
use crate::wire::answer::Answer;
use crate::wire::error::{not_understood, overtaken, refusal, unreadable};
use crate::wire::server::Server;

/// Returns the last token of the claim with this first one.
pub(crate) fn last_of_claim(first: FencingToken) -> FencingToken {
    let last = first.get().saturating_add(u64::from(TOKENS) - 1);
    FencingToken::new(last).unwrap_or(first)
}

/// Number of tokens of each claim. The clock outruns them while fewer than 15,625 writes a second reach the cluster.
const TOKENS: u32 = 64;

/// A floor that is further behind the clock is raised, in microseconds. No service leaves the store and comes
/// back sooner.
const BEHIND: u64 = 10_000;

/// The floor of one cluster, as this client knows it.
pub(crate) struct Floors {
    server: Arc<Server>,
    key: String,
    /// Start of the keys of all claims.
    claims: String,
    /// Empty until the floor is read.
    current: Mutex<Arc<OnceCell<Floor>>>,
    /// True once the floor was read for a claim.
    was_read: AtomicBool,
    /// All floors that were read, in their order.
    seen: Mutex<Vec<Floor>>,
}

/// A floor, as it was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Floor {
    time: u64,
    /// The revision of the store from which the tokens are counted.
    revision: i64,
    /// The revision in which the key was last written.
    written: i64,
}

impl Floors {
    pub(crate) fn new(server: Arc<Server>, root: &Root) -> Self {
        let (current, was_read, seen) = Default::default();
        Self { server, key: root.floor(), claims: root.all_claims(), current, was_read, seen }
    }

    /// Returns the floor; reads it at the first call, and raises it then if it is behind the clock. A later call reads
    /// it again if it has changed.
    pub(crate) async fn get(&self) -> Result<Floor, BackendError> {
        let current = self.current.lock().clone();
        let read = || async {
            // Clients that take turns do not raise it for each other.
            let floor = Box::pin(self.read(!self.was_read.load(Ordering::Acquire))).await?;
            self.note(floor)?;
            self.was_read.store(true, Ordering::Release);
            Ok(floor)
        };
        current.get_or_try_init(read).await.copied()
    }

    /// Forgets the floor, so that the next use reads it again.
    pub(crate) fn forget(&self) {
        *self.current.lock() = Arc::default();
    }

    /// Reads the floor for an observer, and does not raise it: a claim that the observer has read may have ended since,
    /// and its token is of the floor before.
    pub(crate) async fn observed(&self) -> Result<Floor, BackendError> {
        let floor = Box::pin(self.read(false)).await?;
        self.note(floor)?;
        Ok(floor)
    }

    /// Returns the first token of the claim that was made in this revision, from the floor of that time. So a claim has
    /// one token, whichever floor was written since.
    ///
    /// A client that knows no floor of that time counts from the first that it knows. Such a token is below the floor,
    /// and above all tokens that were granted before the claim.
    pub(crate) fn token(&self, revision: i64) -> Result<FencingToken, BackendError> {
        let seen = self.seen.lock();
        let of_that_time = seen.iter().rev().find(|floor| floor.written < revision);
        of_that_time.or(seen.first()).ok_or_else(not_written)?.token(revision)
    }

    /// Returns the revision of the claim with this token; `None` if the token is not of this store.
    pub(crate) fn revision(&self, token: FencingToken) -> Option<i64> {
        let floor = self.of(token)?;
        floor.revision.checked_add_unsigned((token.get() - floor.time) / u64::from(TOKENS))
    }

    /// Returns the next tokens of the same claim, up to `wanted`; `None` if there are none.
    pub(crate) fn following(&self, token: FencingToken, wanted: u32) -> Option<TokenRange> {
        let used = (token.get() - self.of(token)?.time) % u64::from(TOKENS);
        let len = u64::from(wanted).min(u64::from(TOKENS) - 1 - used);
        let first = FencingToken::new(token.get() + 1).ok().filter(|_| len > 0)?;
        TokenRange::new(first, len as u32).ok()
    }

    /// Returns the floor under which a token was granted. A floor is above all tokens of the floors before it.
    fn of(&self, token: FencingToken) -> Option<Floor> {
        self.seen.lock().iter().rev().find(|floor| floor.time <= token.get()).copied()
    }

    /// Makes `txn` conditional on the floor that was read.
    pub(crate) fn guard(&self, floor: Floor, txn: Txn) -> Txn {
        let same = Compare::mod_revision(&*self.key, CompareOp::Equal, floor.written);
        Txn::new().when([same]).and_then([TxnOp::txn(txn)])
    }

    /// Returns the answer to a transaction under [`guard`](Self::guard). `None` if the floor has changed: nothing was
    /// done, and the next use reads the floor again.
    pub(crate) fn guarded(&self, answer: &Answer) -> Result<Option<Answer>, BackendError> {
        if !answer.succeeded {
            self.forget();
            return Ok(None);
        }
        let answer = answer.of_each()?.pop();
        answer.map(Some).ok_or_else(|| unreadable("the answer of a claim"))
    }

    /// Reads the floor. Raises it if it is missing or of another cluster, and if `raises` also if it is behind the
    /// clock.
    async fn read(&self, raises: bool) -> Result<Floor, BackendError> {
        let now = now();
        for tries in 0..3 {
            let (found, is_unused, revision) = self.look().await?;
            // Of clients that come at once, another one has raised it since the first try.
            let is_unused = is_unused && raises && tries == 0;
            let floor = found.as_ref().map(|found| self.read_value(found)).transpose()?;
            let Some(time) = self.due(floor.as_ref(), is_unused, revision, now) else {
                return floor.map(|written| written.floor).ok_or_else(not_written);
            };
            let written = floor.map_or(0, |written| written.floor.written);
            let mut unchanged = vec![Compare::mod_revision(&*self.key, CompareOp::Equal, written)];
            if is_unused {
                let none = Compare::create_revision(&*self.claims, CompareOp::Equal, 0);
                unchanged.push(none.with_prefix());
            }
            let text = format!("{time} {revision} {:x}", self.server.cluster_id());
            let put = Txn::new().when(unchanged).and_then([TxnOp::put(&*self.key, text, None)]);
            let answer = self.server.txn(put).await?;
            if answer.succeeded {
                return Ok(Floor { time, revision, written: answer.revision });
            }
        }
        Err(not_written())
    }

    /// Returns the key, true if nobody has a claim, and the revision in which this was so.
    async fn look(&self) -> Result<(Option<KeyValue>, bool, i64), BackendError> {
        let any = GetOptions::new().with_prefix().with_limit(1).with_count_only();
        let gets = [TxnOp::get(&*self.key, None), TxnOp::get(&*self.claims, Some(any))];
        let answer = self.server.txn(Txn::new().and_then(gets)).await?;
        match &answer.parts[..] {
            [TxnOpResponse::Get(found), TxnOpResponse::Get(claims)] => {
                Ok((found.kvs().first().cloned(), claims.count() == 0, answer.revision))
            }
            _ => Err(unreadable("the floor of tokens")),
        }
    }

    /// Returns the time of the next floor; `None` if this one stays.
    fn due(
        &self,
        found: Option<&Written>,
        is_unused: bool,
        revision: i64,
        now: u64,
    ) -> Option<u64> {
        let next = |floor: &Floor| floor.at(revision.saturating_add(1)).unwrap_or(u64::MAX);
        let Some(Written { floor, cluster }) = found else {
            // C22: the key was removed. The clock may be behind the floor that this client knows.
            return Some(self.seen.lock().last().map_or(now, next).max(now));
        };
        let next = next(floor);
        let is_behind = is_unused && next.saturating_add(BEHIND) < now;
        (is_behind || *cluster != self.server.cluster_id()).then(|| now.max(next))
    }

    fn read_value(&self, found: &KeyValue) -> Result<Written, BackendError> {
        let then = "the next client writes a later one, above all tokens so far";
        written(found.value(), found.mod_revision())
            // C22: no floor of ours ends with a lease, after which tokens would fall.
            .filter(|_| found.lease() == 0)
            .ok_or_else(|| not_understood(&self.key, "the floor of tokens", then))
    }

    /// Stores a floor that was read.
    fn note(&self, floor: Floor) -> Result<(), BackendError> {
        let mut seen = self.seen.lock();
        match seen.last() {
            Some(last) if last.time > floor.time => Err(refusal("the floor of tokens has fallen")),
            Some(last) if last.time == floor.time => Ok(()),
            _ => {
                seen.push(floor);
                Ok(())
            }
        }
    }
}

impl Floor {
    /// Returns the first token of a claim that was made in this revision.
    pub(crate) fn token(self, revision: i64) -> Result<FencingToken, BackendError> {
        let token = self.at(revision).and_then(|token| FencingToken::new(token).ok());
        token.ok_or_else(|| unreadable("a revision that makes no token"))
    }

    /// Returns the token of a claim: below the floor, if the claim is older.
    fn at(self, revision: i64) -> Option<u64> {
        let claims = revision.checked_sub(self.revision)?;
        self.time.checked_add_signed(claims.checked_mul(TOKENS.into())?)
    }
}

/// Content of the key.
#[derive(Debug, PartialEq)]
struct Written {
    floor: Floor,
    cluster: u64,
}

fn written(value: &[u8], written: i64) -> Option<Written> {
    let mut parts = str::from_utf8(value).ok()?.split(' ');
    let (time, revision) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let cluster = u64::from_str_radix(parts.next()?, 16).ok()?;
    let is_sound = parts.next().is_none() && time < FencingToken::MAX.get() && revision >= 0;
    is_sound.then_some(Written { floor: Floor { time, revision, written }, cluster })
}

fn not_written() -> BackendError {
    overtaken("the floor of tokens was not written")
}

/// Returns the time in microseconds, at most the year 2112: no clock uses up the tokens.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.as_micros().try_into().unwrap_or(u64::MAX).min(1 << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floors() -> Floors {
        Floors::new(Server::nowhere(), &Root::new("/root").expect("a root"))
    }

    fn floor(time: u64, revision: i64) -> Floor {
        Floor { time, revision, written: revision + 1 }
    }

    fn token(token: u64) -> FencingToken {
        FencingToken::new(token).expect("a token")
    }

    #[test]
    fn c22_a_token_is_the_floor_and_a_revision() {
        let (floors, floor_at_30) = (floors(), floor(1_000, 30));
        floors.note(floor_at_30).expect("the first");
        assert_eq!(floor_at_30.token(38).expect("a token"), token(1_512));
        let made_in = |number| floors.revision(token(number));
        assert_eq!([1_511, 1_512, 1_575, 1_576].map(made_in), [37, 38, 38, 39].map(Some));
        assert_eq!(made_in(999), None);
        assert!(floor(FencingToken::MAX.get(), 1).token(2).is_err());
        assert!(floor_at_30.token(i64::MIN).is_err());
    }

    #[test]
    fn c22_a_floor_that_rises_leaves_earlier_tokens_theirs() {
        let floors = floors();
        let early = floor(1_000, 6).token(38).expect("a token");
        let late = floor(5_000, 89).token(91).expect("a token");
        for floor in [floor(1_000, 6), floor(1_000, 6), floor(5_000, 89)] {
            floors.note(floor).expect("it rises");
        }
        assert_eq!((floors.revision(early), floors.revision(late)), (Some(38), Some(91)));
        assert!(floors.note(floor(4_000, 100)).is_err(), "it has fallen");
    }

    /// C16: a claim that waits while the floor rises has one token.
    #[test]
    fn c22_a_claim_has_the_token_of_the_floor_of_its_time() {
        let floors = floors();
        let (early, late) = (floor(1_000, 6), floor(9_000, 50));
        floors.note(early).expect("the first");
        floors.note(late).expect("it rises");
        let token = |revision| floors.token(revision).expect("a token");
        assert_eq!(
            (token(38), token(51)),
            (early.token(38).expect("a token"), early.token(51).expect("a token"))
        );
        assert_eq!(token(52), late.token(52).expect("a token"));
        for revision in [8, 38, 50, 51, 52, 53] {
            assert_eq!(floors.revision(token(revision)), Some(revision));
        }
    }

    #[test]
    fn c26_tokens_that_are_reserved_are_of_the_same_claim() {
        let floors = floors();
        floors.note(floor(1_000, 30)).expect("the first");
        let count = |number, wanted| floors.following(token(number), wanted).map(TokenRange::count);
        assert_eq!(floors.following(token(1_512), 5).map(TokenRange::first), Some(token(1_513)));
        assert_eq!([count(1_512, 5), count(1_512, 64), count(1_570, 64)], [5, 63, 5].map(Some));
        assert_eq!([count(1_575, 1), count(999, 1)], [None, None], "the next is another claim's");
    }

    #[test]
    fn c22_a_floor_is_raised_to_the_clock_while_nobody_has_a_claim() {
        let (floors, now) = (floors(), now());
        let is_due = |time, cluster, is_unused| {
            let found = Written { floor: floor(time, 30), cluster };
            floors.due(Some(&found), is_unused, 38, now).is_some()
        };
        assert_eq!(floors.due(None, false, 38, now), Some(now));
        assert!(is_due(now - 2 * BEHIND, 0, true));
        assert!(!is_due(now - 2 * BEHIND, 0, false), "a claim has its token by this floor");
        assert!(!is_due(now, 0, true), "it is not behind");
        assert!(is_due(now + 10_000_000, 7, false), "it is that of another cluster");
        let ahead = Written { floor: floor(now + 10_000_000, 30), cluster: 7 };
        assert!(floors.due(Some(&ahead), true, 38, now) >= Some(now + 10_000_000 + 9 * 64));
    }

    #[test]
    fn c22_a_floor_that_is_not_understood_is_none() {
        let good = Written { floor: Floor { time: 12, revision: 3, written: 4 }, cluster: 0xab };
        assert_eq!(written(b"12 3 ab", 4), Some(good));
        for bad in [
            "", "12", "12 3", "12 3 ", " 3 ab", "-1 3 ab", "12 -3 ab", "12 3 xy", "later:12 3 ab",
            "9007199254740991 3 a", "1 3 a b",
        ] {
            assert_eq!(written(bad.as_bytes(), 4), None, "{bad}");
        }
    }

    /// A floor that can be read is written back unchanged.
    #[test]
    fn fuzz_floors() {
        const WORDS: &[&str] =
            &["1795251431457000", " ", "cdf818194e3a8c32", "-", "+", "ffffffffffffffff"];
        lock_fuzz::check(|(parts, made)| {
            let text = lock_fuzz::text(WORDS, parts);
            let Some(found) = written(text.as_bytes(), 1) else { return };
            let Floor { time, revision, .. } = found.floor;
            let _ = found.floor.token(*made);
            let text = format!("{time} {revision} {:x}", found.cluster);
            assert_eq!(written(text.as_bytes(), 1), Some(found));
        });
    }
}
