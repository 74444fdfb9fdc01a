//! The value of a claim's key: its label and, if the claim was granted at once, since when it holds.
//!
//! etcd tells no wall time. So the holder writes its own, in ms since 1970, behind the label on a line of
//! its own: a label has no line breaks. A claim that had to queue writes no time, since nobody writes to
//! its key when its turn comes.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lock_core::Label;

/// What the value of a hold that outlasts its work begins with (C41): no text of UTF-8 has such a byte, so that
/// the values of all other claims are less.
pub(crate) const RETIRED: [u8; 1] = [0xff];

/// The value of a hold that outlasts its work, which was `value` before.
pub(crate) fn retired(value: &[u8]) -> Vec<u8> {
    [&RETIRED, value.strip_prefix(&RETIRED).unwrap_or(value)].concat()
}

/// The value of a claim with a place in the queue.
pub(crate) fn of_waiter(label: &Label) -> String {
    label.as_str().to_owned()
}

/// The value of a claim that is granted at once, at `now` on the holder's wall clock (C45).
pub(crate) fn of_holder(label: &Label, now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    // The label itself, not as it is shown, where some characters are escaped.
    format!("{}\n{}", label.as_str(), since.as_millis())
}

/// The label of a claim, and since when it holds the lock, where the value says so.
pub(crate) fn read(value: &[u8]) -> (Label, Option<SystemTime>) {
    let value = value.strip_prefix(&RETIRED).unwrap_or(value);
    let Ok(value) = str::from_utf8(value) else { return (Label::default(), None) };
    let (label, since) = value.split_once('\n').unwrap_or((value, ""));
    let since = since.parse().ok().map(Duration::from_millis);
    let since = since.and_then(|since| UNIX_EPOCH.checked_add(since));
    (Label::new(label).unwrap_or_default(), since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c45_a_value_is_read_as_it_is_written() {
        let now = UNIX_EPOCH + Duration::from_millis(1_795_251_431_457);
        for label in ["", "a host", "12", "ü", "\\u{202e}", "a\u{202e}b"] {
            let label = Label::new(label).expect("a good label");
            assert_eq!(read(of_waiter(&label).as_bytes()), (label.clone(), None));
            assert_eq!(read(of_holder(&label, now).as_bytes()), (label, Some(now)));
        }
    }

    #[test]
    fn c41_a_retired_value_is_greater_than_all_others_and_tells_the_same() {
        let now = UNIX_EPOCH + Duration::from_millis(1);
        for label in ["", "a host", "\u{10ffff}"] {
            let label = Label::new(label).expect("a good label");
            for value in [of_waiter(&label), of_holder(&label, now)] {
                let retired = retired(value.as_bytes());
                assert!(value.as_bytes() < &RETIRED[..] && retired >= RETIRED.to_vec());
                assert_eq!(read(&retired), read(value.as_bytes()));
                assert_eq!(super::retired(&retired), retired, "once more");
            }
        }
    }

    #[test]
    fn c45_a_value_that_nobody_of_us_wrote_tells_no_time() {
        for foreign in ["x\n", "x\ny", "x\n-1", "x\n1\n2", "x\n99999999999999999999"] {
            assert_eq!(read(foreign.as_bytes()).1, None, "{foreign:?}");
        }
        assert_eq!(read(b"\xfe\n1"), (Label::default(), None));
    }
}
