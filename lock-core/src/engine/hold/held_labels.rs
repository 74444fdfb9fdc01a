//! The labels under which a client holds its locks.

use std::sync::Arc;

use foldhash::HashMap;

use crate::model::{Claim, Label, LockName};
use crate::sync::{Mutex, locked};

/// Numbers of the holds of one client, by lock and label (C43): a wait under the label of a hold may be its holder's.
///
/// A mutex of its own keeps a warning away from the registry, which renewals and acquisitions need. An empty label
/// tells no task from another, and is not counted.
#[derive(Debug, Default)]
pub(crate) struct HeldLabels {
    holds: Mutex<HashMap<(LockName, Label), usize>>,
}

/// The label of one hold, counted until the drop.
#[derive(Debug)]
pub(crate) struct HeldLabel {
    labels: Arc<HeldLabels>,
    key: (LockName, Label),
}

impl HeldLabels {
    /// Counts a hold of `claim`; `None` if its label is empty.
    pub(crate) fn count(self: &Arc<Self>, claim: &Claim) -> Option<HeldLabel> {
        let key = Some((claim.name.clone(), claim.label.clone()));
        let key = key.filter(|(_, label)| !label.as_str().is_empty())?;
        *locked(&self.holds).entry(key.clone()).or_default() += 1;
        Some(HeldLabel { labels: self.clone(), key })
    }

    /// Returns true if this client holds the lock of `claim` under the same label.
    pub(crate) fn has(&self, claim: &Claim) -> bool {
        locked(&self.holds).contains_key(&(claim.name.clone(), claim.label.clone()))
    }
}

impl Drop for HeldLabel {
    fn drop(&mut self) {
        let mut holds = locked(&self.labels.holds);
        if let Some(count) = holds.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LockRequest;

    #[test]
    fn r1_a_label_is_counted_as_long_as_one_of_its_holds() {
        let labels = Arc::new(HeldLabels::default());
        let claim = |name, label| LockRequest::new(name).label(label).claim().expect("a claim");
        let (one, two) = (labels.count(&claim("a", "me")), labels.count(&claim("a", "me")));
        assert!(labels.count(&claim("a", "")).is_none(), "an empty label says nothing");
        for (name, label, has) in [("a", "me", true), ("a", "", false), ("b", "me", false)] {
            assert_eq!(labels.has(&claim(name, label)), has, "{name} {label}");
        }
        drop(one);
        assert!(labels.has(&claim("a", "me")));
        drop(two);
        assert!(locked(&labels.holds).is_empty(), "something is left");
    }
}
