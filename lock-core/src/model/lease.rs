//! The proof of a hold.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    Bound, Clock, FencingToken, InputKind, InvalidInput, Kind, LockName, Moment, OwnerId, Permits,
    Slots, SystemClock, Ttl,
};

/// The proof of a hold: its lock, its owner, its token, and the time until which to believe in it.
///
/// A lease is plain data. It neither renews nor releases itself; a [`LockGuard`](crate::LockGuard)
/// does. Take a lease out of a guard with [`detach`](crate::LockGuard::detach) to hand the hold to
/// another part of the program or to another process, and put it under a guard again with
/// [`LockClient::attach`](crate::LockClient::attach).
#[derive(Clone, Debug)]
#[must_use = "a lease is neither renewed nor released: attach it, or let it expire on purpose"]
pub struct Lease {
    pub(crate) name: LockName,
    pub(crate) owner: OwnerId,
    pub(crate) token: FencingToken,
    /// The token of the hold on the server. It is less than `token` if the hold was passed on within its client.
    pub(crate) granted_as: FencingToken,
    /// The TTL that each renewal asks for.
    pub(crate) asked: Ttl,
    /// The TTL of the server's last grant or extension.
    pub(crate) granted: Duration,
    pub(crate) deadline: Moment,
    /// The kind, which decides on the other holds beside this one.
    pub(crate) kind: Kind,
    pub(crate) slots: Slots,
    /// True if a request of the claim was never answered, and so may arrive after the release.
    pub(crate) unresolved: bool,
    /// The time until which the hold keeps others out, however early its work ends (C41). It stops in suspend, which
    /// can only make the span longer.
    pub(crate) keeps_out_until: Option<Instant>,
    /// The bound of renewing, while no guard has the lease.
    pub(crate) bound: Option<Box<Bound>>,
}

impl Lease {
    /// The lock that is held.
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// Returns the owner. It is a capability: its bearer can extend and release the hold.
    pub fn owner(&self) -> OwnerId {
        self.owner
    }

    /// The fencing token of this hold. Extending keeps it.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the kind, which decides on the other holds beside this one.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The slots of this hold (C36), ascending; none unless it is one of n. Extending keeps them.
    pub fn slots(&self) -> &[u16] {
        self.slots.as_slice()
    }

    /// Returns the time for which the server keeps the lease from its grant or last extension.
    ///
    /// This is the server's TTL. It may be less than was asked (the first grant that was pushed to a waiter is short
    /// until it is renewed) or more (a server that counts whole seconds).
    pub fn ttl(&self) -> Duration {
        self.granted
    }

    /// Returns the moment on the holder's own clock at which the holder must stop believing.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Returns the longest time that the server may keep the lease from its last grant or extension.
    pub(crate) fn kept_for(&self) -> Duration {
        self.granted.max(self.asked.as_duration())
    }

    /// Exports the lease for another process. **Treat the text as a password**: everybody who has it can extend and
    /// release the hold.
    ///
    /// The text has no deadline, since clocks differ: [`import`](Lease::import) returns a lease that is not believed
    /// until [`attach`](crate::LockClient::attach) has proven it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), lock_core::LockError> {
    /// use lock_core::{Lease, LockClient, MemoryBackend};
    ///
    /// let client = LockClient::new(MemoryBackend::new());
    /// let text = client.acquire("report").await?.detach()?.export();
    ///
    /// let guard = client.attach(Lease::import(&text)?).await?;
    /// assert!(guard.is_held());
    /// # Ok(()) }
    /// ```
    pub fn export(&self) -> String {
        let (owner, ttl) = (self.owner.expose(), self.asked.as_millis());
        let keeps_out = keeps_out_suffix(self.keeps_out_until);
        let bound = bound_suffix(self.bound.as_deref());
        let token = match self.token == self.granted_as {
            true => self.token.to_string(),
            false => format!("{}/{}", self.token, self.granted_as),
        };
        let (version, name) =
            (if self.unresolved { UNRESOLVED } else { RESOLVED }, self.name.as_str());
        let kind = kind_suffix(self.kind, &self.slots);
        format!("{version}:{owner}:{token}{kind}:{ttl}{keeps_out}{bound}:{name}")
    }

