//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};

use crate::backend::Backend;
use crate::effort::Effort;
use crate::workloads::{Role, Workload};

/// Measures the project beside its peers and beside the least that each store could do.
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench")]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) options: Options,
    /// Another task than to bench.
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
}

#[derive(Args)]
pub(crate) struct Options {
    /// Only this backend; may be given several times.
    #[arg(long, value_name = "B")]
    backend: Vec<Backend>,
    /// Only this workload; may be given several times.
    #[arg(long, value_name = "W")]
    workload: Vec<Workload>,
    /// One short round of each: to see that all works. Its figures are rough.
    #[arg(long)]
    quick: bool,
    /// Writes each figure and each target as a line of JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draws the hand-off of each backend.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Writes the table and the picture of the README, and the tables of docs/performance.md and
    /// docs/scaling.md. Rows of backends that are not measured stay as they are, and so does the picture unless all
    /// stores are.
    #[arg(long, conflicts_with = "workload")]
    pub(crate) readme: bool,
}

impl Options {
    pub(crate) fn backends(&self) -> Vec<Backend> {
        chosen_or_all(&self.backend)
    }

    pub(crate) fn workloads(&self) -> impl Iterator<Item = Workload> + use<> {
        chosen_or_all(&self.workload).into_iter()
    }

    pub(crate) fn effort(&self) -> Effort {
        match self.quick {
            true => Effort::QUICK,
            false => Effort::FULL,
        }
    }
}

fn chosen_or_all<T: ValueEnum + Clone>(chosen: &[T]) -> Vec<T> {
    match chosen {
        [] => T::value_variants().to_vec(),
        chosen => chosen.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partial table would lack the rows of the other workloads.
    #[test]
    fn tables_are_not_written_of_a_part_of_a_backend() {
        let parsed = |arguments: &[&str]| {
            Arguments::try_parse_from(["bench", "--readme"].iter().chain(arguments))
        };
        assert!(parsed(&["--backend", "redis"]).is_ok());
        assert!(parsed(&["--workload", "hot"]).is_err());
    }
}
