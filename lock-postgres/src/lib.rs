//! Leasehold's locks on Postgres.
