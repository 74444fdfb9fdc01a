//! The slot of a key, and the servers of each slot, as they report them.

use std::ops::RangeInclusive;

use lock_core::BackendError;
use redis::Value;

use crate::protocol::error::no_server;
use crate::topology::hosts::host_and_port;

/// Slots with the same servers.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) slots: RangeInclusive<u16>,
    pub(super) primary: String,
    pub(super) replicas: Vec<String>,
}

/// Number of slots.
pub(super) const SLOTS: u16 = 16384;

/// Returns the slot of a key, as in <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>:
/// only the text between the first braces counts, unless it is empty.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    crc16(tag_of(key).unwrap_or(key)) % SLOTS
}

fn tag_of(key: &[u8]) -> Option<&[u8]> {
    let after = key.iter().position(|byte| *byte == b'{').and_then(|open| key.get(open + 1..))?;
    let tag = after.iter().position(|byte| *byte == b'}').and_then(|close| after.get(..close))?;
    (!tag.is_empty()).then_some(tag)
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    let shifted = |crc: u16, _| match crc & 0x8000 {
        0 => crc << 1,
        _ => (crc << 1) ^ 0x1021,
    };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ (u16::from(*byte) << 8), shifted))
}

/// Reads the reply to `CLUSTER SLOTS` of the server at `host`.
pub(super) fn shards(reply: Value, host: &str) -> Result<Vec<Shard>, BackendError> {
    let parts = if let Value::Array(parts) = reply { parts } else { Vec::new() };
    let shards: Vec<Shard> = parts.into_iter().filter_map(|part| shard(part, host)).collect();
    match shards.is_empty() {
        true => Err(no_server("the server knows of no slots", "it may have just joined")),
        false => Ok(shards),
    }
}

/// Parses `[first slot, last slot, primary, replica, …]`.
fn shard(part: Value, host: &str) -> Option<Shard> {
    let Value::Array(part) = part else { return None };
    let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = &part[..] else {
        return None;
    };
    let slots = u16::try_from(*first).ok()?..=u16::try_from(*last).ok()?;
    let replicas = replicas.iter().filter_map(|replica| server(replica, host)).collect();
    Some(Shard { slots, primary: server(primary, host)?, replicas })
}

/// Parses `[host, port, …]`. A server that does not know its own host means the address at which it was asked. It
/// gives `?` for the unknown host of another.
fn server(part: &Value, asked: &str) -> Option<String> {
    let Value::Array(part) = part else { return None };
    let [host, Value::Int(port), ..] = &part[..] else { return None };
    let host = match host {
        Value::BulkString(host) => str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        _ => "",
    };
    let host = if host.is_empty() { asked } else { host };
    (host != "?").then_some(())?;
    Some(host_and_port(host, u16::try_from(*port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn part(first: i64, last: i64, servers: &[(Value, i64)]) -> Value {
        let servers = servers.iter().map(|(host, port)| {
            Value::Array(vec![
                host.clone(),
                Value::Int(*port),
                text("its id"),
                Value::Array(vec![]),
            ])
        });
        let slots = [Value::Int(first), Value::Int(last)];
        Value::Array(slots.into_iter().chain(servers).collect())
    }

    #[test]
    fn slots_and_their_servers_are_read() {
        let reply = Value::Array(vec![
            part(0, 5460, &[(text("10.0.0.1"), 7000), (text("::1"), 7003)]),
            part(5461, 16383, &[(Value::Nil, 7001)]),
        ]);
        let read = shards(reply, "asked").expect("a map");
        assert_eq!(read[0].slots, 0..=5460);
        assert_eq!(
            (&*read[0].primary, &read[0].replicas[..]),
            ("10.0.0.1:7000", &["[::1]:7003".to_owned()][..])
        );
        assert_eq!(read[1].primary, "asked:7001");
        assert!(shards(Value::Array(vec![]), "asked").is_err_and(|error| error.is_transient()));
        assert!(shards(Value::Nil, "asked").is_err());
    }

    /// The check value of CRC-16/XMODEM, and the examples of the specification.
    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"user1000"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"{bar"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        assert_eq!(slot_of(b"a{"), crc16(b"a{") % SLOTS);
    }

    /// A lock and its companions are in one slot, for any braces in its name.
    #[test]
    fn c02_the_keys_of_a_lock_share_a_slot() {
        use redis::ToRedisArgs;

        use crate::protocol::keys::Keys;

        for name in ["a", "{a}", "}", "{", "{}", "a{b}c", "%7B", "ü"] {
            let name = lock_core::LockName::new(name).expect("a name");
            let keys = Keys::new(&name);
            let slots = keys.claiming("an owner").map(|key| slot_of(&key.to_redis_args().concat()));
            assert!(slots.iter().all(|slot| *slot == slots[0]), "{name}: {slots:?}");
        }
    }

    /// Any reply names servers, or is refused by a typed error.
    #[test]
    fn fuzz_slots() {
        use crate::protocol::reply::tests::value;
        lock_fuzz::check(|(first, last, one, other)| {
            let part = vec![Value::Int(*first), Value::Int(*last), value(one), value(other)];
            let reply = Value::Array(vec![Value::Array(part), value(other)]);
            let _ = (shards(reply, "a"), shards(value(one), "a"));
            assert!(slot_of(lock_fuzz::text(&["{", "}", "a"], one).as_bytes()) < SLOTS);
        });
    }
}
