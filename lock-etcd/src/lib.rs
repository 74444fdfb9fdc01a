//! Leasehold's locks on etcd.
