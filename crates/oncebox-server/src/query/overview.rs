//! The overview: the three numbers people watch, each beside what it usually is; the last hour; the queues.

use oncebox::clock::UnixMillis;
use oncebox::event::EventKey;
use oncebox::limits::PAGE_EXAMINED_MAX;
use oncebox::store::Recent;

use super::desk::Desk;
use super::{QueryError, queues, sources};
use crate::view::screens::{MinuteView, NumbersView, OverviewView, RateView};
use crate::view::time;

const HOUR_MS: UnixMillis = 60 * 60 * 1000;
const DAY_MS: UnixMillis = 24 * HOUR_MS;

/// Everything on the first page.
pub(crate) async fn overview(desk: &Desk) -> Result<OverviewView, QueryError> {
    let stats = desk.store.stats(desk.clock.now() - DAY_MS).await?;
    let (now, before) = (recent(desk, Span::LastHour).await?, recent(desk, Span::Before).await?);
    let mut unverified: Vec<String> = desk.setup.sources.values().filter(|one| one.is_unverified()).map(name).collect();
    unverified.sort();
    Ok(OverviewView {
        numbers: NumbersView {
            first_try_error_rate: RateView::new(first_tries(&now), first_tries(&before)),
            duplicate_rate: RateView::new(repeats(&now), repeats(&before)),
            ledger_rows: stats.ledger_rows,
            ledger_rows_daily_change: stats.ledger_rows_last_day,
            ledger_rows_daily_change_is_least: stats.ledger_rows_last_day_is_least,
        },
        minutes: desk.traffic.minutes().into_iter().map(MinuteView::from).collect(),
        minutes_since: time(desk.traffic.since()),
        handlers: queues::handlers_of(desk, &stats).await?,
        sources: sources::sources_of(desk, &stats.recent),
        destinations: queues::destinations_of(desk, &stats),
        store: desk.store.kind().to_owned(),
        unsafe_because: desk.store.unsafe_because().map(str::to_owned),
        unverified_sources: unverified,
        counted_since: stats.recent.since.map(|key| time(key.moment())),
    })
}

#[derive(Clone, Copy)]
enum Span {
    LastHour,
    Before,
}

async fn recent(desk: &Desk, span: Span) -> Result<Recent, QueryError> {
    let hour_ago = Some(EventKey::at(desk.clock.now() - HOUR_MS));
    Ok(match span {
        Span::LastHour => desk.store.recent(hour_ago, None, PAGE_EXAMINED_MAX / 2).await?,
        Span::Before => desk.store.recent(None, hour_ago, PAGE_EXAMINED_MAX / 2).await?,
    })
}

fn name(source: &std::sync::Arc<oncebox::source::Source>) -> String {
    source.name().to_owned()
}

/// How many first attempts failed, and of how many.
fn first_tries(recent: &Recent) -> (i64, i64) {
    (recent.tries.iter().map(|one| one.failed).sum(), recent.tries.iter().map(|one| one.tried).sum())
}

/// How many arrivals were repeats, and of how many.
fn repeats(recent: &Recent) -> (i64, i64) {
    let repeats: i64 = recent.events.iter().map(|one| one.repeats).sum();
    (repeats, repeats + recent.events.iter().map(|one| one.events).sum::<i64>())
}
