use futures_util::future::FutureExt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::topology::options::RedisOptions;

/// Parses the next command.
async fn command(stream: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let count: usize = line.trim_end().strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        line.clear();
        stream.read_line(&mut line).await.ok()?;
        let length: usize = line.trim_end().strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        stream.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8(word).ok()?.trim_end().to_owned());
    }
    Some(words)
}

/// Serves one connection like a server that never answers for the lock `stuck`, and reports all other requests.
async fn serve(stream: TcpStream, carried_out: mpsc::UnboundedSender<String>) {
    let mut stream = BufReader::new(stream);
    while let Some(words) = command(&mut stream).await {
        let answer = match (&*words[0], words.get(3).map(String::as_str)) {
            ("INFO", _) => "$8\r\nrun_id:a\r\n",
            ("EVALSHA", Some("stuck")) => "-TRYAGAIN later\r\n",
            ("EVALSHA", Some(lock)) => {
                let _ = carried_out.send(lock.to_owned());
                ":1\r\n"
            }
            _ => ":0\r\n",
        };
        stream.write_all(answer.as_bytes()).await.expect("it is read");
    }
}

fn owed(name: &str) -> Arc<GivingBack> {
    let name = LockName::new(name).expect("a name");
    let (owner, ballot) = (OwnerId::random(), None);
    Arc::new(GivingBack { name, owner, ballot, wakes: true, marks: false, ends: true })
}

/// Returns a voter, and the requests that it carries out.
async fn voter() -> (Arc<Voter>, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let (tell, carried_out) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, tell.clone()));
        }
    });
    let opener = RedisOptions::new(format!("redis://{address}")).opener().expect("a URL");
    (Arc::new(Voter::new(address, opener)), carried_out)
}

#[tokio::test]
async fn c19_a_request_that_fails_holds_up_no_other_that_is_owed() {
    let (voter, mut carried_out) = voter().await;
    voter.owe(owed("stuck"));
    voter.owe(owed("other"));
    let settling = tokio::spawn(voter.settle());
    let other = timeout(Duration::from_secs(10), carried_out.recv()).await;
    assert_eq!(other.expect("it is sent").as_deref(), Some("other"));
    settling.abort();
}

/// A task may end with its runtime at each await.
#[tokio::test]
async fn c19_an_owed_request_outlives_the_task_that_sends_it() {
    let (voter, mut carried_out) = voter().await;
    voter.owe(owed("lock"));
    assert!(voter.clone().settle().now_or_never().is_none(), "no answer can have come");
    assert!(voter.is_owed());
    timeout(Duration::from_secs(10), voter.clone().settle()).await.expect("an answer");
    assert!(!voter.is_owed(), "no other task sends it");
    assert_eq!(carried_out.recv().await.as_deref(), Some("lock"));
}

/// The timers of a paused client were paused too, and the answer is there when they continue.
#[tokio::test]
async fn p2_an_answer_that_a_client_finds_after_a_pause_does_not_count() {
    let opener = RedisOptions::new("redis://127.0.0.1:1").opener().expect("a URL");
    let voter = Voter::new("a".to_owned(), opener);
    let answer = |pause| async move {
        std::thread::sleep(pause);
        Ok(())
    };
    // A busy machine adds to the pause.
    let mut tries = 1;
    while voter.counted(SystemClock.now(), answer(VOTER_LIMIT)).await.is_err() {
        assert!(tries < 100, "never in time");
        tries += 1;
    }
    let late = answer(ANSWER_COUNTS_FOR + VOTER_LIMIT);
    voter.counted(SystemClock.now(), late).await.expect_err("too late");
    // The pause was between two servers: the answer of the first may be of a lost run.
    let first_asked = SystemClock.now();
    std::thread::sleep(ANSWER_COUNTS_FOR + VOTER_LIMIT);
    voter.counted(first_asked, async { Ok(()) }).await.expect_err("asked too late");
}
