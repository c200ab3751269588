//! Webhooks taken in, beside other servers.

use std::path::PathBuf;

use testkit::postgres::Cluster;

use super::turns::Plan;
use crate::args::Args;
use crate::contender::{Kind, Shape};
use crate::kept::One;
use crate::report;
use crate::surroundings::Surroundings;

pub(crate) async fn run(args: &Args, builds: &[(String, PathBuf)], cluster: &Cluster) -> anyhow::Result<String> {
    let surroundings = Surroundings::look(args, cluster)?;
    let plan = Plan {
        kinds: args.contenders(),
        builds,
        shapes: &|kind| shapes(kind, &args.connections, args.body_size),
        rounds: args.rounds,
        seconds: args.seconds,
        fresh: false,
    };
    let keep = |figures: &_| {
        // A quick run must not take the place of a real one.
        if args.quick { Ok(()) } else { One { surroundings: surroundings.clone(), figures }.keep("receiving") }
    };
    let turns = plan.run(cluster, keep).await?;
    if args.json {
        return Ok(serde_json::to_string_pretty(&turns)?);
    }
    Ok(report::receiving(&turns, &surroundings))
}

/// New events at each number of connections, and repeats alone at the first.
fn shapes(kind: Kind, connections: &[usize], body_size: usize) -> Vec<Shape> {
    let shape = |connections: usize| Shape { connections, repeat_percent: 0, body_size, handlers: 1 };
    let mut shapes: Vec<Shape> = connections.iter().map(|connections| shape(*connections)).collect();
    if let Some(first) = shapes.first().filter(|_| kind.repeats()) {
        shapes.push(Shape { repeat_percent: 100, ..*first });
    }
    shapes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_asked_of_those_that_are_compared_by_them() {
        let count = |kind: Kind| shapes(kind, &[64, 1], 1024).len();
        assert_eq!((count(Kind::OnceboxPostgres), count(Kind::Naive), count(Kind::Express)), (3, 3, 2));
        assert!(shapes(Kind::Naive, &[], 1024).is_empty());
    }
}
