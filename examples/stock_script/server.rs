//! The Redis server of the example, and its printed checks.

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

/// The server of the command line, or a new one, which ends with the value.
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

/// Prints an event, or fails if it did not happen.
pub(crate) fn tell(happened: bool, what: &str) -> Result<(), Failure> {
    match happened {
        true => println!("   {what}"),
        false => return Err(format!("not as told: {what}").into()),
    }
    Ok(())
}
