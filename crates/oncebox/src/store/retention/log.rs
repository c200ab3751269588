//! What retention keeps in mind: windows, what it saw of the clocks, how far it came, and how many identities there are.
//!
//! Identities are counted once, in slices, behind everybody who writes; what is removed is subtracted in the same
//! transaction. A look then costs no more than what came since.

use std::collections::BTreeMap;

use crate::clock::UnixMillis;
use crate::database::first;
use crate::event::EventKey;
use crate::store::report::columns;
use crate::store::{Asked, Row, Store, StoreError, Tx, Value, sql};

/// Events counted in one transaction.
const COUNT_SLICE: i64 = 20_000;
const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// How long the rows of a source live; the empty name is for whatever has no windows of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRecord {
    /// The source's name, or nothing.
    pub source: String,
    /// How long its identities are remembered, in milliseconds.
    pub ledger_ms: i64,
    /// How long its payloads are kept, in milliseconds.
    pub payload_ms: i64,
}

/// What retention knows across restarts and nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionRecord {
    /// The newest time at which somebody looked.
    pub seen_at: Option<UnixMillis>,
    /// Which start of the machine that was, and how long it ran by then.
    pub boot: Option<(String, i64)>,
    /// Since when and why nothing is deleted.
    pub stopped: Option<(UnixMillis, String)>,
    /// How far a node's clock was found behind the database's, and when.
    pub behind: (i64, UnixMillis),
    /// The time by which things age: the database's where it has a clock, else the one that was handed in.
    pub time: UnixMillis,
    /// The longest window of identities, in milliseconds; nothing where nobody ever said.
    pub remembers_ms: Option<i64>,
}

/// Identities remembered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerRows {
    /// How many, by source.
    pub by_source: Vec<(String, i64)>,
    /// There are that many at least: more came since they were counted than a look goes through.
    pub is_least: bool,
}

columns!(WindowRecord: source, ledger_ms, payload_ms);

impl LedgerRows {
    /// Those of all sources.
    pub fn total(&self) -> i64 {
        self.by_source.iter().map(|(_, rows)| rows).sum()
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// When it began.
    pub started_at: UnixMillis,
    /// When it ended; none for one that is under way, or was cut off.
    pub finished_at: Option<UnixMillis>,
    /// Rows removed, by table.
    pub removed: Removed,
    /// Payloads whose window is over and that stay, because somebody needs them.
    pub kept: i64,
}

/// Rows removed, by table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed(BTreeMap<String, u64>);

/// The names of tables that are removed together with their event.
pub(in crate::store) struct Tables {
    pub(in crate::store) ledger: &'static str,
    pub(in crate::store) repeats: &'static str,
    pub(in crate::store) events: &'static str,
    pub(in crate::store) arrivals: &'static str,
    pub(in crate::store) deliveries: &'static str,
    pub(in crate::store) attempts: &'static str,
    pub(in crate::store) steps: &'static str,
}

pub(in crate::store) const TABLES: Tables = Tables {
    ledger: "ledger",
    repeats: "repeats",
    events: "events",
    arrivals: "arrivals",
    deliveries: "deliveries",
    attempts: "attempts",
    steps: "steps",
};

impl Removed {
    /// Adds rows of a table.
    pub fn add(&mut self, table: &str, rows: u64) {
        if rows > 0 {
            *self.0.entry(table.to_owned()).or_default() += rows;
        }
    }

    /// Tables and rows.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(table, rows)| (table.as_str(), *rows))
    }

    /// Rows in all.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

impl Store {
    /// Makes windows known, or known anew after a change of the config.
    pub async fn register_windows(&self, windows: &[WindowRecord]) -> Result<(), StoreError> {
        let mut sorted: Vec<&WindowRecord> = windows.iter().collect();
        sorted.sort_by_key(|one| &one.source);
        let mut tx = self.begin().await?;
        for one in sorted {
            let values = vec![one.source.as_str().into(), one.ledger_ms.into(), one.payload_ms.into()];
            tx.execute(&sql::REGISTER_WINDOW, values).await?;
        }
        tx.commit_or_fail().await
    }

    /// The windows of every source that was ever configured.
    pub async fn windows(&self) -> Result<Vec<WindowRecord>, StoreError> {
        self.list(&sql::WINDOWS, Vec::new()).await
    }

