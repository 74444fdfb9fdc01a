//! The command line, which decides the role of this process.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::act::Act;
use crate::sale::Sale;

#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// URL of the locks; by default a new directory.
    #[arg(long, env = "LEASEHOLD_URL", hide_env_values = true)]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) sale: Sale,
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

/// Roles of the processes besides the main one.
#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    #[command(hide = true)]
    Worker(Orders),
}

/// Orders to a worker when it is started.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Orders {
    #[arg(value_parser = Act::from_key)]
    pub(crate) act: Act,
    pub(crate) worker: u32,
    /// The lock of this act.
    pub(crate) lock: String,
    /// The shop's directory.
    pub(crate) shop: PathBuf,
    #[command(flatten)]
    pub(crate) sale: Sale,
}

impl Orders {
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let mut args = vec![
            "worker".into(),
            self.act.key().into(),
            self.worker.to_string().into(),
            self.lock.as_str().into(),
            self.shop.as_os_str().to_owned(),
        ];
        args.extend(self.sale.to_args());
        args
    }
}
