//! Compares the output in `docs/cli.md` with the real one.

use crate::shell::{Output, Shell};
use crate::store::File;

const MANUAL: &str = include_str!("../../../docs/cli.md");

#[tokio::test]
async fn each_console_block_of_the_manual_is_true() {
    let blocks: Vec<&str> =
        MANUAL.split("```console\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 4, "no blocks");
    for block in blocks {
        let shell = Shell::of(&File::start());
        let typed = block.lines().filter_map(|line| line.strip_prefix("$ "));
        // Prints each line, and then runs it.
        let script: String = typed
            .map(|line| format!("code=$?; cat <<'END'\n$ {line}\nEND\n(exit $code)\n{line}\n"))
            .collect();
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_leasehold"));
        let folder = program.parent().expect("a folder").display();
        let mut command = shell.command("sh", &["-c", &format!("exec 2>&1\n{script}")]);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{folder}:{path}"));
        assert_eq!(lasting(&Output::of(command).await.stdout), lasting(block));
    }
}

/// Removes the parts that differ between runs: spacing, and all words with a digit; those of JSON end at its
/// quotes and commas.
fn lasting(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || "\",(){}".contains(c));
    let words = words.filter(|word| !word.is_empty()).map(|word| {
        let is_number = word.contains(|c: char| c.is_ascii_digit()) && word != "75";
        if is_number { "#" } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}
