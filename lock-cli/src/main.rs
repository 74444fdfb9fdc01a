//! The `leasehold` command, with the backends of this workspace.

use std::process::ExitCode;

use leasehold::Connector;

fn main() -> ExitCode {
    lock_cli::main(Connector::new())
}
