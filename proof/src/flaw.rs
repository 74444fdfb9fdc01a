//! Faults that are put in on purpose: the worlds must notice each, or their eyes are shut.

use std::fmt;
use std::str::FromStr;

/// Defines the flaws, and the list of all of them.
macro_rules! flaws {
    ($($(#[$what:meta])* $name:ident,)*) => {
        /// A fault of the server, the network, a clock or the resource.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flaw {
            $($(#[$what])* $name,)*
        }

        impl Flaw {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

flaws! {
    /// A release ends the hold of whoever has the lock.
    ReleaseByName,
    /// A grant has the token of the grant before.
    TokenReused,
    /// A hold ends at half of its TTL.
    HoldEndsEarly,
    /// The clocks of holders lose a tenth.
    SlowClock,
    /// A pushed grant counts from its arrival.
    PushStampedOnArrival,
    /// The resource takes every write.
    NoFence,
    /// A hold stands beside any other.
    ExclusiveTakenForShared,
    /// Each holder has the first slots.
    SlotGivenTwice,
    /// A withdrawal is no more than a release.
    WithdrawalForgotten,
    /// A release is told, and not done.
    ReleaseForgotten,
    /// A lost hold is extended all the same.
    ExtensionOfTheLost,
    /// Reserved tokens are reserved again.
    TokensReservedTwice,
    /// A waiter has no place, and finds the lock free by chance.
    PlaceLost,
    /// A run that is recorded is not found.
    RecordForgotten,
    /// A run keeps nobody out once it has ended.
    NobodyKeptOut,
    /// A request without an answer is told as not applied.
    UnknownToldAsNo,
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
