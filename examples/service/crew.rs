//! The instances, as the story sees them: processes with an address.

use std::error::Error;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use axum::http::StatusCode;
use reqwest::{Method, Response};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

const INSTANCES: usize = 4;

/// An instance that does not answer for so long is stuck.
const SILENCE: Duration = Duration::from_secs(15);

/// The instances that live. Dropping it kills them.
pub(crate) struct Crew {
    pub(crate) instances: Vec<Host>,
}

impl Crew {
    pub(crate) async fn start(url: &str, home: &Path) -> Result<Self, Failure> {
        let run = format!("{:08x}", rand::random::<u32>());
        let mut instances = Vec::new();
        for number in 1..=INSTANCES {
            instances.push(Host::start(format!("instance-{number}"), url, &run, home).await?);
        }
        Ok(Self { instances })
    }

    /// The instance that serves the `i`-th request, as a balancer would choose it.
    pub(crate) fn for_request(&self, i: usize) -> &Host {
        &self.instances[i % self.instances.len()]
    }

    /// Kills an instance, which has no time to give anything back.
    pub(crate) async fn kill(&mut self, label: &str) -> Result<(), Failure> {
        let found = self.instances.iter().position(|host| host.label == label);
        let mut host = self.instances.remove(found.ok_or("no such instance")?);
        Ok(host.process.kill().await?)
    }

    /// Has all end in good order. One that failed has said why on its standard error.
    pub(crate) async fn go_home(self) -> Result<(), Failure> {
        for mut host in self.instances {
            drop(host.process.stdin.take());
            let status = tokio::time::timeout(SILENCE, host.process.wait()).await??;
            if !status.success() {
                return Err(format!("{} failed: {status}", host.label).into());
            }
        }
        Ok(())
    }
}

/// One instance.
pub(crate) struct Host {
    pub(crate) label: String,
    address: String,
    process: Child,
    web: reqwest::Client,
}

impl Host {
    /// Starts this program again, in the other role. The URL may hold a password, and arguments are
    /// read by everybody on the machine.
    async fn start(label: String, url: &str, run: &str, home: &Path) -> Result<Self, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["instance", &label, run]).arg(home).env("LEASEHOLD_URL", url);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn()?;
        let output = process.stdout.take().ok_or("an instance has no output")?;
        let first = BufReader::new(output).lines().next_line().await?;
        let address = first.ok_or("an instance ended without a word")?;
        let web = reqwest::Client::builder().timeout(SILENCE).build()?;
        Ok(Self { label, address, process, web })
    }

    pub(crate) async fn get(&self, path: &str) -> Result<(StatusCode, String), Failure> {
        self.ask(Method::GET, path).await
    }

    pub(crate) async fn post(&self, path: &str) -> Result<(StatusCode, String), Failure> {
        self.ask(Method::POST, path).await
    }

    async fn ask(&self, method: Method, path: &str) -> Result<(StatusCode, String), Failure> {
        let url = format!("{}{path}", self.address);
        let response: Response = self.web.request(method, url).send().await?;
        Ok((response.status(), response.text().await?))
    }

    /// Stops the process where it stands, as an overloaded machine would. It is not told.
    pub(crate) fn stop(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)
    }

    /// Lets it go on with its next instruction.
    pub(crate) fn let_go_on(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let id = self.process.id().and_then(|id| i32::try_from(id).ok());
        Ok(kill_process(id.and_then(Pid::from_raw).ok_or("the instance is gone")?, signal)?)
    }
}

/// What an instance answered, if it did what it was asked.
pub(crate) fn served((status, text): (StatusCode, String)) -> Result<String, Failure> {
    match status {
        StatusCode::OK => Ok(text),
        _ => Err(format!("an instance answered {status}: {text}").into()),
    }
}
