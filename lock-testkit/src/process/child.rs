//! Another role of the same test binary, in a separate process.
//!
//! A test file that wants one holds a test named `child_role`. It does nothing, unless the process
//! was started by [`spawn`]:
//!
//! ```no_run
//! use lock_testkit::child;
//!
//! #[test]
//! fn child_role() {
//!     child::run(async |role| match role.as_str() {
//!         "greeter" => child::say(&format!("hello, {}", child::hear().await)),
//!         other => panic!("no such role: {other}"),
//!     });
//! }
//!
//! #[tokio::test]
//! async fn a_child_greets() {
//!     let mut greeter = child::spawn("greeter", &[]);
//!     greeter.tell("parent").await;
//!     assert_eq!(greeter.line().await, "hello, parent");
//! }
//! ```
//!
//! Both sides exchange lines. The child's lines are marked, so that its other output is ignored.

mod parent_side;
mod role_side;

pub use self::parent_side::{Child, spawn};
pub use self::role_side::{hear, run, say};

/// The variable with the role of a process.
const ROLE: &str = "LEASEHOLD_ROLE";

/// Start of a line of the conversation.
const MARK: &str = "@ ";
