//! Compares printed text with committed snapshots.

use crate::shell::Shell;

/// Returns the output of one run, without the parts that differ between runs.
pub(crate) async fn typed(shell: &Shell, args: &[&str]) -> String {
    let output = shell.run(args).await;
    let stderr = match output.stderr.as_str() {
        "" => String::new(),
        text => format!("--- stderr\n{text}"),
    };
    format!("$ leasehold {}\n{}{stderr}--- {}\n", args.join(" "), output.stdout, output.code)
}

/// Stores that report since when a lock is held. The others may report it or not, so snapshots of their output
/// leave it out.
const TELL_SINCE: [&str; 3] = ["file", "postgres", "redis"];

/// Times that differ between runs, and their replacements.
fn since_filters(store: &str) -> &'static [(&'static str, &'static str)] {
    if TELL_SINCE.contains(&store) {
        return &[
            (r"(?m)^(  since    \S+Z), [0-9a-z ]+ ago$", "$1, [span] ago"),
            (r#""since_ms":\d+"#, r#""since_ms":[ms]"#),
        ];
    }
    &[
        (r"(?m)^  since    .*\n", ""),
        (r" since \d{4}-\S+Z", ""),
        (r"(?m)^(\w+ +\S+ +\d+ +)(-|\d{4}-\S+Z)", "$1[since]"),
        (r#""since_ms":(\d+|null)"#, r#""since_ms":[since]"#),
    ]
}

/// Compares with the committed snapshot, which may belong to one kind of store. `INSTA_UPDATE=always` writes it
/// anew.
pub(crate) fn compare(store: &str, name: &str, printed: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    if !store.is_empty() {
        settings.set_snapshot_suffix(store);
    }
    for (volatile, shown) in since_filters(store) {
        settings.add_filter(volatile, *shown);
    }
    for (volatile, shown) in [
        (r#"(token |token    |"token":|in term |"term":)\d+"#, "$1[token]"),
        (r#"(owner |"owner":")[0-9a-f]{8}"#, "$1[owner]"),
        (r"(?m)(^  owner    |^(a|b|foreign) +)[0-9a-f]{8}\b", "$1[owner]"),
        // The columns of the table.
        (r"OWNER +TOKEN +SINCE +TTL", "OWNER  TOKEN  SINCE  TTL"),
        (r"(?m)^(\w+ +)\[owner\] +\d+ +(\S+) +", "$1[owner]  [token]  $2  "),
        (r#""ttl_ms":\d+"#, r#""ttl_ms":[ms]"#),
        (r"\b\d+\.\d s\b *", "[ttl] "),
        (r"\d+(\.\d+)?(ms|s) more", "[ttl] more"),
        (r"file:/\S*\.tmp\w+", "file:[directory]"),
        (r"within \d+(\.\d+)?(ms|s)", "within [span]"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "[time]"),
        (r"as Redis [\d.]+", "as Redis [version]"),
        (r"127\.0\.0\.1:\d+", "[address]"),
    ] {
        settings.add_filter(volatile, shown);
    }
    settings.bind(|| insta::assert_snapshot!(name, printed));
}