    /// What retention knows.
    pub async fn retention(&self, now: UnixMillis) -> Result<RetentionRecord, StoreError> {
        let rows = self.query(&sql::RETENTION_STATE, vec![now.into()]).await?;
        let row = rows.first().ok_or(StoreError::Corrupt { what: "retention" })?;
        Ok(RetentionRecord {
            seen_at: row.optional_int(0)?,
            boot: row.optional_text(1)?.zip(row.optional_int(2)?),
            stopped: row.optional_int(3)?.zip(row.optional_text(4)?),
            behind: (row.int(5)?, row.int(6)?),
            time: row.int(7)?,
            remembers_ms: row.optional_int(8)?,
        })
    }

    /// Writes down that somebody looked, and what proves how much time passes from now on.
    pub async fn note_look(&self, at: UnixMillis, boot: Option<&(String, i64)>) -> Result<(), StoreError> {
        let (name, uptime) = (boot.map(|boot| boot.0.as_str()), boot.map(|boot| boot.1));
        self.write(&sql::NOTE_LOOK, vec![at.into(), name.into(), uptime.into()]).await.map(drop)
    }

    /// Writes down how far a clock was behind, and when.
    pub async fn note_behind(&self, behind: (i64, UnixMillis)) -> Result<(), StoreError> {
        self.write(&sql::NOTE_BEHIND, vec![behind.0.into(), behind.1.into()]).await.map(drop)
    }

    /// Stops all deletes until a person confirms the time; an earlier reason stays.
    pub async fn stop_retention(&self, at: UnixMillis, why: &str) -> Result<(), StoreError> {
        self.write(&sql::STOP_RETENTION, vec![at.into(), why.into()]).await.map(drop)
    }

    /// Writes down how far a run came.
    pub async fn note_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        let removed = serde_json::to_string(&run.removed.0).map_err(|error| StoreError::Refused(error.into()))?;
        let values = vec![run.started_at.into(), run.finished_at.into(), removed.as_str().into(), run.kept.into()];
        let mut tx = self.begin().await?;
        tx.execute(&sql::OPEN_RUN, vec![run.started_at.into()]).await?;
        tx.execute(&sql::END_RUN, values).await?;
        tx.commit_or_fail().await
    }

    /// The newest runs.
    pub async fn runs(&self, limit: usize) -> Result<Vec<RunRecord>, StoreError> {
        let read = |row: &Row| {
            let removed = serde_json::from_str(&row.text(2)?).map_err(|_error| StoreError::Corrupt { what: "run" })?;
            let (started_at, finished_at) = (row.int(0)?, row.optional_int(1)?);
            Ok(RunRecord { started_at, finished_at, removed: Removed(removed), kept: row.int(3)? })
        };
        self.query(&sql::RUNS, vec![limit.into()]).await?.iter().map(read).collect()
    }

    /// Whether a whole slice waits to be counted before that time: a read, so that an idle node writes nothing.
    pub async fn has_slice_to_count(&self, until: UnixMillis) -> Result<bool, StoreError> {
        let from = self.counted_to().await?;
        let next = self.query(&sql::COUNT_NEXT, vec![from.into(), COUNT_SLICE.into()]).await?;
        Ok(slice_end(&next, EventKey::at(until))?.is_some())
    }

    /// Counts events up to a time, one slice; false when nothing was left to count. The time is one behind which nobody
    /// writes any more.
    pub async fn count_ledger(&self, until: UnixMillis) -> Result<bool, StoreError> {
        let until = EventKey::at(until);
        let mut tx = self.begin().await?;
        let from = tx.lock_counts().await?;
        if from >= until {
            tx.rollback().await;
            return Ok(false);
        }
        let next = tx.query(&sql::COUNT_NEXT, vec![from.into(), COUNT_SLICE.into()]).await?;
        let next = slice_end(&next, until)?;
        let to = next.unwrap_or(until);
        for row in tx.query(&sql::COUNT_BETWEEN, vec![from.into(), to.into()]).await? {
            tx.add_ledger_rows(&row.text(0)?, row.int(1)?).await?;
        }
        tx.execute(&sql::COUNTED_TO, vec![to.into()]).await?;
        tx.commit_or_fail().await?;
        Ok(next.is_some())
    }

