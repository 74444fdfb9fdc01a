//! The README and the pages of `docs/`: their code blocks are the tests of this package.

#[cfg(doctest)]
include!(concat!(env!("OUT_DIR"), "/pages.rs"));
