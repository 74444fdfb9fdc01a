//! Which shard a name belongs to: rendezvous hashing.

use sha2::{Digest, Sha256};

use crate::model::LockName;

/// How strongly a shard is bound to a name: of several shards the one with the greatest score has it.
///
/// It is the first 8 bytes, as a big-endian number, of SHA-256 over the shard's id, a zero byte and the name.
/// So every version and architecture computes the same, in any language, and a shard that comes or goes
/// changes no score of the others.
pub(super) fn score(id: &str, name: &LockName) -> u64 {
    let digest = Sha256::new().chain_update(id).chain_update([0]).chain_update(name.as_str());
    digest.finalize().iter().take(8).fold(0, |score, byte| score << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `printf 'a\0stock:42' | sha256sum` computes them: another hash would move every name.
    #[test]
    fn the_score_is_the_same_for_ever() {
        let name = |name| LockName::new(name).expect("a name");
        assert_eq!(score("a", &name("stock:42")), 0xd0a1_5036_a53e_4216);
        assert_eq!(score("redis-2", &name("größe")), 0xea9c_68b7_6bbe_dcd1);
    }
}
