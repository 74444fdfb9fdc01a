//! Circles of arrows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::arrow::Arrow;

/// Files that all use each other, directly or through others.
pub(super) struct Circle<'arrows> {
    /// All of them.
    pub(super) files: BTreeSet<&'arrows str>,
    /// The shortest way from one of them back to itself.
    pub(super) way: Vec<&'arrows Arrow>,
}

/// All circles. No file is in two of them.
pub(super) fn circles(arrows: &[Arrow]) -> Vec<Circle<'_>> {
    let graph = Graph::new(arrows);
    let mut circles: Vec<Circle<'_>> = Vec::new();
    for start in graph.arrows.keys() {
        let Some(way) = graph.way_back(start) else { continue };
        match circles.iter_mut().find(|circle| circle.files.contains(start)) {
            Some(known) if known.way.len() <= way.len() => {}
            Some(known) => known.way = way,
            None => circles.push(Circle { files: graph.companions(start), way }),
        }
    }
    circles
}

/// The arrows that leave each file.
struct Graph<'arrows> {
    arrows: BTreeMap<&'arrows str, Vec<&'arrows Arrow>>,
}

impl<'arrows> Graph<'arrows> {
    fn new(all: &'arrows [Arrow]) -> Self {
        let mut arrows: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for arrow in all {
            arrows.entry(arrow.from.as_str()).or_default().push(arrow);
        }
        Self { arrows }
    }

    /// For each file that can be reached, the last arrow of a shortest way to it.
    fn reached_from(&self, start: &'arrows str) -> BTreeMap<&'arrows str, &'arrows Arrow> {
        let mut reached = BTreeMap::new();
        let mut ahead = VecDeque::from([start]);
        while let Some(file) = ahead.pop_front() {
            for arrow in self.arrows.get(file).into_iter().flatten() {
                if !reached.contains_key(arrow.to.as_str()) {
                    reached.insert(arrow.to.as_str(), *arrow);
                    ahead.push_back(&arrow.to);
                }
            }
        }
        reached
    }

    /// A shortest way from a file back to itself.
    fn way_back(&self, start: &'arrows str) -> Option<Vec<&'arrows Arrow>> {
        let reached = self.reached_from(start);
        let mut arrow = *reached.get(start)?;
        let mut way = VecDeque::from([arrow]);
        while arrow.from != start {
            arrow = reached.get(arrow.from.as_str())?;
            way.push_front(arrow);
        }
        Some(way.into())
    }

    /// The files that are reached from one, and that reach it.
    fn companions(&self, start: &'arrows str) -> BTreeSet<&'arrows str> {
        let reached = self.reached_from(start).into_keys();
        reached.filter(|file| self.reached_from(file).contains_key(start)).collect()
    }
}