    /// Identities remembered, by source. Of what came since they were last counted, so many are looked at.
    pub async fn ledger_rows(&self, examined_max: usize) -> Result<LedgerRows, StoreError> {
        let examined_max = i64::try_from(examined_max).unwrap_or(i64::MAX);
        let values = vec![self.counted_to().await?.into(), examined_max.into()];
        let rows = self.query(&sql::LEDGER_ROWS, values).await?;
        let mut found = LedgerRows::default();
        let mut uncounted = 0;
        for row in &rows {
            found.by_source.push((row.text(0)?, row.int(1)?));
            uncounted += row.int(2)?;
        }
        found.is_least = uncounted >= examined_max;
        Ok(found)
    }

    async fn counted_to(&self) -> Result<EventKey, StoreError> {
        let counted = self.first(&sql::LEDGER_COUNTED_TO, Vec::new()).await?;
        counted.ok_or(StoreError::Corrupt { what: "retention" })
    }

    /// Notes the sizes of the hour, once, and drops what is too old to be compared with.
    pub async fn note_ledger_rows(&self, now: UnixMillis) -> Result<(), StoreError> {
        let hour = now - now.rem_euclid(HOUR_MS);
        // What is compared with a day later is worth a longer look.
        let sizes = self.ledger_rows(usize::MAX).await?;
        let mut tx = self.begin().await?;
        for (source, rows) in sizes.by_source {
            tx.execute(&sql::NOTE_LEDGER_ROWS, vec![hour.into(), source.as_str().into(), rows.into()]).await?;
        }
        tx.execute(&sql::REMOVE_HISTORY, vec![(now - 3 * DAY_MS).into(), (now - 400 * DAY_MS).into()]).await?;
        tx.commit_or_fail().await
    }

    /// Opens a line of the audit log for a run that an operator asks for.
    pub async fn open_run_as(&self, asked: &Asked) -> Result<(), StoreError> {
        let (id, who) = (asked.id.as_str(), asked.who.as_str());
        let about = r#"{"retention":"run now"}"#;
        let first = EventKey::MIN;
        let values =
            vec![id.into(), "retention".into(), about.into(), who.into(), Value::Null, first.into(), asked.at.into()];
        self.write(&sql::OPEN_ACTION, values).await.map(drop)
    }

    /// Ends that line with how many rows went.
    pub async fn end_run_as(&self, asked: &Asked, removed: i64, now: UnixMillis) -> Result<(), StoreError> {
        let first = EventKey::MIN;
        let (id, phase, over) = (asked.id.as_str(), 1_i64, 1_i64);
        let values = vec![id.into(), removed.into(), phase.into(), first.into(), over.into(), now.into()];
        self.write(&sql::ADVANCE_ACTION, values).await.map(drop)
    }

    /// Identities remembered at a time, as far as somebody noted it within the hours before.
    pub async fn ledger_rows_at(&self, at: UnixMillis) -> Result<Option<i64>, StoreError> {
        let noted = self.first(&sql::LEDGER_ROWS_BEFORE, vec![at.into(), (at - 6 * HOUR_MS).into()]).await?;
        Ok(noted.flatten())
    }
}

/// Where a slice ends, if it is whole and ends before that key.
fn slice_end(next: &[Row], until: EventKey) -> Result<Option<EventKey>, StoreError> {
    Ok(first(next)?.filter(|key| *key < until))
}

impl Tx {
    /// How far identities are counted; nobody else counts or removes until the transaction ends.
    pub(in crate::store) async fn lock_counts(&mut self) -> Result<EventKey, StoreError> {
        let rows = self.query(&sql::LOCK_COUNTS, Vec::new()).await?;
        first(&rows)?.ok_or(StoreError::Corrupt { what: "retention" })
    }

    /// Takes one identity off for each name.
    pub(in crate::store) async fn subtract_ledger_rows<'a>(
        &mut self,
        sources: impl Iterator<Item = &'a str>,
    ) -> Result<(), StoreError> {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        sources.for_each(|source| *counts.entry(source).or_default() += 1);
        for (source, count) in counts {
            self.add_ledger_rows(source, -count).await?;
        }
        Ok(())
    }

    async fn add_ledger_rows(&mut self, source: &str, rows: i64) -> Result<(), StoreError> {
        self.execute(&sql::ADD_LEDGER_ROWS, vec![source.into(), rows.into()]).await.map(drop)
    }
}
