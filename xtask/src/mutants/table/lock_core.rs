//! The mutants of `lock-core`, a file for each of its rooms.

mod backend;
mod engine;
mod model;
mod primitives;
mod root;

use crate::mutants::mutant::Mutant;

pub(super) const ROOMS: [&[Mutant]; 5] =
    [backend::MUTANTS, engine::MUTANTS, model::MUTANTS, primitives::MUTANTS, root::MUTANTS];
