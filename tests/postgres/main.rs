//! The Postgres backend keeps the whole contract, in both modes, on real servers.
