//! The etcd backend keeps the whole contract, on real servers.
