//! The worker processes, for their parent.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::news::News;
use crate::orders::Orders;
use crate::sale::Failure;
use crate::stop;

/// A crew that is silent for this long is stuck.
const SILENCE: Duration = Duration::from_secs(20);
/// Pause between two checks for a request to end.
const TICK: Duration = Duration::from_millis(100);

type Line = (u32, Result<News, Failure>);

/// The worker processes of one act. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Crew {
    workers: Vec<Child>,
    lines: Receiver<Line>,
}

impl Crew {
    /// Starts the workers: this program, with other arguments.
    pub(crate) fn hire(
        url: &str,
        workers: u32,
        orders: impl Fn(u32) -> Orders,
    ) -> Result<Self, Failure> {
        let (sender, lines) = mpsc::channel();
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
    pub(crate) fn open_doors(&mut self) -> Result<(), Failure> {
        for _ in 0..self.workers.len() {
            match self.next_news()? {
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
    pub(crate) fn next_news(&self) -> Result<Option<(u32, News)>, Failure> {
        let asked = Instant::now();
        while !stop::is_requested() {
            match self.lines.recv_timeout(TICK) {
                Ok((worker, news)) => return Ok(Some((worker, news?))),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if asked.elapsed() >= SILENCE => {
                    return Err("the workers are stuck".into());
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Err("interrupted".into())
    }

    pub(crate) fn stop(&self, worker: u32) -> io::Result<()> {
        stop::stop(self.workers[worker as usize].id())
    }

    pub(crate) fn let_go_on(&self, worker: u32) -> io::Result<()> {
        stop::let_go_on(self.workers[worker as usize].id())
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
fn start(url: &str, orders: &Orders) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .args(orders.to_args())
        .env("LEASEHOLD_URL", url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
}

fn forward(worker: u32, stdout: ChildStdout, news: &Sender<Line>) {
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(Failure::from).and_then(|line| line.parse());
        if news.send((worker, line)).is_err() {
            return;
        }
    }
}
