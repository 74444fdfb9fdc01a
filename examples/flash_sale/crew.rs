//! The worker processes, for their parent.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

use crate::news::News;
use crate::orders::Orders;
use crate::sale::Failure;

/// A crew that is silent for this long is stuck.
const SILENCE: Duration = Duration::from_secs(20);

type Line = Result<(u32, News), Failure>;

/// The worker processes of one act. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Crew {
    workers: Vec<Child>,
    lines: UnboundedReceiver<Line>,
}

impl Crew {
    /// Starts the workers: this program, with other arguments.
    pub(crate) fn hire(
        url: &str,
        workers: u32,
        orders: impl Fn(u32) -> Orders,
    ) -> Result<Self, Failure> {
        let (sender, lines) = mpsc::unbounded_channel();
        let mut crew = Self { workers: Vec::new(), lines };
        for number in 0..workers {
            let mut worker = start(url, &orders(number))?;
            let stdout = worker.stdout.take();
            crew.workers.push(worker);
            let sender = sender.clone();
            thread::spawn(move || stdout.map(|stdout| forward(number, stdout, &sender)));
        }
        Ok(crew)
    }

    /// Lets the buyers in once all workers are ready, so that all start at the same time.
    pub(crate) async fn open_doors(&mut self) -> Result<(), Failure> {
        for _ in 0..self.workers.len() {
            match self.next_news().await? {
                Some((_, News::Ready)) => {}
                _ => return Err("a worker did not come to work".into()),
            }
        }
        for worker in &mut self.workers {
            if let Some(stdin) = &mut worker.stdin {
                stdin.write_all(b"open\n")?;
            }
        }
        Ok(())
    }

    /// Waits for the next line of a worker; `None` once all have ended.
    pub(crate) async fn next_news(&mut self) -> Result<Option<(u32, News)>, Failure> {
        let line = timeout(SILENCE, self.lines.recv()).await;
        line.map_err(|_| "the workers are stuck")?.transpose()
    }

    /// Sends a signal: `STOP` stops a worker at its present instruction, without a warning, as an overloaded
    /// machine or a debugger would; `CONT` continues it.
    pub(crate) fn signal(&self, worker: u32, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.workers[worker as usize]), signal)?)
    }

    /// Waits for the end of every worker. A worker that failed has printed the reason on its standard error.
    pub(crate) fn go_home(mut self) -> Result<(), Failure> {
        for (number, worker) in self.workers.iter_mut().enumerate() {
            let status = worker.wait()?;
            if !status.success() {
                return Err(format!("worker {number} failed: {status}").into());
            }
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            // Fails for workers that have ended.
            let _ = worker.kill();
            let _ = worker.wait();
        }
    }
}

/// Passes the URL through the environment: it may hold a password, and everybody on the machine can read
/// arguments.
fn start(url: &str, orders: &Orders) -> Result<Child, Failure> {
    let mut worker = Command::new(std::env::current_exe()?);
    worker.args(["--orders", &serde_json::to_string(orders)?]).env("LEASEHOLD_URL", url);
    Ok(worker.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?)
}

fn forward(worker: u32, stdout: ChildStdout, news: &UnboundedSender<Line>) {
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(Failure::from).and_then(|line| Ok(serde_json::from_str(&line)?));
        if news.send(line.map(|line| (worker, line))).is_err() {
            return;
        }
    }
}
