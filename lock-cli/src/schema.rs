//! `leasehold schema`: the SQL that prepares a store.

use leasehold::postgres::PostgresOptions;

use crate::args::{self, SchemaOf};
use crate::exit::{Exit, Failure};
use crate::terminal::print;

pub(crate) fn run(args: &args::Schema) -> Result<Exit, Failure> {
    let SchemaOf::Postgres = args.store;
    // Does not connect, so the URL has no effect.
    let options = PostgresOptions::new("postgres:").schema(&args.schema).table(&args.table);
    print(options.schema_sql()?.trim_end())?;
    Ok(Exit::Done)
}
