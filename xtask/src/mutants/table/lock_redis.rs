//! The mutants of `lock-redis`, a file for each of its rooms.

mod cluster;
mod quorum;
mod root;
mod scripts;

use crate::mutants::mutant::Mutant;

pub(super) const ROOMS: [&[Mutant]; 4] =
    [cluster::MUTANTS, quorum::MUTANTS, root::MUTANTS, scripts::MUTANTS];
