//! `--url-file` with a password that is replaced.

use std::fs;

use lock_testkit::{RedisServer, eventually};
use rustix::process::Signal;
use tokio::time::{Duration, Instant, sleep};

use crate::LIMIT;
use crate::shell::Shell;

/// TTL of the holds of the test.
const TTL: Duration = Duration::from_secs(3);

/// A user of a Redis server, and the file of the URL.
struct User {
    server: RedisServer,
    shell: Shell,
}

impl User {
    async fn with(password: &str) -> Self {
        let user = Self { server: RedisServer::start().await, shell: Shell::without_url() };
        user.set(&["on", "~*", "&*", "+@all", &format!(">{password}")]);
        user.write(password);
        user
    }

    fn set(&self, rules: &[&str]) {
        let answer = self.server.cli(&[&["ACL", "SETUSER", "app"], rules].concat());
        assert_eq!(answer.text(), "OK");
    }

    fn write(&self, password: &str) {
        let url = format!("redis://app:{password}@{}\n", self.server.addr());
        fs::write(self.shell.file("new"), url).expect("a file");
        fs::rename(self.shell.file("new"), self.shell.file("url")).expect("a file");
    }

    /// Ends all connections of the user, and waits until there are as many again.
    async fn cut(&self) {
        let count = || {
            let list = self.server.cli(&["CLIENT", "LIST"]);
            list.text().lines().filter(|line| line.contains("user=app")).count()
        };
        let before = count();
        let ended = self.server.cli(&["CLIENT", "KILL", "USER", "app"]).integer();
        assert!(ended >= 4, "{ended} connections");
        eventually("they connect again", LIMIT, async || count() >= before).await;
    }
}

/// C8: a holder, a waiter, a leader and a candidate go on through rotations with two passwords.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c08_a_rotation_with_two_passwords_loses_nothing() {
    let user = User::with("one").await;
    let shell = &user.shell;
    let options = ["--url-file", "url", "--ttl", "3s"];
    let until_end = "while [ ! -e end ]; do sleep 0.1; done";
    let mut holder = shell.hold(&options, "a", until_end).await;
    let mut waiter =
        shell.start(&[&["-v", "run"], &options[..], &["a", "--", "touch", "had"]].concat());
    waiter.waits().await;
    let script = "echo x >> led; exec sleep 600";
    let campaign = [&["-v", "elect"], &options[..], &["b", "--", "sh", "-c", script]].concat();
    let mut leader = shell.start(&campaign);
    shell.appears("led").await;
    let mut candidate = shell.start(&campaign);
    candidate.waits().await;

    for [former, next] in [["one", "two"], ["two", "three"]] {
        user.set(&[&format!(">{next}")]);
        user.write(next);
        user.set(&[&format!("<{former}")]);
        let rotated = Instant::now();
        user.cut().await;
        // Without a renewal, each hold would be over by now.
        sleep(TTL.saturating_sub(rotated.elapsed()) + TTL / 3).await;
        assert_eq!(shell.read("led"), "x\n", "{}{}", leader.stderr(), candidate.stderr());
        assert!(!shell.file("had").exists(), "{}", holder.stderr());
    }
    fs::write(shell.file("end"), "").expect("a file");
    assert_eq!(holder.code().await, 0, "{}", holder.stderr());
    assert_eq!(waiter.code().await, 0, "{}", waiter.stderr());
    leader.send(Signal::TERM);
    leader.ended().await;
    eventually("the candidate leads", LIMIT, async || shell.read("led") == "x\nx\n").await;
    candidate.send(Signal::TERM);
    candidate.ended().await;
}

/// C8: a file that is missing for a while is a passing failure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_away_ends_nothing() {
    let user = User::with("one").await;
    let shell = &user.shell;
    let until_end = "while [ ! -e end ]; do sleep 0.1; done";
    let mut holder = shell.hold(&["--url-file", "url"], "a", until_end).await;
    fs::remove_file(shell.file("url")).expect("a file");
    user.server.cli(&["CLIENT", "KILL", "USER", "app"]);
    let refused = shell.run(&["--url-file", "url", "ps"]).await;
    assert_eq!(refused.code, 64, "{}", refused.stderr);
    user.set(&["resetpass", ">two"]);
    user.write("two");
    fs::write(shell.file("end"), "").expect("a file");
    assert_eq!(holder.code().await, 0, "{}", holder.stderr());
    // A wrong password is still an error, without the password.
    user.write("wrong");
    let refused = shell.run(&["--url-file", "url", "ps"]).await;
    assert!(refused.code == 69 && !refused.stderr.contains("wrong"), "{}", refused.stderr);
}
