//! The document from made-up figures.

use std::collections::BTreeMap;

use lab::figures::Figures;

use super::*;
use crate::contender::Kind;
use crate::part::ledger::{Room, Side};
use crate::part::turns::samples::turns;

fn one<T>(figures: T) -> One<T> {
    let versions = vec![("Postgres".to_owned(), "15.1".to_owned())];
    let surroundings =
        Surroundings { date: "2026-01-02".to_owned(), commit: "abc".to_owned(), versions, ..Surroundings::default() };
    One { surroundings, figures }
}

fn ledger() -> Ledger {
    let round = |rate: f64| Round { figures: Figures { rate, ..Figures::default() }, written: Some(rate), mib: 20.0 };
    let bytes_per_event = Room { ledger: 90.0, event: 200.0, payload: 1200.0, delivery: 190.0 };
    let (small, large) = (Side { rounds: vec![round(100.0)] }, Side { rounds: vec![round(95.0)] });
    Ledger { rows: 10_000_000, small_rows: 10_000, small, large, bytes_per_event }
}

fn kept() -> Kept {
    let shapes = [
        BASE,
        Shape { connections: 256, ..BASE },
        Shape { connections: 1, ..BASE },
        Shape { repeat_percent: 100, ..BASE },
    ];
    let kinds = [
        (Kind::Ceiling, [1000.0, 1000.0, 2000.0]),
        (Kind::Naive, [200.0, 200.0, 200.0]),
        (Kind::OnceboxPostgres, [400.0, 600.0, 800.0]),
    ];
    let rates = [("postgres.batches", 100.0), ("graphile", 5.0), ("postgres.relay", 30.0), ("postgres.bare", 100.0)];
    let rates = rates.map(|(way, rate)| (way.to_owned(), rate));
    let queues = Queues { rounds: vec![BTreeMap::from(rates)] };
    Kept {
        receiving: Some(one(turns(&kinds, &shapes))),
        growth: Some(one(turns(
            &kinds[1..],
            &directions().into_iter().flat_map(|one| one.shapes).map(|one| one.1).collect::<Vec<_>>(),
        ))),
        handling: Some(one(queues.clone())),
        relay: Some(one(queues)),
        ledger: Some(one(Ledgers { postgres: ledger(), sqlite: ledger() })),
    }
}

#[track_caller]
fn has(text: &str, part: &str) {
    assert!(text.contains(part), "no {part:?} in:\n{text}");
}

#[test]
fn a_document_says_what_was_reached() {
    let text = of_kept(&kept());
    has(&text, "| accepted/s ÷ ceiling, Postgres, 64 connections | P1 | 0.40 (0.40 – 0.60) | ≥ 0.35 | ≥ 0.50 | yes |");
    has(&text, "| accepted/s ÷ naive, Postgres, 64 connections | P3 | 3.00 (2.00 – 4.00) | ≥ 2.50 | ≥ 3.50 | yes |");
    has(&text, "| P4 | 1.00 (1.00 – 1.00) | ≤ 0.33 | ≤ 0.25 | no |");
    has(&text, "| P5 |  | ≥ 4.50 | ≥ 6.00 | not measured |");
    has(&text, "| P9 | 20.0 (20.0 – 20.0) | ≥ 10.0 | ≥ 15.0 | yes |");
    has(&text, "| P12 | 0.30 (0.30 – 0.30) | ≥ 0.40 | ≥ 0.60 | no |");
    has(&text, "| P13 | 0.95 (0.95 – 0.95) | ≥ 0.90 | ≥ 0.95 | yes |");
}

#[test]
fn a_document_says_when_and_how_often() {
    let text = of_kept(&kept());
    has(
        &text,
        "- receiving (3 rounds), growth (3 rounds), handling (1 round), outbox (1 round), large ledger (1 round): 2026-01-02, commit abc",
    );
    has(&text, "Versions: Postgres 15.1.");
}

#[test]
fn a_document_has_a_table_for_everything() {
    let text = of_kept(&kept());
    has(&text, "### 64 connections, every event sent before");
    has(&text, "| axum, one INSERT a request (naive) | 512 |");
    has(&text, "| Oncebox, Postgres | 256 KiB | 600 (400 – 800) | 1.00 |");
    has(&text, "| Postgres: events in the ledger | 10,000 | 10,000,000 |  |");
    has(&text, "| payload | 1,200 | 1,200 |");
    assert!(text.lines().all(|line| line.starts_with('|') || line.starts_with("- ") || line.len() <= 130), "{text}");
}

#[test]
fn what_was_not_measured_is_said() {
    let text = of_kept(&Kept::default());
    assert_eq!(text.matches(NOT_MEASURED.trim()).count(), 5);
    assert_eq!(text.matches("| not measured |").count(), TARGETS.len());
}
