//! Whether opening a file creates it.

/// Whether a file is created that is not there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Creation {
    Create,
    Never,
}
