//! The command line: which part this process plays.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::Failure;
use crate::act::Act;

/// What this process is here for.
#[derive(Debug)]
pub(crate) enum Part {
    /// To put on the show.
    Show { url: Option<String> },
    /// To be one of its workers.
    Worker(Orders),
}

/// What a worker is told when it is started.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) act: Act,
    pub(crate) worker: u32,
    /// Where the locks are.
    pub(crate) url: String,
    /// The lock of this act.
    pub(crate) lock: String,
    /// The shop's directory.
    pub(crate) shop: PathBuf,
}

/// The first argument of a worker. People have no use for it.
const WORKER: &str = "worker";

impl Part {
    pub(crate) fn from_args(args: impl Iterator<Item = String>) -> Result<Self, Failure> {
        let args: Vec<_> = args.collect();
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        match args[..] {
            [] => Ok(Self::Show { url: None }),
            ["--url", url] => Ok(Self::Show { url: Some(url.to_owned()) }),
            [WORKER, ref orders @ ..] => Ok(Self::Worker(Orders::from_args(orders)?)),
            _ => Err("usage: flash_sale [--url URL]".into()),
        }
    }
}

impl Orders {
    pub(crate) fn to_args(&self) -> [OsString; 6] {
        [
            WORKER.into(),
            self.act.key().into(),
            self.worker.to_string().into(),
            self.url.as_str().into(),
            self.lock.as_str().into(),
            self.shop.as_os_str().to_owned(),
        ]
    }

    fn from_args(args: &[&str]) -> Result<Self, Failure> {
        let &[act, worker, url, lock, shop] = args else {
            return Err("a worker takes five arguments".into());
        };
        let act = Act::ALL.into_iter().find(|known| known.key() == act);
        Ok(Self {
            act: act.ok_or("unknown act")?,
            worker: worker.parse()?,
            url: url.to_owned(),
            lock: lock.to_owned(),
            shop: shop.into(),
        })
    }
}
