use super::*;

fn health(check: fn(&Info<'_>) -> Finding, info: &str) -> Health {
    check(&Info::parse(info)).health
}

#[test]
fn c31_versions_are_compared_as_numbers() {
    for (version, expected) in [
        ("7.0.15", Health::Good),
        ("6.2.7", Health::Good),
        ("6.2.6", Health::Risk),
        ("7.0.0", Health::Good),
        ("10.0", Health::Good),
        ("6.0.16", Health::Risk),
        ("5.9.9", Health::Risk),
        ("", Health::Risk),
    ] {
        assert_eq!(health(self::version, &format!("redis_version:{version}\r\n")), expected);
    }
}

#[test]
fn c31_a_compatible_server_is_named() {
    let seen = |info: &str| version(&Info::parse(info)).seen;
    for (info, shown) in [
        ("redis_version:7.0.15\r\n", "it speaks as Redis 7.0.15"),
        (
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n",
            "Valkey 8.1.3: it speaks as Redis 7.2.4",
        ),
        (
            "redis_version:7.4.0\r\ndragonfly_version:df-v1.30.1\r\n",
            "Dragonfly df-v1.30.1: it speaks as Redis 7.4.0",
        ),
    ] {
        assert_eq!(seen(info), shown);
    }
}

/// Redis and Valkey report it in different fields, and a sentinel has no role.
#[test]
fn c31_a_sentinel_is_named() {
    for info in ["redis_mode:sentinel\r\n", "server_mode:sentinel\r\n"] {
        assert!(role(&Info::parse(info)).seen.contains("is a sentinel"), "{info}");
    }
}

#[test]
fn c31_an_evicting_policy_is_a_risk_with_and_without_a_limit() {
    assert_eq!(health(eviction, "maxmemory:0\r\nmaxmemory_policy:volatile-lru"), Health::Risk);
    assert_eq!(health(eviction, "maxmemory:9\r\nmaxmemory_policy:allkeys-lru"), Health::Risk);
    assert_eq!(health(eviction, "maxmemory:9\r\nmaxmemory_policy:noeviction"), Health::Good);
    assert_eq!(health(eviction, ""), Health::Unknown);
}

#[test]
fn c44_a_server_that_tells_of_all_changes_is_known() {
    let tells = |events| learns_by(events) == "a watch sees changes at once";
    assert!(["KA", "AKE", "g$xzKlh"].into_iter().all(tells));
    assert!(!["", "AE", "g$xK", "K"].into_iter().any(tells));
}

#[test]
fn c31_a_file_that_only_the_system_syncs_is_a_risk() {
    let of = |info: &str, sync| persistence(&Info::parse(info), sync).health;
    for (sync, health) in [
        (Some("no"), Health::Risk),
        (Some("everysec"), Health::Good),
        (Some("always"), Health::Good),
        (None, Health::Good),
    ] {
        assert_eq!(of("aof_enabled:1\r\n", sync), health, "{sync:?}");
        assert_eq!(of("aof_enabled:0\r\n", sync), Health::Risk, "{sync:?}");
    }
}
