//! Commands that hold a lock beside each other.

use lock_testkit::eventually;
use rustix::process::Signal;
use serde_json::Value;

use crate::LIMIT;
use crate::shell::{Running, Shell};
use crate::store::Store;

const TELLS_ITS_SLOT: &str = "echo $LEASEHOLD_SLOT > slot; exec sleep 60";

pub(crate) async fn c36_each_of_three_has_a_slot_and_a_fourth_has_none(store: &impl Store) {
    let shell = Shell::of(store);
    let mut three = Vec::new();
    for slot in ["0\n", "1\n", "2\n"] {
        let options = ["--limit", "3", "--label", "web-3", "--ttl", "6s"];
        three.push(shell.hold(&options, "a", TELLS_ITS_SLOT).await);
        eventually("its slot", LIMIT, async || shell.read("slot") == slot).await;
    }
    let fourth = ["run", "--limit", "3", "--no-wait", "a", "--", "printenv", "LEASEHOLD_SLOT"];
    let refused = shell.run(&fourth).await;
    assert_eq!((refused.code, &*refused.stdout), (75, ""), "{}", refused.stderr);
    let conflict = shell.run(&["run", "--limit", "5", "--no-wait", "a", "--", "true"]).await;
    assert_eq!(conflict.code, 64, "{}", conflict.stderr);
    assert!(conflict.stderr.contains("holders count 3 permits"), "{}", conflict.stderr);
    another_number_waits(&shell).await;

    // C38: the hold of the second ends, and the others last.
    let second = inspected(&shell).await["holders"][1].clone();
    assert_eq!((&second["kind"], &second["slots"]), (&"1 of 3".into(), &vec![1].into()));
    let owner = second["owner"].as_str().expect("one of ours");
    let ended = shell.run(&["release", "--force", "--owner", owner, "a"]).await;
    assert!(ended.stdout.contains("1 of 3, slot 1)"), "{} {}", ended.stdout, ended.stderr);
    assert_eq!(three[1].code().await, 76, "{}", three[1].stderr());
    let next = shell.run(&fourth).await;
    assert_eq!((next.code, &*next.stdout), (0, "1\n"), "{}", next.stderr);
    for held in [0, 2] {
        end(&mut three[held]).await;
    }
}

/// C33: a run with another number waits, and is busy at the end of its wait. The doctor names both numbers meanwhile.
async fn another_number_waits(shell: &Shell) {
    let waits = ["-v", "run", "--limit", "5", "--wait", "300ms", "a", "--", "true"];
    let mut busy = shell.run(&waits).await;
    // A busy machine needs all of a short wait to connect.
    eventually("it waits for the lock", LIMIT, async || {
        if busy.code != 75 {
            busy = shell.run(&waits).await;
        }
        busy.code == 75
    })
    .await;
    assert!(busy.stderr.contains("held by \"web-3\" as one of 3"), "{}", busy.stderr);
    let mut waiting = shell.start(&["-v", "run", "--limit", "5", "a", "--", "true"]);
    eventually("the wait is warned of", LIMIT, async || {
        waiting.stderr().contains("counts another number of permits")
    })
    .await;
    let found = shell.run(&["doctor", "a"]).await;
    assert!(found.stdout.contains("different numbers of permits (3 and 5)"), "{}", found.stdout);
    end(&mut waiting).await;
}

pub(crate) async fn c36_a_command_knows_the_slots_of_its_own_hold_alone(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "echo $LEASEHOLD_SLOT; $L run c -- printenv LEASEHOLD_SLOT || echo none";
    let options = ["run", "--limit", "3", "--take", "2"];
    let output = shell.run(&[&options[..], &["b", "a", "--", "sh", "-c", script]].concat()).await;
    assert_eq!((output.code, &*output.stdout), (0, "0,1\nnone\n"), "{}", output.stderr);
}

pub(crate) async fn c34_a_writer_waits_for_readers_and_others_wait_behind_it(store: &impl Store) {
    let shell = Shell::of(store);
    let mut readers = Vec::new();
    for label in ["reader-1", "reader-2"] {
        let options = ["--shared", "--label", label];
        readers.push(shell.hold(&options, "a", "exec sleep 60").await);
    }
    all_holders_are_shown(&shell).await;

    let mut writer = shell.start(&["-v", "run", "a", "--", "touch", "written"]);
    writer.waits().await;
    let late = shell.run(&["run", "--shared", "--no-wait", "a", "--", "true"]).await;
    assert_eq!(late.code, 75, "{}", late.stderr);
    end(&mut readers[0]).await;
    assert!(!shell.file("written").exists(), "beside a reader");
    end(&mut readers[1]).await;
    assert_eq!(writer.code().await, 0, "{}", writer.stderr());
    assert!(shell.file("written").exists());
}

/// Shows two readers: in JSON, as text, and each in its own row.
async fn all_holders_are_shown(shell: &Shell) {
    let seen = inspected(shell).await;
    let holders = seen["holders"].as_array().expect("an array");
    let labels: Vec<_> = holders.iter().map(|holder| &holder["label"]).collect();
    assert_eq!(labels, ["reader-1", "reader-2"]);
    assert_ne!(holders[0]["token"], holders[1]["token"]);
    for key in ["owner", "token", "label", "kind", "slots", "since_ms"] {
        assert_eq!(seen[key], holders[0][key], "{key}");
    }
    assert_eq!((&seen["kind"], &seen["slots"]), (&"shared".into(), &Value::Array(vec![])));

    let text = shell.run(&["inspect", "a"]).await.stdout;
    let further = text.lines().find(|line| line.starts_with("  and by   \"reader-2\" ("));
    assert!(further.is_some_and(|line| line.contains(", shared)")), "{text}");
    let rows = shell.run(&["ps"]).await.stdout;
    let rows: Vec<_> = rows.lines().filter(|row| row.contains("  shared  ")).collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.starts_with("a ")), "{rows:?}");
}

async fn inspected(shell: &Shell) -> Value {
    let json = shell.run(&["inspect", "a", "--json"]).await.stdout;
    serde_json::from_str(&json).expect("JSON")
}

async fn end(held: &mut Running) {
    held.send(Signal::TERM);
    held.ended().await;
}
