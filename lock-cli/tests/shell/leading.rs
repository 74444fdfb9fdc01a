//! C40: a command that runs while its host leads, and the observers of the leader.

use std::fs::File;
use std::process::Stdio;
use std::time::Instant;

use lock_testkit::eventually;
use rustix::process::Signal;
use tokio::net::UnixDatagram;
use tokio::process::Child;
use tokio::time::{sleep, timeout};

use crate::shell::{Output, Shell};
use crate::snapshot::{compare, typed};
use crate::store::{self, Store};
use crate::{LIMIT, SLACK};

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

/// Writes its term to a file, and keeps leading.
const LEADS_ON: &str = "echo $LEASEHOLD_TOKEN >> terms; exec sleep 60";

fn terms(shell: &Shell) -> Vec<u64> {
    shell.read("terms").lines().map(|term| term.parse().expect("a term")).collect()
}

async fn until_terms(shell: &Shell, count: usize) -> Vec<u64> {
    eventually("another term", LIMIT, async || terms(shell).len() == count).await;
    let terms = terms(shell);
    assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
    terms
}

pub(crate) async fn c40_another_leads_when_the_leader_is_killed<S: Store>(store: &S) {
    let shell = Shell::of(store);
    let campaign = ["-v", "elect", "--ttl", "3s", "a", "--", "sh", "-c", LEADS_ON];
    let mut first = shell.start(&campaign);
    until_terms(&shell, 1).await;
    let mut second = shell.start(&campaign);
    second.waits().await;
    first.send(Signal::KILL);
    let killed = Instant::now();
    until_terms(&shell, 2).await;
    let (waited, bound) = (killed.elapsed(), SECOND * 4 + S::OUTLASTS + SLACK);
    assert!(waited < bound, "nobody led for {waited:?}");
    first.ended().await;
    second.send(Signal::TERM);
    assert_eq!(second.code().await, 128 + 15, "{}", second.stderr());
}

pub(crate) async fn c40_a_leader_that_lost_is_a_candidate_again(store: &impl Store) {
    let shell = Shell::of(store);
    let mut leader = shell.start(&["elect", "--ttl", "4s", "a", "--", "sh", "-c", LEADS_ON]);
    until_terms(&shell, 1).await;
    assert_eq!(shell.run(&["release", "--force", "a"]).await.code, 0);
    until_terms(&shell, 2).await;
    assert!(leader.stderr().contains("was lost"), "{}", leader.stderr());
    leader.send(Signal::INT);
    assert_eq!(leader.code().await, 128 + 2, "{}", leader.stderr());
    assert_eq!(terms(&shell).len(), 2);
}

/// C40: a supervisor sees who leads.
pub(crate) async fn c40_a_leader_is_ready_while_it_leads(store: &impl Store) {
    let shell = Shell::of(store);
    std::fs::write(shell.file("ready"), "a former process").expect("a file");
    let manager = UnixDatagram::bind(shell.file("manager")).expect("a socket");
    let told = async |part: &str| {
        let mut message = [0; 256];
        let length = timeout(LIMIT, manager.recv(&mut message)).await.expect("in time");
        let message = String::from_utf8_lossy(&message[..length.expect("a message")]).into_owned();
        assert!(message.contains(part), "{message}");
    };
    let script = "trap 'while [ -e ready ]; do sleep 0.01; done; echo > unready; exit 1' TERM; cp ready seen; \
                  echo $LEASEHOLD_TOKEN >> terms; while [ ! -e go ]; do sleep 0.01; done";
    let campaign = [
        "elect", "--ttl", "4s", "--grace", "30s", "--ready-file", "ready", "a", "--", "sh", "-c",
        script,
    ];
    let mut elect = shell.leasehold(&campaign);
    let mut leader = elect.env("NOTIFY_SOCKET", shell.file("manager")).spawn().expect("it starts");
    let [term] = until_terms(&shell, 1).await[..] else { panic!("one term") };
    assert_eq!(shell.read("seen"), format!("{term}\n"));
    told(&format!("READY=1\nSTATUS=leads in term {term}")).await;
    assert_eq!(shell.run(&["release", "--force", "a"]).await.code, 0);
    told("STATUS=a candidate").await;
    shell.appears("unready").await;
    until_terms(&shell, 2).await;
    told("READY=1").await;
    std::fs::write(shell.file("go"), "").expect("a file");
    let ended = timeout(LIMIT, leader.wait()).await.expect("in time").expect("it is ours");
    assert_eq!(ended.code(), Some(0));
}

