//! What more connections, duplicates, bytes and handlers cost.

use std::path::PathBuf;

use testkit::postgres::Cluster;

use super::turns::Plan;
use crate::args::Args;
use crate::contender::{Kind, Shape};
use crate::kept::One;
use crate::report;
use crate::surroundings::Surroundings;

/// Where every row begins.
pub(crate) const BASE: Shape = Shape { connections: 64, repeat_percent: 0, body_size: 1024, handlers: 1 };
pub(crate) const CONNECTIONS: [usize; 5] = [1, 8, 64, 256, 512];
pub(crate) const REPEATS: [u8; 4] = [0, 10, 50, 100];
pub(crate) const BODIES: [usize; 4] = [1024, 16 * 1024, 64 * 1024, 256 * 1024];
pub(crate) const HANDLERS: [usize; 3] = [1, 5, 20];

/// One direction in which cost may grow.
pub(crate) struct Direction {
    pub(crate) title: &'static str,
    pub(crate) column: &'static str,
    pub(crate) shapes: Vec<(String, Shape)>,
}

/// All of them.
pub(crate) fn directions() -> Vec<Direction> {
    let connections = CONNECTIONS.map(|connections| (connections.to_string(), Shape { connections, ..BASE }));
    let repeats = REPEATS.map(|repeat_percent| (format!("{repeat_percent} %"), Shape { repeat_percent, ..BASE }));
    let bodies = BODIES.map(|body_size| (format!("{} KiB", body_size / 1024), Shape { body_size, ..BASE }));
    let handlers = HANDLERS.map(|handlers| (handlers.to_string(), Shape { handlers, ..BASE }));
    let direction = |title, column, shapes: &[_]| Direction { title, column, shapes: shapes.to_vec() };
    vec![
        direction("More connections", "connections", &connections),
        direction("More duplicates", "sent before", &repeats),
        direction("Larger bodies", "body", &bodies),
        direction("More handlers for each event", "handlers", &handlers),
    ]
}

pub(crate) async fn run(args: &Args, builds: &[(String, PathBuf)], cluster: &Cluster) -> anyhow::Result<String> {
    let surroundings = Surroundings::look(args, cluster)?;
    let plan = Plan {
        kinds: vec![Kind::OnceboxPostgres, Kind::OnceboxSqlite, Kind::Naive],
        builds: &builds[..1],
        shapes: &shapes,
        rounds: args.rounds,
        seconds: args.seconds,
        fresh: true,
    };
    let keep = |figures: &_| One { surroundings: surroundings.clone(), figures }.keep("growth");
    let turns = plan.run(cluster, keep).await?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&turns)?);
    }
    Ok(report::receiving(&turns, &surroundings))
}

/// Each once, the largest bodies last, so that what they leave to be written weighs on nobody else.
fn shapes(kind: Kind) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = Vec::new();
    for (_, shape) in directions().into_iter().flat_map(|direction| direction.shapes) {
        if !shapes.contains(&shape) && (kind != Kind::Naive || shape.handlers == 1) {
            shapes.push(shape);
        }
    }
    shapes.sort_by_key(|shape| (shape.body_size, shape.handlers));
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_measured_once() {
        let (ours, naive) = (shapes(Kind::OnceboxPostgres), shapes(Kind::Naive));
        assert_eq!((ours.len(), naive.len()), (13, 11));
        assert_eq!(ours.iter().filter(|shape| **shape == BASE).count(), 1);
        assert_eq!(ours.last().map(|shape| shape.body_size), Some(256 * 1024));
    }
}
