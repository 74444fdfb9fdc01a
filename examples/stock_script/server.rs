//! The Redis server that the story is played on, and how what happened is told.

use std::error::Error;

use clap::Parser;
use lock_testkit::RedisServer;

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
struct Args {
    /// The Redis server to use instead of one of its own.
    #[arg(long)]
    url: Option<String>,
}

/// The server that the command line names, or one of our own, which ends when this is dropped.
pub(crate) struct Redis {
    pub(crate) url: String,
    _own: Option<RedisServer>,
}

impl Redis {
    pub(crate) async fn chosen() -> Self {
        match Args::parse().url {
            Some(url) => Self { url, _own: None },
            None => {
                let server = RedisServer::start().await;
                Self { url: server.url(), _own: Some(server) }
            }
        }
    }
}

/// Tells what happened, or fails because it did not.
pub(crate) fn tell(happened: bool, what: &str) -> Result<(), Failure> {
    match happened {
        true => println!("   {what}"),
        false => return Err(format!("not as told: {what}").into()),
    }
    Ok(())
}