/// C40: a slow hook learns of each change, one after the other, and delays neither the command nor the renewals.
pub(crate) async fn c40_a_hook_learns_of_each_change_in_order(store: &impl Store) {
    let shell = Shell::of(store);
    let hook = "echo $LEASEHOLD_ROLE $LEASEHOLD_NAME $LEASEHOLD_TOKEN begins >> told; \
                while [ ! -e go ]; do sleep 0.01; done; echo ends >> told; exit 3";
    let lead = ["elect", "--ttl", "4s", "--grace", "60s", "--on-change", hook, "a", "--"];
    let mut leader = shell.start(&[&lead[..], &["sh", "-c", LEADS_ON]].concat());
    until_terms(&shell, 1).await;
    assert_eq!(shell.run(&["release", "--force", "a"]).await.code, 0);
    let terms = until_terms(&shell, 2).await;
    assert_eq!(shell.read("told"), "candidate a begins\n", "one at a time");
    leader.send(Signal::TERM);
    eventually("it resigned", LIMIT, async || {
        shell.run(&["leader", "a"]).await.stdout == "nobody\n"
    })
    .await;
    std::fs::write(shell.file("go"), "").expect("a file");
    assert_eq!(leader.code().await, 128 + 15, "{}", leader.stderr());
    let term = |role: &str, term: u64| format!("{role} a {term} begins\nends\n");
    let changes = terms.iter().map(|&at| term("leader", at) + &term("candidate", at));
    let told = format!("candidate a begins\nends\n{}", changes.collect::<String>());
    assert_eq!(shell.read("told"), told);
    assert!(leader.stderr().contains("failed: exit status: 3"), "{}", leader.stderr());
}

/// C40: a hook that does not end is killed at the end of the grace.
pub(crate) async fn c40_a_hook_that_hangs_ends_with_the_grace(store: &impl Store) {
    let shell = Shell::of(store);
    let hook = "echo $$ > hook; sleep 600; :";
    let hangs = ["elect", "--grace", "1s", "--on-change", hook, "a", "--", "true"];
    let ended = shell.run(&hangs).await;
    assert!(ended.code == 0 && ended.stderr.contains("longer than the grace"), "{}", ended.stderr);
    let alive = format!("ps -o pid= -g {} | grep -q .", shell.read("hook").trim());
    let gone = async || Output::of(shell.command("sh", &["-c", &alive])).await.code != 0;
    eventually("its processes are gone", LIMIT, gone).await;
}

/// C40: a service manager that reads nothing keeps nobody from leading.
pub(crate) async fn c40_a_manager_that_stands_still_stops_no_leader(store: &impl Store) {
    let shell = Shell::of(store);
    let manager = UnixDatagram::bind(shell.file("manager")).expect("a socket");
    let client = UnixDatagram::unbound().expect("a socket");
    while client.try_send_to(b"x", shell.file("manager")).is_ok() {}
    let mut elect = shell.leasehold(&["elect", "a", "--", "sh", "-c", "echo $LEASEHOLD_TOKEN"]);
    let elect = elect.env("NOTIFY_SOCKET", shell.file("manager")).output();
    let ended = timeout(LIMIT, elect).await.expect("it ends").expect("it is ours");
    assert!(ended.status.success(), "{ended:?}");
    drop(manager);
}

/// C40: a signal that comes while the command ends after a loss ends the candidacy too.
pub(crate) async fn c40_who_is_signalled_after_a_loss_campaigns_no_more(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "trap 'echo > asked' TERM; trap 'echo > interrupted' INT; \
                  echo $LEASEHOLD_TOKEN >> terms; while [ ! -e go ]; do sleep 0.01; done";
    let campaign = ["elect", "--ttl", "4s", "--grace", "60s", "a", "--", "sh", "-c", script];
    let mut leader = shell.start(&campaign);
    until_terms(&shell, 1).await;
    assert_eq!(shell.run(&["release", "--force", "a"]).await.code, 0);
    shell.appears("asked").await;
    leader.send(Signal::INT);
    shell.appears("interrupted").await;
    std::fs::write(shell.file("go"), "").expect("a file");
    assert_eq!(leader.code().await, 76, "{}", leader.stderr());
    assert_eq!(terms(&shell).len(), 1);
}

