//! The command line, which decides the role of this process.

use std::path::PathBuf;

use clap::Parser;
use serde::{Deserialize, Serialize};

use crate::act::Act;
use crate::sale::Sale;

#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// URL of the locks; by default a new directory.
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) sale: Sale,
    /// Makes this process a worker.
    #[arg(long, hide = true, value_parser = |json: &str| serde_json::from_str::<Orders>(json))]
    pub(crate) orders: Option<Orders>,
}

/// Orders to a worker when it is started, in JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) act: Act,
    pub(crate) worker: u32,
    /// The lock of this act.
    pub(crate) lock: String,
    /// The shop's directory.
    pub(crate) shop: PathBuf,
    pub(crate) sale: Sale,
}
