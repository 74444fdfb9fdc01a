//! `leasehold schema`: what a store has to be prepared with.

use crate::args::{self, SchemaOf};
use crate::exit::{Exit, Failure};
use crate::terminal::print;

pub(crate) fn run(args: &args::Schema) -> Result<Exit, Failure> {
    let SchemaOf::Postgres = args.store;
    print(postgres(args)?.trim_end())?;
    Ok(Exit::Done)
}

#[cfg(feature = "postgres")]
fn postgres(args: &args::Schema) -> Result<String, Failure> {
    // Nothing is connected to: the URL has no part in it.
    let options = leasehold::postgres::PostgresOptions::new("postgres:");
    Ok(options.schema(&args.schema).table(&args.table).schema_sql()?)
}

#[cfg(not(feature = "postgres"))]
fn postgres(_args: &args::Schema) -> Result<String, Failure> {
    let text = "Postgres is not compiled in: build leasehold with the feature `postgres`";
    Err(Failure::new(Exit::Usage, text))
}
