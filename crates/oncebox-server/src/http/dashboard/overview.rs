//! `/`: the three numbers people watch, what needs a person, and how the last hour went.

use askama::Template;
use axum::extract::State;
use axum::response::Response;

use super::super::admin::Admin;
use super::handlers::{self, HandlerRow};
use super::pages::{PageError, Visit, page};
use super::words::{counted, grouped, percent, signed};
use crate::query;
use crate::view::StatsView;

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    visit: Visit,
    numbers: Numbers,
    concerns: Vec<Concern>,
    handlers: Vec<HandlerRow>,
    sources: Vec<SourceSum>,
}

/// The three numbers, as shown.
struct Numbers {
    first_try_errors: String,
    duplicates: String,
    ledger_rows: String,
    daily_change: String,
}

/// Something a person should look at.
struct Concern {
    tone: &'static str,
    text: String,
    href: &'static str,
    leads: &'static str,
}

/// What came from one source.
struct SourceSum {
    name: String,
    accepted: i64,
    held: i64,
    conflict: i64,
    duplicates: i64,
}

/// The overview.
pub(super) async fn show(State(admin): State<Admin>, visit: Visit) -> Result<Response, PageError> {
    let setup = admin.setup();
    let mut unverified: Vec<String> =
        setup.sources.values().filter(|source| source.is_unverified()).map(|source| source.name().to_owned()).collect();
    unverified.sort();
    let stats = query::stats(admin.store(), admin.clock(), unverified).await?;
    page(&OverviewPage {
        numbers: Numbers {
            first_try_errors: stats.first_try_error_rate.map_or_else(|| "–".to_owned(), percent),
            duplicates: percent(stats.duplicate_rate),
            ledger_rows: grouped(stats.ledger_rows),
            daily_change: signed(stats.ledger_rows_daily_change),
        },
        concerns: concerns(&stats),
        handlers: handlers::rows(&admin, &stats, visit.now),
        sources: sums(&stats),
        visit,
    })
}

fn concerns(stats: &StatsView) -> Vec<Concern> {
    let mut concerns = Vec::new();
    let mut add = |tone, text, href, leads| concerns.push(Concern { tone, text, href, leads });
    if let Some(danger) = &stats.unsafe_because {
        add("bad", format!("The database is unsafe: {danger}. Acknowledged events may be lost."), "", "");
    }
    for source in &stats.unverified_sources {
        add("bad", format!("Nobody verifies who sends to {source}."), "/sources", "sources");
    }
    let dead: i64 = stats.handlers.iter().filter(|one| one.state == "dead").map(|one| one.count).sum();
    let dead = dead + stats.outbox.iter().filter(|one| one.state == "dead").map(|one| one.count).sum::<i64>();
    if dead > 0 {
        add("bad", format!("{} gave up.", counted(dead, "dead letter")), "/dead-letters", "look at them");
    }
    let of_state = |state: &str| stats.sources.iter().filter(|one| one.state == state).map(|one| one.events).sum();
    let held: i64 = of_state("held");
    if held > 0 {
        add("warn", format!("{} held for a person.", counted(held, "event")), "/held", "decide");
    }
    let conflicts: i64 = of_state("conflict");
    if conflicts > 0 {
        let text = format!("{} came under a known id with another body.", counted(conflicts, "event"));
        add("warn", text, "/events?state=conflict", "look at them");
    }
    for one in stats.handler_health.iter().filter(|one| one.paused) {
        add("warn", format!("{} is paused: its events wait.", one.handler), "/handlers", "handlers");
    }
    concerns
}

fn sums(stats: &StatsView) -> Vec<SourceSum> {
    let mut sums: Vec<SourceSum> = Vec::new();
    for one in &stats.sources {
        let place = sums.iter().position(|sum| sum.name == one.source);
        let place = place.unwrap_or_else(|| {
            sums.push(SourceSum { name: one.source.clone(), accepted: 0, held: 0, conflict: 0, duplicates: 0 });
            sums.len() - 1
        });
        let sum = &mut sums[place];
        sum.duplicates += one.arrivals - one.events;
        match one.state.as_str() {
            "held" => sum.held += one.events,
            "conflict" => sum.conflict += one.events,
            _ => sum.accepted += one.events,
        }
    }
    sums
}
