//! File names for texts of any length.

use sha2::{Digest, Sha256};

/// Length of a digest as text.
pub(crate) const DIGITS: usize = 64;

/// Returns the digest of a text, in hexadecimal digits.
pub(crate) fn hex_digest(bytes: impl AsRef<[u8]>) -> String {
    hex::encode(Sha256::digest(bytes.as_ref()))
}
