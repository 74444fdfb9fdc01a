//! Users.

use leasehold::connect;

use crate::servers::one_member;
use crate::support::{client, fresh_name, turn};

/// C32: only its user may read the nodes of a user. The refusal says so, and shows no password.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c32_the_nodes_of_a_user_are_for_that_user_alone() {
    let (server, root) = (one_member().await, fresh_name());
    let url = |login: &str| format!("zookeeper://{login}{}/{root}", server.addr());
    turn(&client(&url("user:s%65cret@")).await, "a").await;
    turn(&client(&url("user:secret@")).await, "a").await;
    for stranger in ["", "user:wrong@", "other:secret@"] {
        let refused = connect(&url(stranger)).await.expect_err("another user").to_string();
        assert!(refused.contains("lacks rights"), "{refused}");
        assert!(!refused.contains("wrong") && !refused.contains("secret"), "{refused}");
    }
}
