//! The flash sale, on the backends of this workspace: `cargo run --release --example flash_sale`.
//!
//! The story is in the package `flash-sale`, beside this file.

use std::process::ExitCode;

use leasehold::Connector;

fn main() -> ExitCode {
    flash_sale::main(Connector::new())
}
