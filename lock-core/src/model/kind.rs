//! Kinds of hold: exclusive, shared, and permits.

use std::fmt;
use std::sync::Arc;

use super::invalid_input::{InputKind, InvalidInput};

/// Kind of a hold, which decides on the other holds beside it (C33).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Kind {
    /// No other hold: a mutex, or a writer.
    #[default]
    Exclusive,
    /// Other shared holds: a reader.
    Shared,
    /// Holds of the same number of permits, as long as there are permits: a semaphore, a pool.
    OneOf(Permits),
}

impl Kind {
    /// Returns the number of slots of a hold of this kind.
    pub fn slots(self) -> u16 {
        match self {
            Self::Exclusive | Self::Shared => 0,
            Self::OneOf(permits) => permits.taken,
        }
    }

    /// Returns the number of permits of the lock; 0 if it has none.
    pub fn permits(self) -> u16 {
        match self {
            Self::Exclusive | Self::Shared => 0,
            Self::OneOf(permits) => permits.of,
        }
    }

    /// Returns the number of holds of this kind that fit together.
    pub(crate) fn together(self) -> usize {
        match self {
            Self::Exclusive => 1,
            Self::Shared => usize::MAX,
            Self::OneOf(permits) => usize::from(permits.of / permits.taken),
        }
    }
}

/// `exclusive`, `shared`, or as in `2 of 5`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exclusive => f.write_str("exclusive"),
            Self::Shared => f.write_str("shared"),
            Self::OneOf(permits) => permits.fmt(f),
        }
    }
}

/// The permits of a lock, and the number of them that one hold takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Permits {
    taken: u16,
    of: u16,
}

impl Permits {
    /// The most permits that a lock can have.
    pub const MAX: u16 = 1024;

    /// `taken` permits of `of`.
    ///
    /// # Errors
    /// [`InvalidInput`] unless `of` is 1 to [`Permits::MAX`], and `taken` 1 to `of`.
    pub fn new(taken: u16, of: u16) -> Result<Self, InvalidInput> {
        if of == 0 || of > Self::MAX || taken == 0 || taken > of {
            let text = format!(
                "invalid permits, {taken} of {of}: a lock has 1 to {} permits, and a hold takes 1 or more \
                 of them",
                Self::MAX
            );
            return Err(InvalidInput::new(InputKind::Permits, text));
        }
        Ok(Self { taken, of })
    }

    /// Returns the number of permits that one hold takes.
    pub fn taken(self) -> u16 {
        self.taken
    }

    /// Returns the number of permits of the lock.
    pub fn of(self) -> u16 {
        self.of
    }
}

/// Writes the numbers of both, such as `2 of 5`.
impl fmt::Display for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.taken, self.of)
    }
}

/// The slots of a hold (C36), ascending; none unless it is [one of n](Kind::OneOf).
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Slots(Option<Arc<[u16]>>);

impl Slots {
    /// No slots: those of an exclusive or a shared hold.
    pub const NONE: Self = Self(None);

    /// Returns the slots, sorted.
    pub fn new(slots: impl IntoIterator<Item = u16>) -> Self {
        let mut slots: Vec<u16> = slots.into_iter().collect();
        slots.sort_unstable();
        Self((!slots.is_empty()).then(|| slots.into()))
    }

    /// Parses numbers with commas between them; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let slots = text.split(',').map(|slot| slot.parse().ok());
        slots.collect::<Option<Vec<u16>>>().map(Self::new)
    }

    /// The slots, ascending.
    pub fn as_slice(&self) -> &[u16] {
        self.0.as_deref().unwrap_or_default()
    }
}

/// The numbers, with commas between them.
impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.as_slice().iter().map(u16::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_slice().fmt(f)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Slots {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c33_permits_have_bounds() {
        for (taken, of) in [(1, 1), (2, 5), (Permits::MAX, Permits::MAX)] {
            let permits = Permits::new(taken, of).expect("permits");
            assert_eq!((permits.taken(), permits.of()), (taken, of));
        }
        for (taken, of) in [(0, 1), (1, 0), (6, 5), (1, Permits::MAX + 1)] {
            let error = Permits::new(taken, of).expect_err("no permits").to_string();
            assert!(error.contains(&format!("{taken} of {of}")), "{error}");
        }
    }

    #[test]
    fn c36_slots_are_shown_in_their_order() {
        assert_eq!(Slots::new([4, 0, 2]).to_string(), "0,2,4");
        assert_eq!(Slots::new([]), Slots::NONE);
        assert_eq!(Slots::NONE.to_string(), "");
        assert_eq!(Slots::parse("0,2,4"), Some(Slots::new([4, 0, 2])));
        assert_eq!(["", "0,", "x", "70000"].map(Slots::parse), [const { None }; 4]);
    }
}