    /// Reads what [`export`](Lease::export) wrote.
    ///
    /// # Errors
    /// [`InvalidInput`] if the text is not an exported lease. The error shows no part of the text.
    pub fn import(text: &str) -> Result<Self, InvalidInput> {
        let mut parts = text.splitn(5, ':');
        let mut part = || parts.next().unwrap_or_default();
        let unresolved = match part() {
            RESOLVED => false,
            UNRESOLVED => true,
            _ => return Err(refused("it does not start with lease1")),
        };
        let owner = part().parse().map_err(|_| refused("its owner is not 32 hex digits"))?;
        let hold = part();
        let (token, kind) = hold.split_once('@').unwrap_or((hold, ""));
        let (token, granted_as) = tokens(token).ok_or_else(|| refused("its token is none"))?;
        let (kind, slots) = kind_of(kind).ok_or_else(|| refused("its kind is none"))?;
        let ttl = part();
        let (ttl, bound) = ttl.split_once('-').map_or((ttl, None), |(ttl, left)| (ttl, Some(left)));
        let (ttl, keeps_out) =
            ttl.split_once('+').map_or((ttl, None), |(ttl, left)| (ttl, Some(left)));
        let ttl = millis(ttl).ok_or_else(|| refused("its TTL is not 10 ms to 24 h"))?;
        let keeps_out_until = keeps_out.map(keeps_out_of).transpose()?;
        let name = LockName::new(part()).map_err(|_| refused("it names no lock"))?;
        let (granted, deadline) = (ttl.as_duration(), SystemClock.now());
        let asked = ttl;
        let bound = bound.map(|left| bound_of(left, deadline)).transpose()?;
        Ok(Self {
            name,
            owner,
            token,
            granted_as,
            asked,
            granted,
            deadline,
            kind,
            slots,
            unresolved,
            keeps_out_until,
            bound,
        })
    }
}

/// Start of a lease's text: its version, and a mark if a request of its claim may come late.
const RESOLVED: &str = "lease1";
const UNRESOLVED: &str = "lease1-unresolved";

/// Parses the token of a hold, and its token on the server if that is another.
fn tokens(text: &str) -> Option<(FencingToken, FencingToken)> {
    let (token, granted_as) = text.split_once('/').unwrap_or((text, text));
    Some((token.parse().ok()?, granted_as.parse().ok()?))
}

/// Text behind the token of a hold that is not exclusive: `@shared`, or its slots as in `@0,2/5`.
fn kind_suffix(kind: Kind, slots: &Slots) -> String {
    match kind {
        Kind::Exclusive => String::new(),
        Kind::Shared => "@shared".to_owned(),
        Kind::OneOf(permits) => format!("@{slots}/{}", permits.of()),
    }
}

/// Reads a [`kind_suffix`] without its `@`.
fn kind_of(text: &str) -> Option<(Kind, Slots)> {
    match text {
        "" => Some((Kind::Exclusive, Slots::NONE)),
        "shared" => Some((Kind::Shared, Slots::NONE)),
        _ => {
            let (slots, of) = text.split_once('/')?;
            let slots = Slots::parse(slots)?;
            let (taken, of) = (u16::try_from(slots.as_slice().len()).ok()?, of.parse().ok()?);
            let permits = Permits::new(taken, of).ok()?;
            slots.as_slice().iter().all(|slot| *slot < of).then_some((Kind::OneOf(permits), slots))
        }
    }
}

/// Text behind the TTL of a hold that keeps others out (C41): `+` and the remaining milliseconds.
fn keeps_out_suffix(until: Option<Instant>) -> String {
    let left = |until: Instant| until.saturating_duration_since(Instant::now()).as_millis();
    until.map_or_else(String::new, |until| format!("+{}", left(until)))
}

/// Reads a [`keeps_out_suffix`] without its `+`. The span ends later by the time that the text was on its way.
fn keeps_out_of(left: &str) -> Result<Instant, InvalidInput> {
    let left = left.parse::<u32>().map(|left| Duration::from_millis(left.into()));
    left.map(|left| Instant::now() + left)
        .map_err(|_| refused("the rest of its span is no number of milliseconds"))
}

/// Text behind the TTL of a hold that is not renewed for ever (C13): `-` and the milliseconds until renewing stops, `-` and
/// those until the hold is over.
fn bound_suffix(bound: Option<&Bound>) -> String {
    let left = |until| SystemClock.now().until(until).as_millis();
    bound.map_or_else(String::new, |bound| {
        format!("-{}-{}", left(bound.renew_until), left(bound.ends))
    })
}

/// Reads a [`bound_suffix`] without its first `-`.
fn bound_of(text: &str, now: Moment) -> Result<Box<Bound>, InvalidInput> {
    let after = |left: &str| Some(now.after(Duration::from_millis(left.parse().ok()?)));
    let bound = text.split_once('-').and_then(|(renew, end)| {
        Some(Box::new(Bound { renew_until: after(renew)?, ends: after(end)? }))
    });
    bound.ok_or_else(|| refused("its bound is no number of milliseconds"))
}

fn millis(text: &str) -> Option<Ttl> {
    Ttl::new(Duration::from_millis(text.parse().ok()?)).ok()
}

