//! What is told of the rounds: medians, and ratios to the floor.

use crate::times::Times;

/// What one round showed of one peer.
pub(crate) struct Round {
    peer: &'static str,
    times: Times,
    turns: Option<Turns>,
}

#[derive(Clone, Copy)]
struct Turns {
    /// Acquisitions of the slowest worker, by those of the fastest.
    fairness: f64,
    commands_per_acquisition: Option<f64>,
}

impl Round {
    pub(crate) fn new(peer: &'static str, times: Times) -> Self {
        Self { peer, times, turns: None }
    }

    /// A round in which each worker had so many turns, with so many commands in all.
    pub(crate) fn of_turns(
        peer: &'static str,
        times: Times,
        turns: &[u64],
        commands: Option<u64>,
    ) -> Self {
        let (slowest, fastest) = (turns.iter().min(), turns.iter().max());
        let total = turns.iter().sum::<u64>().max(1) as f64;
        let turns = Turns {
            fairness: *slowest.unwrap_or(&0) as f64 / (*fastest.unwrap_or(&1)).max(1) as f64,
            commands_per_acquisition: commands.map(|commands| commands as f64 / total),
        };
        Self { peer, times, turns: Some(turns) }
    }
}

/// The rounds of one workload: the floor first, then the peers.
pub(crate) struct Table {
    title: String,
    rounds: Vec<Vec<Round>>,
}

impl Table {
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), rounds: Vec::new() }
    }

    /// Adds a round of each.
    pub(crate) fn add(&mut self, rounds: Vec<Round>) {
        self.rounds.push(rounds);
    }

    /// Prints a line for each: the medians of its rounds.
    pub(crate) fn print(&self) {
        println!(
            "{:28} {:>9} {:>9} {:>7} {:>9} {:>9}",
            self.title, "p50 µs", "p99 µs", "× floor", "slow/fast", "cmds/acq"
        );
        let lines = self.rounds.first().map_or(0, Vec::len);
        let floor = self.median(0, |round| Some(quantile(round, 0.5))).unwrap_or(1.0).max(1.0);
        for line in 0..lines {
            let of = |figure: fn(&Round) -> Option<f64>| self.median(line, figure);
            let p50 = of(|round| Some(quantile(round, 0.5))).unwrap_or_default();
            let p99 = of(|round| Some(quantile(round, 0.99))).unwrap_or_default();
            let fairness = of(|round| Some(round.turns?.fairness));
            let commands = of(|round| round.turns?.commands_per_acquisition);
            println!(
                "{:28} {p50:>9.0} {p99:>9.0} {:>7.2} {:>9} {:>9}",
                self.rounds[0][line].peer,
                p50 / floor,
                fairness.map_or(String::new(), |fairness| format!("{fairness:.2}")),
                commands.map_or(String::new(), |commands| format!("{commands:.1}")),
            );
        }
        println!();
    }

    fn median(&self, line: usize, figure: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        let mut figures: Vec<f64> =
            self.rounds.iter().filter_map(|round| figure(round.get(line)?)).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied()
    }
}

fn quantile(round: &Round, quantile: f64) -> f64 {
    round.times.value_at_quantile(quantile) as f64
}
