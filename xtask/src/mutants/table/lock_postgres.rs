//! The mutants of `lock-postgres`, a file for each of its rooms.

mod advisory;
mod root;
mod table_schema;
mod together;

use crate::mutants::mutant::Mutant;

pub(super) const ROOMS: [&[Mutant]; 4] =
    [advisory::MUTANTS, root::MUTANTS, table_schema::MUTANTS, together::MUTANTS];
