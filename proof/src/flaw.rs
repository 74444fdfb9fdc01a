//! Deliberate faults. The worlds must notice each; otherwise the checks are blind.

use std::fmt;
use std::str::FromStr;

/// Defines the flaws, and the list of all of them.
macro_rules! flaws {
    ($(#[doc = $what:literal] $name:ident,)*) => {
        /// A fault of the server, the network, a clock, a client or the resource.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flaw {
            $(#[doc = $what] $name,)*
        }

        impl Flaw {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Describes the flaw in a sentence.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$name => $what.trim(),)*
                }
            }
        }
    };
}

flaws! {
    /// A release ends the hold of any owner.
    ReleaseByName,
    /// A grant has the token of the previous grant.
    TokenReused,
    /// A hold ends after half of its TTL.
    HoldEndsEarly,
    /// The clocks of holders lose a tenth of the time.
    SlowClock,
    /// A pushed grant counts from its arrival.
    PushStampedOnArrival,
    /// The resource accepts every write.
    NoFence,
    /// A hold may exist beside any other.
    ExclusiveTakenForShared,
    /// Each holder has the first slots.
    SlotGivenTwice,
    /// A withdrawal is only a release.
    WithdrawalForgotten,
    /// A release is confirmed, but not done.
    ReleaseForgotten,
    /// A lost hold is extended.
    ExtensionOfTheLost,
    /// Reserved tokens are reserved again.
    TokensReservedTwice,
    /// A waiter has no place, and finds the lock free only by chance.
    PlaceLost,
    /// A recorded run is not found.
    RecordForgotten,
    /// An extension is told and not carried out, so a run keeps nobody out.
    NobodyKeptOut,
    /// An inspection shows the first holder for ever.
    StateFrozen,
    /// A request without an answer is reported as not applied.
    UnknownToldAsNo,
    /// The machines sleep for 10 s, and their timers do not notice.
    SleepUnnoticed,
    /// A client waits four times as long as its request time-out.
    PatientClient,
    /// A release is done, but never confirmed.
    ReleaseUnanswered,
    /// A release reports the failure of its request.
    ReleaseTellsFailures,
    /// A hold that is not renewed stays for a day.
    HoldStays,
    /// A waiter that is silent keeps its place.
    SilentWaiterStays,
    /// Each request has a right of its own to share holds.
    HoldsNotShared,
    /// The observer of an election begins anew at each look, and half of the looks show the first leader.
    ObserverForgets,
}

/// The name of the variant.
impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl FromStr for Flaw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.iter().copied().find(|flaw| flaw.to_string() == text);
        named.ok_or_else(|| format!("no flaw is called {text}: there are {:?}", Self::ALL))
    }
}