/// C40: the margin gives a leader that lost its lock the time to clean up, before another leads. The server stands still
/// for longer than the TTL, so both leaders are right.
pub(crate) async fn c40_a_leader_cleans_up_before_another_leads(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "echo $$ in >> log; trap 'sleep 3; echo $$ out >> log; exit' TERM; \
                  while :; do sleep 0.01; done";
    let campaign = ["-v", "elect", "--ttl", "9s", "--grace", "4s", "a", "--", "sh", "-c", script];
    let mut first = shell.start(&campaign);
    let lines = async |count: usize| {
        eventually("a leader", LIMIT, async || shell.read("log").lines().count() >= count).await;
    };
    lines(1).await;
    let mut second = shell.start(&campaign);
    second.waits().await;
    assert!(store.stop(), "there is a server to stop");
    // By then the last renewal is older than the TTL, and the server lets the second in.
    sleep(SECOND * 9).await;
    store.go_on();
    lines(3).await;
    let log = shell.read("log");
    let ends: Vec<_> = log.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(ends, ["in", "out", "in"], "{log}{}", first.stderr());
    assert!(first.stderr().contains("was lost"), "{}", first.stderr());
    for leader in [&mut first, &mut second] {
        leader.send(Signal::TERM);
        leader.ended().await;
    }
}

pub(crate) async fn c40_a_command_that_failed_is_run_in_another_term(store: &impl Store) {
    let shell = Shell::of(store);
    let script = "echo $LEASEHOLD_TOKEN >> terms; test $(wc -l < terms) -ge 3";
    let ended = shell.run(&["elect", "a", "--", "sh", "-c", script]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    until_terms(&shell, 3).await;
    assert_eq!(ended.stderr.matches("failed with 1; still a candidate").count(), 2);
}

pub(crate) async fn c40_who_is_signalled_campaigns_no_more(store: &impl Store) {
    let shell = Shell::of(store);
    let mut leader = shell.start(&["elect", "a", "--", "sh", "-c", LEADS_ON]);
    until_terms(&shell, 1).await;
    let mut candidate = shell.start(&["-v", "elect", "a", "--", "sh", "-c", LEADS_ON]);
    candidate.waits().await;
    candidate.send(Signal::TERM);
    assert_eq!(candidate.code().await, 128 + 15);
    assert!(candidate.stderr().contains("interrupted while waiting"), "{}", candidate.stderr());
    leader.send(Signal::TERM);
    assert_eq!(leader.code().await, 128 + 15);
    assert_eq!(shell.run(&["elect", "a", "--", "no-such-program"]).await.code, 127);
}

/// Starts a command that does not end, and prints to this file.
fn follow(shell: &Shell, args: &[&str], file: &str) -> Child {
    let file = File::create(shell.file(file)).expect("a file");
    shell.leasehold(args).stdout(file).stderr(Stdio::inherit()).spawn().expect("it starts")
}

pub(crate) async fn following_prints_each_change<S: Store>(store: &S) {
    const FOLLOWED: [(&str, &[&str]); 4] = [
        ("text", &["leader", "a", "--follow"]),
        ("json", &["leader", "a", "-f", "--json"]),
        ("table", &["ps", "--follow"]),
        ("array", &["ps", "--follow", "--json"]),
    ];
    let shell = Shell::of(store);
    let mut printed = vec![typed(&shell, &["leader", "a"]).await];
    let _followers = FOLLOWED.map(|(file, args)| follow(&shell, args, file));
    // Takes each step after all have seen the one before. A table ends with a blank line.
    let seen = async |changes: usize| {
        eventually("all have seen it", LIMIT, async || {
            let blank = shell.read("table").lines().filter(|line| line.is_empty()).count();
            let lines = |file: &str| shell.read(file).lines().count();
            blank == changes && ["text", "json", "array"].iter().all(|file| lines(file) == changes)
        })
        .await;
    };
    seen(1).await;
    let mut leader = shell.start(&["elect", "--label", "web-3", "a", "--", "sh", "-c", LEADS_ON]);
    seen(2).await;
    printed.push(typed(&shell, &["leader", "a"]).await);
    printed.push(typed(&shell, &["leader", "a", "--json"]).await);
    leader.send(Signal::TERM);
    leader.ended().await;
    seen(3).await;
    printed.extend(FOLLOWED.map(|(file, _)| shell.read(file)));
    compare(S::NAME, "follow", &printed.join("\n"));
}

/// A file of somebody else is not overwritten by way of a link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c40_a_ready_file_replaces_a_link() {
    let shell = Shell::of(&store::File::start());
    std::fs::write(shell.file("other"), "other").expect("a file");
    let script = "[ ! -e again ] || exit 0; touch again; \
                  (while [ -e ready ]; do sleep 0.01; done; ln -s other ready) & exit 1";
    let elect = ["elect", "--ready-file", "ready", "a", "--", "sh", "-c", script];
    let ended = shell.run(&elect).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(shell.read("other"), "other");
}
