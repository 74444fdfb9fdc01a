//! Answers of the sentinels about the primary, and the choice of one answer.

use lock_core::{BackendError, Finding};

use crate::protocol::error::no_server;

/// Answer of one sentinel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    /// The address of the primary.
    pub(super) address: String,
    /// The number of the failover that made it the primary.
    pub(super) epoch: u64,
    /// Number of sentinels.
    pub(super) sentinels: usize,
}

/// Answers of the sentinels to one question.
pub(super) struct SentinelAnswers {
    /// In the order of the answers, with the address of each sentinel.
    pub(super) named: Vec<(String, Named)>,
    /// The error of the first sentinel without an answer.
    pub(super) error: Option<BackendError>,
}

impl SentinelAnswers {
    /// Returns the answer to use. `known` is the address and the epoch that were used before.
    pub(super) fn newest(self, known: Option<(&str, u64)>) -> Result<Named, BackendError> {
        let sentinels = self.named.iter().map(|(_, named)| named.sentinels).max().unwrap_or(0);
        let has_majority = self.named.len() > sentinels / 2;
        let is_known = |named: &Named| known.is_some_and(|(address, _)| named.address == address);
        let newest = self.named.into_iter().map(|(_, named)| named);
        let newest = newest.max_by_key(|named| (named.epoch, is_known(named)));
        let rules = |named: &Named| {
            let is_newer = known.is_none_or(|(_, epoch)| named.epoch > epoch);
            is_newer || has_majority || is_known(named)
        };
        let stale = || no_server("the sentinels are behind", "too few of them answer");
        newest.filter(rules).ok_or_else(|| self.error.unwrap_or_else(stale))
    }

    /// C31: checks that the sentinels agree.
    pub(super) fn finding(&self, all: usize) -> Finding {
        let answers = self.named.len();
        let Some((_, first)) = self.named.first() else {
            return Finding::risk("sentinels", "none answers: failovers go unnoticed", START);
        };
        if self.named.iter().any(|(_, named)| named.address != first.address) {
            let each = self.named.iter().map(|(sentinel, Named { address, epoch, .. })| {
                format!("{sentinel} names {address} since epoch {epoch}")
            });
            let seen = format!("they disagree: {}", each.collect::<Vec<_>>().join(", "));
            let remedy = "find out which of them is cut off from the others, or from the servers; \
                          examine again if a failover is under way";
            return Finding::risk("sentinels", seen, remedy);
        }
        let seen = format!("{answers} of {all} answer, and name {}", first.address);
        match answers == all && answers > first.sentinels / 2 {
            true => Finding::good("sentinels", seen),
            false => Finding::risk("sentinels", seen, START),
        }
    }
}

const START: &str =
    "start the others, and name all of them in the URL: each failover takes a majority";

#[cfg(test)]
mod tests {
    use super::*;

    fn told(answers: &[(&str, u64)]) -> SentinelAnswers {
        let named = answers.iter().map(|(address, epoch)| {
            let named = Named { address: (*address).to_owned(), epoch: *epoch, sentinels: 3 };
            (String::new(), named)
        });
        SentinelAnswers { named: named.collect(), error: None }
    }

    #[test]
    fn p2_the_newest_answer_rules() {
        for (answers, known, expected) in [
            (&[("a", 1), ("b", 2), ("b", 2)][..], Some(("a", 1)), Some("b")),
            (&[("a", 1), ("b", 2), ("b", 2)], None, Some("b")),
            // One sentinel may learn of a failover before the others do.
            (&[("b", 2), ("a", 1), ("a", 1)], Some(("a", 1)), Some("b")),
            // A single stale sentinel does not bring back the former primary.
            (&[("a", 1)], Some(("b", 2)), None),
            (&[("a", 1)], Some(("a", 1)), Some("a")),
            (&[("a", 1)], None, Some("a")),
            // During a failover an address may come before its epoch.
            (&[("b", 1), ("a", 1), ("a", 1)], Some(("a", 1)), Some("a")),
            // The sentinels were set up anew.
            (&[("b", 0), ("b", 0)], Some(("a", 5)), Some("b")),
            (&[], Some(("a", 1)), None),
        ] {
            let newest = told(answers).newest(known).ok().map(|named| named.address);
            assert_eq!(newest.as_deref(), expected, "{answers:?} after {known:?}");
        }
    }
}
