//! `leasehold schema`: what a store has to be prepared with.

use leasehold::postgres::PostgresOptions;

use crate::args::{self, SchemaOf};
use crate::exit::{Exit, Failure};
use crate::terminal::print;

pub(crate) fn run(args: &args::Schema) -> Result<Exit, Failure> {
    let SchemaOf::Postgres = args.store;
    // Connects to nothing: the URL has no part in it.
    let options = PostgresOptions::new("postgres:").schema(&args.schema).table(&args.table);
    print(options.schema_sql()?.trim_end())?;
    Ok(Exit::Done)
}
