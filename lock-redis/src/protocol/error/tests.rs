use std::io;

use super::*;

/// Returns the error of a server with this answer.
fn answered(text: &str) -> BackendError {
    let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("a reply");
    classify(RequestError::Execute(value.extract_error().expect_err(text)))
}

/// The texts of Redis 6.2, 7.0 and 7.2.
#[test]
fn c15_a_missing_right_is_named_whichever_version_says_so() {
    for (answer, says) in [
        ("ERR The user executing the script can't run this command or subcommand", "lacks rights"),
        (
            "ERR ACL failure in script: User u has no permissions to run the 'set' command",
            "grant +set",
        ),
        ("NOPERM this user has no permissions to run the 'evalsha' command", "grant +evalsha"),
        (
            "ERR The user executing the script can't access at least one of the keys mentioned",
            "~NAME",
        ),
        ("ERR ACL failure in script: No permissions to access a key", "~NAME"),
        ("NOPERM User u has no permissions to access the 'a' key", "~NAME"),
        (
            "ERR The user executing the script can't publish to the channel mentioned",
            "&leasehold-*",
        ),
        ("ERR ERR ACL failure in script: No permissions to access a channel", "&leasehold-*"),
    ] {
        let error = answered(answer);
        let text = error.to_string();
        assert!(text.contains(says) && !error.is_transient(), "{answer}: {text}");
    }
}

/// The texts of Redis 7 for a command, and of Redis 6 and 7 for a command in a script.
#[test]
fn c15_a_server_that_takes_no_writes_now_is_asked_again() {
    for (answer, says) in [
        ("ERR max number of clients reached", "maxclients"),
        ("OOM command not allowed when used memory > 'maxmemory'.", "maxmemory"),
        ("MISCONF Errors writing to the AOF file: No space left on device", "its disk"),
        ("READONLY You can't write against a read only replica.", "it is a replica"),
        ("NOREPLICAS Not enough good replicas to write.", "min-replicas-to-write"),
        ("LOADING Redis is loading the dataset in memory", "LOADING"),
        ("BUSY Redis is busy running a script.", "BUSY"),
        ("MASTERDOWN Link with MASTER is down", "MASTERDOWN"),
        ("CLUSTERDOWN The cluster is down", "CLUSTERDOWN"),
        ("TRYAGAIN Multiple keys request during rehashing of slot", "TRYAGAIN"),
        (
            "ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed",
            "maxmemory",
        ),
        ("ERR Error running script: @user_script: 1: MISCONF Redis is configured to", "its disk"),
    ] {
        let error = answered(answer);
        let text = error.to_string();
        assert!(error.is_transient() && text.contains(says), "{answer}: {text}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{answer}: {text}");
    }
}

#[test]
fn c15_a_server_that_will_not_do_it_is_not_asked_again() {
    for (answer, says) in [
        ("NOAUTH Authentication required.", "user and password"),
        ("WRONGPASS invalid username-password pair or user is disabled.", "user and password"),
        ("MOVED 1 127.0.0.1:7001", "redis-cluster://"),
        ("CROSSSLOT Keys in request don't hash to the same slot", "{tag}"),
        ("ERR This instance has cluster support disabled", "redis://"),
        ("ERR unknown command 'EVALSHA', with args beginning with: 'a'", "no EVALSHA"),
        ("WRONGTYPE Operation against a key", "another name"),
    ] {
        let error = answered(answer);
        let text = error.to_string();
        assert!(!error.is_transient() && text.contains(says), "{answer}: {text}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{answer}: {text}");
    }
}

/// A server that answers can be reached.
#[test]
fn c15_what_a_server_says_at_the_opening_is_no_silence() {
    let said = |text: &str| {
        let value = redis::parse_redis_value(format!("-{text}\r\n").as_bytes()).expect("a reply");
        value.extract_error().expect_err(text)
    };
    let io = |text: &str| RedisError::from(io::Error::other(text.to_owned()));
    for (error, is_transient, says) in [
        (said("DENIED Redis is running in protected mode because"), false, "protected-mode no"),
        (said("LOADING Redis is loading the dataset in memory"), true, "reads its data"),
        (said("BUSY Redis is busy running a script."), true, "SCRIPT KILL"),
        (said("MASTERDOWN Link with MASTER is down"), true, "MASTERDOWN"),
        (io("invalid peer certificate: UnknownIssuer"), true, "by TLS"),
        (io("received fatal alert: HandshakeFailure"), true, "by TLS"),
        (io("10.0.0.1:6379: the server is a replica"), true, "no primary"),
        (io("Connection refused"), true, "cannot be reached"),
    ] {
        let error = classify(RequestError::Connect(error));
        let text = error.to_string();
        assert_eq!(error.is_transient(), is_transient, "{text}");
        assert!(text.contains(says), "{text}");
        assert_eq!(text.contains("cannot be reached"), says == "cannot be reached", "{text}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{text}");
    }
}

/// A script may have done a part of its work before a command that the server does not have.
#[test]
fn c15_a_command_that_was_renamed_is_an_unknown_outcome() {
    for answer in [
        "ERR Unknown Redis command called from script script: f_1, on @user_script:1.",
        "ERR Error running script (call to f_1): @user_script:1: @user_script: 1: Unknown Redis command called from Lua script",
    ] {
        let error = answered(answer);
        assert!(!error.is_transient() && error.to_string().contains("rename-command"), "{error}");
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
}
