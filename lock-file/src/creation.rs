//! Creation of a missing file when it is opened.

/// Choice to create a missing file, or not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Creation {
    Create,
    Never,
}
