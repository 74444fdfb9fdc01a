//! Small models of the protocols, each searched exhaustively: every order of their steps, with the faults that they
//! must survive. Each has broken variants, which the search must find.

#![allow(clippy::expect_used, clippy::panic)]

mod etcd;
mod fence;
mod passing;
mod postgres;
mod redis;

use std::fmt::Debug;

use lock_testkit::explore::{Model, explore};

/// Number of clients that ask for the one lock of a model.
const CLIENTS: usize = 3;

/// Asserts that the search finds no fault in a protocol.
fn stands(model: &(impl Model + Debug)) {
    let explored = explore(model).unwrap_or_else(|way| panic!("{model:?}: {way}"));
    let (states, steps) = (explored.states, explored.steps);
    println!("{model:?}: 1 name, {states} states, {steps} steps, no violation");
}

/// Asserts that the search finds the fault of a broken protocol.
fn falls(model: &(impl Model + Debug)) {
    match explore(model) {
        Ok(explored) => panic!("the search is blind to {model:?}: {explored:?}"),
        Err(way) => println!("{model:?}: found: {way}"),
    }
}

/// S2, S3: grants so far, in the order of real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Grants {
    greatest: u8,
    count: u8,
    /// A token that was not greater than all before it.
    is_out_of_order: bool,
}

impl Grants {
    fn note(&mut self, token: u8) {
        self.is_out_of_order |= token <= self.greatest;
        self.greatest = self.greatest.max(token);
        self.count += 1;
    }
}