/// The error for a text that is not an exported lease. It shows nothing of the text, which may be most of a lease.
fn refused(reason: &str) -> InvalidInput {
    InvalidInput::new(InputKind::Lease, format!("not an exported lease: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Renewal;

    #[test]
    fn c32_a_lease_shows_no_secret_and_imports_what_it_exported() {
        let lease = Lease {
            name: LockName::new("a:b").expect("a name"),
            owner: OwnerId::random(),
            token: FencingToken::MAX,
            granted_as: FencingToken::MAX,
            asked: Ttl::default(),
            granted: Ttl::default().as_duration(),
            deadline: SystemClock.now(),
            kind: Kind::Exclusive,
            slots: Slots::NONE,
            unresolved: false,
            keeps_out_until: None,
            bound: None,
        };
        assert!(!format!("{lease:?}").contains(&lease.owner.expose()));
        let read = Lease::import(&lease.export()).expect("its own text");
        assert_eq!((read.name, read.owner, read.token), (lease.name, lease.owner, lease.token));
    }

    #[test]
    fn c12_a_hold_that_was_passed_on_is_renewed_as_the_server_knows_it() {
        let text = format!("lease1:{}:7/5:1000:a", OwnerId::random().expose());
        let lease = Lease::import(&text).expect("a lease");
        assert_eq!((lease.token.get(), lease.granted_as.get()), (7, 5));
        assert_eq!(Renewal::new(&lease, lease.asked).token.get(), 5);
        assert_eq!(lease.export(), text);
    }

    #[test]
    fn c36_a_lease_takes_its_kind_and_slots_to_another_process() {
        for hold in ["7@shared", "7@0,2/5"] {
            let text = format!("lease1:{}:{hold}:1000:a", OwnerId::random().expose());
            assert_eq!(Lease::import(&text).expect("a lease").export(), text);
        }
        let of_five = |hold: &str| format!("lease1:{}:{hold}:1000:a", OwnerId::random().expose());
        let lease = Lease::import(&of_five("7@0,2/5")).expect("a lease");
        assert_eq!((lease.kind().to_string(), lease.slots()), ("2 of 5".to_owned(), &[0, 2][..]));
        for bad in ["7@", "7@5/5", "7@0", "7@x/5", "7@0,1,2/2"] {
            assert!(Lease::import(&of_five(bad)).is_err() || bad == "7@", "{bad}");
        }
    }

    #[test]
    fn c19_a_lease_tells_another_process_what_is_unresolved() {
        let text = format!("lease1:{}:7:1000:a", OwnerId::random().expose());
        let mut lease = Lease::import(&text).expect("a lease");
        assert!(!lease.unresolved);
        assert_eq!(lease.export(), text);
        lease.unresolved = true;
        assert!(Lease::import(&lease.export()).expect("its own text").unresolved);
    }

    #[test]
    fn a_text_that_is_no_lease_is_refused_without_repeating_it() {
        let secret = "0123456789abcdef0123456789abcdeg";
        for bad in ["", "lease1", "lease2:x", &format!("lease1:{secret}:5:1000:a")] {
            let error = Lease::import(bad).expect_err("no lease").to_string();
            assert!(!error.contains("abcdef"), "{error}");
        }
    }

    /// A text is a lease that is exported and imported as the same, or is refused without its owner.
    #[test]
    fn fuzz_leases() {
        const OWNER: &str = "0123456789abcdef0123456789abcdef";
        const WORDS: &[&str] = &[
            "lease1:",
            "lease1-unresolved:",
            "0123456789abcdef0123456789abcdef:",
            OWNER,
            ":",
            "7",
            "9007199254740991",
            "/5",
            "@shared",
            "@0,2/5",
            "@",
            ",",
            "/",
            "+",
            "1000",
            ":1000:",
            ":1000+500:",
            ":1000-500-1500:",
            "-",
            "a",
            "lease1:0123456789abcdef0123456789abcdef:",
        ];
        lock_fuzz::check(|parts| {
            let text = lock_fuzz::text(WORDS, parts);
            match Lease::import(&text) {
                Ok(lease) => {
                    let shown = format!("{lease:?}");
                    let owner = lease.owner.expose();
                    assert!(
                        !shown.contains(&owner) || lease.name.as_str().contains(&owner),
                        "{shown}"
                    );
                    let again = Lease::import(&lease.export()).expect("its own text");
                    // The time left of a span and of a bound shrinks meanwhile.
                    let of = |lease: &Lease| {
                        Lease { keeps_out_until: None, bound: None, ..lease.clone() }.export()
                    };
                    assert_eq!(of(&again), of(&lease));
                }
                Err(refused) => assert!(!refused.to_string().contains(&OWNER[8..]), "{refused}"),
            }
        });
    }
}
