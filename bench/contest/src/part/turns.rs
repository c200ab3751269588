//! Rounds in which every server has its turn.

use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use testkit::postgres::Cluster;

use crate::contender::{Contender, Kind, Measured, Shape, Turn};
use crate::spread::Spread;

/// What all of them reached.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Turns {
    pub(crate) entrants: Vec<Entrant>,
    /// The turns of each round, in the order of the entrants.
    pub(crate) rounds: Vec<Vec<Turn>>,
}

/// One figure of a turn, where it was measured.
pub(crate) type Figure<'a> = &'a dyn Fn(&Turn) -> Option<f64>;

/// Who takes part.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Entrant {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

/// What a run of rounds is like.
pub(crate) struct Plan<'a> {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) builds: &'a [(String, PathBuf)],
    pub(crate) shapes: &'a dyn Fn(Kind) -> Vec<Shape>,
    pub(crate) rounds: u64,
    pub(crate) seconds: u64,
    /// Begin each turn with an empty database: large bodies would fill the disk, and what is compared lies within a turn.
    pub(crate) fresh: bool,
}

impl Plan<'_> {
    /// Runs it; `after_round` gets what is known so far.
    pub(crate) async fn run(
        &self,
        cluster: &Cluster,
        after_round: impl Fn(&Turns) -> anyhow::Result<()>,
    ) -> anyhow::Result<Turns> {
        let places = self.places();
        let mut contenders: Vec<Option<Contender>> = Vec::new();
        let mut turns = Turns::default();
        for (kind, build) in &places {
            let contender = self.contender(*kind, *build, cluster).await?;
            turns.entrants.push(Entrant { kind: *kind, name: contender.name().to_owned() });
            contenders.push((!self.fresh).then_some(contender));
        }
        for number in 0..self.rounds {
            let mut round = vec![Turn::default(); places.len()];
            // Another one begins every time, so that nobody always runs after the same neighbour.
            for turn in 0..places.len() {
                let at = (usize::try_from(number)? + turn) % places.len();
                let name = &turns.entrants[at].name;
                eprintln!("round {} of {}: {name}", number + 1, self.rounds);
                let made = match &contenders[at] {
                    Some(_) => None,
                    None => Some(self.contender(places[at].0, places[at].1, cluster).await?),
                };
                let contender = made.as_ref().or(contenders[at].as_ref()).context("there is one")?;
                let shapes = (self.shapes)(contender.kind());
                round[at] = contender.turn(&shapes, self.seconds).await.with_context(|| name.clone())?;
            }
            turns.rounds.push(round);
            after_round(&turns)?;
        }
        Ok(turns)
    }

    /// Each kind once, ours once for each build.
    fn places(&self) -> Vec<(Kind, usize)> {
        let builds = |kind: Kind| if kind.is_oncebox() { self.builds.len() } else { 1 };
        self.kinds.iter().flat_map(|kind| (0..builds(*kind)).map(|build| (*kind, build))).collect()
    }

    async fn contender(&self, kind: Kind, build: usize, cluster: &Cluster) -> anyhow::Result<Contender> {
        let (name, path) = self.builds.get(build).context("there is no build of Oncebox")?;
        let contender = Contender::new(kind, (name, path), cluster).await;
        contender.with_context(|| format!("{}: name the others with --contenders to leave it out", kind.title()))
    }
}

impl Turns {
    /// A figure of one entrant over the rounds.
    pub(crate) fn spread(&self, at: usize, figure: impl Fn(&Turn) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(|round| round.get(at).and_then(&figure)))
    }

    /// A figure of one entrant divided by that of another, each pair from one round.
    pub(crate) fn ratio(
        &self,
        (ours, figure): (usize, Figure<'_>),
        (theirs, divisor): (usize, Figure<'_>),
    ) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(|round| Some(figure(round.get(ours)?)? / divisor(round.get(theirs)?)?)))
    }

    /// The place of the first entrant of a kind.
    pub(crate) fn place(&self, kind: Kind) -> Option<usize> {
        self.entrants.iter().position(|entrant| entrant.kind == kind)
    }

    /// Every shape that somebody was measured with, in order.
    pub(crate) fn shapes(&self) -> Vec<Shape> {
        let mut shapes: Vec<Shape> = Vec::new();
        for measured in self.rounds.iter().flatten().flat_map(|turn| &turn.loads) {
            if !shapes.contains(&measured.shape) {
                shapes.push(measured.shape);
            }
        }
        shapes
    }
}

/// A figure of the load of this shape.
pub(crate) fn of(shape: Shape, figure: fn(&Measured) -> f64) -> impl Fn(&Turn) -> Option<f64> {
    move |turn| turn.at(shape).map(figure)
}

#[cfg(test)]
pub(crate) mod samples {
    use lab::figures::Figures;

    use super::*;

    pub(crate) const SHAPE: Shape = Shape { connections: 64, repeat_percent: 0, body_size: 1024, handlers: 1 };

    /// Everybody with the same rate in all of these shapes, another in each round.
    pub(crate) fn turns(kinds: &[(Kind, [f64; 3])], shapes: &[Shape]) -> Turns {
        let entrants = kinds.iter().map(|(kind, _)| Entrant { kind: *kind, name: kind.title().to_owned() }).collect();
        let turn = |rate: f64| {
            let figures = |shape: &Shape| Measured {
                shape: *shape,
                figures: Figures { rate, p50_ms: 1.0, p99_ms: 2.0, server_cpu_us: 10.0, postgres_cpu_us: 5.0 },
                mib: 20.0,
                failed: 0,
            };
            Turn { idle_mib: 10.0, loads: shapes.iter().map(figures).collect() }
        };
        let rounds = (0..3).map(|round| kinds.iter().map(|(_, rates)| turn(rates[round])).collect()).collect();
        Turns { entrants, rounds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use samples::{SHAPE, turns};

    #[test]
    fn ratios_are_taken_within_a_round() {
        let kinds = [(Kind::Naive, [100.0, 10.0, 50.0]), (Kind::OnceboxPostgres, [300.0, 20.0, 50.0])];
        let turns = turns(&kinds, &[SHAPE]);
        let rate = of(SHAPE, |one| one.figures.rate);
        let ratio = turns.ratio((1, &rate), (0, &rate)).expect("three rounds");
        assert_eq!(ratio, Spread { median: 2.0, least: 1.0, most: 3.0 });
        assert_eq!(turns.spread(0, &rate).map(|spread| spread.median), Some(50.0));
        let other = of(Shape { connections: 1, ..SHAPE }, |one| one.figures.rate);
        assert_eq!(turns.ratio((1, &rate), (0, &other)), None, "nobody measured that");
        assert_eq!((turns.place(Kind::Redis), turns.place(Kind::OnceboxPostgres)), (None, Some(1)));
        assert_eq!(turns.shapes(), [SHAPE]);
    }
}
