//! The overview: the three numbers people watch, each beside what it usually is; the last hour; the queues.

use oncebox::gateway::clock::UnixMillis;
use oncebox::gateway::event::EventKey;
use oncebox::gateway::limits::{PAGE_EXAMINED_MAX, PAGE_MAX};
use oncebox::gateway::store::{EventFilter, Recent};

use super::context::QueryContext;
use super::{Result, queues, sources};
use crate::observe::traffic::Minute;
use crate::query::view::{DepthView, MinuteView, NumbersView, OverviewView, RateView, time};

const HOUR_MS: UnixMillis = 60 * 60 * 1000;
const DAY_MS: UnixMillis = 24 * HOUR_MS;

pub(crate) async fn overview(context: &QueryContext) -> Result<OverviewView> {
    let stats = context.store.stats(context.clock.now() - DAY_MS).await?;
    let (now, before) = (recent(context, Span::LastHour).await?, recent(context, Span::Before).await?);
    let minutes = context.traffic.minutes();
    Ok(OverviewView {
        numbers: NumbersView {
            first_try_error_rate: RateView::new(first_tries(&now), first_tries(&before)),
            duplicate_rate: RateView::new(came_again(&minutes), repeats(&before)),
            ledger_rows: stats.ledger_rows,
            ledger_rows_is_least: stats.ledger_rows_is_least,
            ledger_rows_daily_change: stats.ledger_rows_last_day,
            ledger_rows_daily_change_is_least: stats.ledger_rows_last_day_is_least,
        },
        minutes: minutes.into_iter().map(MinuteView::from).collect(),
        minutes_since: time(context.traffic.since),
        handlers: queues::handlers_of(context, &stats).await?,
        sources: sources::sources_of(context, &stats.recent),
        destinations: queues::destinations_of(context, &stats),
        held: held(context).await?,
        store: context.store.kind().to_owned(),
        unsafe_because: context.store.unsafe_because().map(str::to_owned),
        failover_risk: context.store.failover_risk(),
        unverified_sources: context.setup.unverified(),
        counted_since: stats.recent.since.map(|key| time(key.moment())),
    })
}

/// All that waits for a person, each event once, however old it is and however many of its deliveries wait.
async fn held(context: &QueryContext) -> Result<DepthView> {
    let page = context.store.held(&EventFilter::default(), PAGE_MAX).await?;
    Ok(DepthView { count: i64::try_from(page.items.len()).unwrap_or(i64::MAX), more: page.next.is_some() })
}

#[derive(Clone, Copy)]
enum Span {
    LastHour,
    Before,
}

async fn recent(context: &QueryContext, span: Span) -> Result<Recent> {
    let hour_ago = Some(EventKey::at(context.clock.now() - HOUR_MS));
    Ok(match span {
        Span::LastHour => context.store.recent(hour_ago, None, PAGE_EXAMINED_MAX / 2).await?,
        Span::Before => context.store.recent(None, hour_ago, PAGE_EXAMINED_MAX / 2).await?,
    })
}

/// How many first attempts failed, and of how many.
fn first_tries(recent: &Recent) -> (i64, i64) {
    (recent.tries.iter().map(|one| one.failed).sum(), recent.tries.iter().map(|one| one.tried).sum())
}

/// How many of the last hour's arrivals were duplicates, and of how many: by when they came and not by when their event
/// was first seen, so that old events that come again now are seen now.
fn came_again(minutes: &[Minute]) -> (i64, i64) {
    let results = || minutes.iter().map(|minute| minute.results);
    let duplicates: u64 = results().map(|one| one.duplicate).sum();
    let others: u64 = results().map(|one| one.accepted + one.held + one.conflict).sum();
    let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
    (number(duplicates), number(duplicates + others))
}

/// How many arrivals of these events were repeats, and of how many.
fn repeats(recent: &Recent) -> (i64, i64) {
    let repeats: i64 = recent.events.iter().map(|one| one.repeats).sum();
    (repeats, repeats + recent.events.iter().map(|one| one.events).sum::<i64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::traffic::Results;

    #[test]
    fn what_was_refused_did_not_arrive() {
        let minute = |results| Minute { at: 0, results, latency: None };
        let first = Results { accepted: 3, duplicate: 4, held: 1, ..Results::default() };
        let second = Results { duplicate: 1, conflict: 1, rejected: 50, unavailable: 7, ..Results::default() };
        assert_eq!(came_again(&[minute(first), minute(second)]), (5, 10));
        assert_eq!(came_again(&[]), (0, 0));
    }
}
