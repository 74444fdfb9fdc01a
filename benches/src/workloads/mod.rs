//! Workloads: ways to use the locks, and their figures.

pub(crate) mod age;
pub(crate) mod beside;
pub(crate) mod connect;
pub(crate) mod crowd;
mod cycles;
pub(crate) mod handoff;
pub(crate) mod held;
pub(crate) mod hot;
pub(crate) mod renewals;
pub(crate) mod short_waits;
pub(crate) mod storms;
pub(crate) mod throughput;
pub(crate) mod uncontended;
pub(crate) mod waiting;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use crate::backend::Backend;
use crate::client::Result;
use crate::crowd::Crowd;
use crate::effort::Effort;
use crate::round::Round;
use crate::stores::file;

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Workload {
    /// One client takes and gives back a lock that nobody else wants.
    Uncontended,
    /// 64 tasks of one client, each with a lock of its own.
    Throughput,
    /// Clients that take turns: 2, 16, 64 and 256.
    Handoff,
    /// 64 tasks on one lock: of one client, and of four processes.
    Hot,
    /// A process that holds thousands of locks; one more lock beside them; thousands that wait. Of topologies: the
    /// renewals of thousands.
    Scale,
    /// The cost of one name's cycles, at first and in the end.
    Age,
    /// Share of its cycles that a client keeps while callers of another give up on its lock, again and again.
    Storms,
    /// Share of one client's callers that get in within a short wait, beside rivals that keep the lock for long.
    ShortWaits,
    /// Thousands of clients that want one lock at once, in files: all are to get in.
    Crowd,
    /// Connecting to a Postgres with very many names.
    Connect,
}

impl Workload {
    pub(crate) async fn run(self, mut round: Round<'_>) -> Result<()> {
        let round = &mut round;
        match self {
            Self::Uncontended => uncontended::run(round).await,
            Self::Throughput => throughput::run(round).await,
            Self::Handoff => handoff::run(round).await,
            Self::Hot => hot::run(round).await,
            Self::Scale if round.backend == Backend::Topologies => renewals::run(round).await,
            Self::Scale => {
                held::run(round).await?;
                beside::run(round).await?;
                waiting::run(round).await?;
                waiting::idle(round).await
            }
            Self::Age => age::run(round).await,
            Self::Storms => storms::run(round).await,
            Self::ShortWaits => short_waits::run(round).await,
            Self::Crowd => crowd::run(round).await,
            Self::Connect => connect::run(round).await,
        }
    }

    /// Returns true if the workload applies to a backend. Each topology keeps a hot lock, and an old one, on one
    /// server.
    pub(crate) fn is_of(self, backend: Backend) -> bool {
        match self {
            Self::Hot | Self::Age => !matches!(backend, Backend::Topologies | Backend::ZooKeeper),
            Self::Storms | Self::ShortWaits => storms::BACKENDS.contains(&backend),
            Self::Crowd => backend == Backend::File,
            Self::Connect => backend == Backend::Postgres,
            Self::Scale => backend != Backend::ZooKeeper,
            Self::Uncontended | Self::Throughput | Self::Handoff => true,
        }
    }

    /// Returns the number of rounds; one long life is enough.
    pub(crate) fn rounds(self, effort: Effort) -> usize {
        match self {
            Self::Age | Self::Crowd | Self::Connect => 1,
            _ => effort.rounds,
        }
    }

    /// Returns the names of its cases.
    pub(crate) fn cases(self) -> &'static [&'static str] {
        match self {
            Self::Uncontended => {
                &[uncontended::IN_A_LOOP, uncontended::IN_A_TASK, uncontended::AFTER_A_PAUSE]
            }
            Self::Throughput => &[throughput::NAME],
            Self::Handoff => &[handoff::NAME],
            Self::Hot => &[hot::ONE_CLIENT, hot::PROCESSES],
            Self::Scale => &[
                held::NAME,
                beside::ALONE,
                beside::BESIDE,
                waiting::NAME,
                waiting::IDLE,
                renewals::NAME,
            ],
            Self::Age => &[age::NAME, age::BESIDE_A_SNAPSHOT],
            Self::Storms => storms::NAMES,
            Self::ShortWaits => &[short_waits::NAME],
            Self::Crowd => &[crowd::NAME],
            Self::Connect => &[connect::NAME],
        }
    }
}

/// Another task than to bench: `cargo xtask crowd`, or the part of a process that the bench itself starts.
#[derive(Subcommand)]
#[command(hide = true)]
pub(crate) enum Role {
    /// Fills a store, and measures the worst delay of a foreign client beside each verb.
    #[command(bin_name = "cargo xtask crowd")]
    Crowd(Crowd),
    /// Tasks of one client that want one lock.
    Share(hot::Share),
    /// Holds many locks.
    Hold(held::Hold),
    /// Acquires and releases a lock that nobody else wants, once for each command.
    Turns(uncontended::Turns),
    /// Sends datagrams back.
    Echo { socket: PathBuf },
}

pub(crate) async fn play(role: Role) -> Result<()> {
    match role {
        Role::Crowd(crowd) => crowd.play().await,
        Role::Share(share) => share.play().await,
        Role::Hold(hold) => hold.play().await,
        Role::Turns(turns) => turns.play().await,
        Role::Echo { socket } => file::echo(&socket),
    }
}
