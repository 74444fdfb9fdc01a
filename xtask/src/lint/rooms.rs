//! Checks that no room of the engine names a type of a room above it.

use crate::lint::source::Source;

const ENGINE: &str = "lock-core/src/engine";

/// The lower rooms, and the rooms that each must not name.
const ROOMS: [(&str, &[&str]); 3] = [
    ("client", &["acquire", "give_back", "hold"]),
    ("give_back", &["acquire", "hold"]),
    ("hold", &["acquire", "give_back"]),
];

/// Returns the files of a room that name a room above it.
pub(super) fn problems(sources: &[Source]) -> Vec<String> {
    let mut problems = Vec::new();
    for (room, above) in ROOMS {
        let (file, folder) = (format!("{ENGINE}/{room}.rs"), format!("{ENGINE}/{room}"));
        for Source { path, text } in
            sources.iter().filter(|it| it.path == file || it.is_in(&folder))
        {
            let named = above.iter().filter(|other| text.contains(&format!("engine::{other}")));
            problems.extend(named.map(|other| format!("{path}: {room}/ names a type of {other}/")));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_names_no_room_above_it() {
        let of = |path: &str| Source::new(path, "use crate::engine::hold::Hold;\n");
        let below = of("lock-core/src/engine/give_back/janitor.rs");
        assert_eq!(problems(&[below, of("lock-core/src/engine/acquire/wait.rs")]).len(), 1);
    }
}
