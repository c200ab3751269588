//! Looking over a live database: the schema's pieces, the settings that the promise rests on, and what must hold between
//! the tables. It only reads, in slices by key, so that it never holds anything up.
//!
//! Every slice is one statement and so sees one moment; what workers do meanwhile is never taken for a fault.

use std::collections::{BTreeMap, HashSet};

use crate::database::is_true;
use crate::database::migrations::{Recorded, Schema, pending};
use crate::event::{EventKey, EventKind};
use crate::store::operate::actions::count;
use crate::store::operate::forget::{digest, identity};
use crate::store::report::schema_pieces::{self, Piece};
use crate::store::{Database, Dialect, Row, Store, StoreError, sql};
use oncebox_verify::Identity;

const SLICE: i64 = 5000;
const EXAMPLES_MAX: usize = 5;

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// So many of the newest rows of each table.
    Newest(i64),
    /// Every row; on SQLite the file's structure too.
    All,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was checked, such as `deliveries`.
    pub check: String,
    /// How many were looked at.
    pub looked_at: i64,
    /// What is wrong, by kind.
    pub faults: Vec<Fault>,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it is.
    pub what: String,
    /// How many there are.
    pub count: i64,
    /// A few names.
    pub examples: Vec<String>,
}

impl Store {
    /// The keys that the ledger has for these identities, in their order.
    pub async fn ledger_keys(&self, identities: &[Identity]) -> Result<Vec<Option<EventKey>>, StoreError> {
        by_database!(&self.database,
            Database::Sqlite(database) => database.ledger_keys(identities.to_vec()).await,
            Database::Postgres(database) => database.ledger_keys(identities).await,
        )
    }

    /// Looks everything over and tells after each slice how many rows were looked at so far.
    pub async fn inspect(&self, depth: Depth, mut tell: impl FnMut(i64)) -> Result<Vec<Finding>, StoreError> {
        let schema = self.inspect_schema().await?;
        let whole = schema.faults.is_empty();
        let mut findings = vec![schema, self.inspect_settings().await?];
        // Tables that are not there cannot be looked at.
        if !whole {
            return Ok(findings);
        }
        let mut looker = Looker { store: self, depth, seen: 0, tell: &mut tell };
        findings.push(looker.events().await?);
        for (check, statement) in [
            ("ledger", &sql::INSPECT_LEDGER),
            ("payloads", &sql::INSPECT_PAYLOADS),
            ("arrivals", &sql::INSPECT_ARRIVALS),
            ("deliveries", &sql::INSPECT_DELIVERIES),
            ("outbox", &sql::INSPECT_OUTBOX),
        ] {
            findings.push(looker.table(check, statement).await?);
        }
        if depth == Depth::All && self.dialect() == Dialect::Sqlite {
            findings.push(self.inspect_file().await?);
        }
        Ok(findings)
    }

    async fn inspect_schema(&self) -> Result<Finding, StoreError> {
        let schema = Schema::of(self.dialect());
        let there = self.query(&sql::SCHEMA_PIECES, Vec::new()).await?;
        let mut present = BTreeMap::new();
        for row in &there {
            present.insert(Piece { kind: row.text(0)?, name: row.text(1)? }, row.int(2)? != 0);
        }
        let mut faults = Faults::default();
        let recorded = self.recorded_schema().await?;
        match pending(schema, &recorded) {
            Ok(steps) => steps.iter().for_each(|step| faults.add("migration not applied", step.file.name)),
            Err(refusal) => faults.add(&refusal.to_string(), "see `oncebox migrate`"),
        }
        let wanted = schema_pieces::after(schema.texts_of(&recorded));
        for piece in &wanted {
            match present.get(piece) {
                None => faults.add(&format!("{} missing", piece.kind), &piece.name),
                Some(true) => faults.add(&format!("{} not usable", piece.kind), &piece.name),
                Some(false) => {}
            }
        }
        Ok(faults.found("schema", count(wanted.len())))
    }

    async fn recorded_schema(&self) -> Result<Recorded, StoreError> {
        let there = self.query(&sql::HAS_MIGRATIONS, Vec::new()).await?;
        let (mut migrations, mut repeatables) = (Vec::new(), Vec::new());
        if is_true(&there, 0)? {
            migrations = self.query(&sql::APPLIED_MIGRATIONS, Vec::new()).await?;
        }
        if is_true(&there, 1)? {
            repeatables = self.query(&sql::APPLIED_REPEATABLES, Vec::new()).await?;
        }
        Recorded::read(&migrations, &repeatables)
    }

    async fn inspect_settings(&self) -> Result<Finding, StoreError> {
        let rows = self.query(&sql::DURABLE_SETTINGS, Vec::new()).await?;
        let mut faults = Faults::default();
        for row in &rows {
            if row.int(2)? != 0 {
                faults.add("setting that loses acknowledged events", &format!("{} = {}", row.text(0)?, row.text(1)?));
            }
        }
        Ok(faults.found("settings", count(rows.len())))
    }

    async fn inspect_file(&self) -> Result<Finding, StoreError> {
        let mut faults = Faults::default();
        let said: Vec<String> = self.list(&sql::QUICK_CHECK, Vec::new()).await?;
        said.iter().filter(|line| *line != "ok").for_each(|line| faults.add("file damaged", line));
        Ok(faults.found("file", 1))
    }
}

struct Looker<'a, T> {
    store: &'a Store,
    depth: Depth,
    seen: i64,
    tell: &'a mut T,
}

impl<T: FnMut(i64)> Looker<'_, T> {
    /// A table whose statement names each row and what is wrong with it.
    async fn table(&mut self, check: &str, statement: &sql::Statement) -> Result<Finding, StoreError> {
        let (mut faults, mut slices) = (Faults::default(), Slices::BEGIN);
        while let Some(rows) = self.next(statement, &mut slices).await? {
            for row in &rows {
                if let Some(what) = row.optional_text(1)? {
                    faults.add(&what, &row.key::<EventKind>(0)?.to_string());
                }
            }
        }
        Ok(faults.found(check, slices.seen))
    }

    /// Each event against the ledger. An identity that an operator dropped is not there, or belongs to a later event, so
    /// as many as were dropped are no fault.
    async fn events(&mut self) -> Result<Finding, StoreError> {
        let (mut faults, mut slices) = (Faults::default(), Slices::BEGIN);
        while let Some(rows) = self.next(&sql::INSPECT_EVENTS, &mut slices).await? {
            let mut wanted = Vec::with_capacity(rows.len());
            for row in &rows {
                if row.int(7)? != 0 {
                    faults.add("conflict without its original", &row.key::<EventKind>(0)?.to_string());
                }
                if row.text(4)? != "arrival" {
                    wanted.push((row.key(0)?, identity_of(row)?));
                }
            }
            let identities: Vec<_> = wanted.iter().map(|(_, identity)| *identity).collect();
            let owners = self.store.ledger_keys(&identities).await?;
            let missed = wanted.iter().map(|(key, _)| *key).zip(owners).filter(|(key, owner)| *owner != Some(*key));
            let missed: Vec<_> = missed.collect();
            let known = self.known(&missed).await?;
            for (key, owner) in missed.iter().filter(|(key, _)| !known.contains(key)) {
                match owner {
                    Some(_) => faults.add("event beside another of its identity", &key.to_string()),
                    None => faults.add("event without its identity", &key.to_string()),
                }
            }
        }
        let forgotten = self.store.number(&sql::FORGOTTEN, Vec::new()).await?;
        faults.forgive(&["event beside another of its identity", "event without its identity"], forgotten);
        Ok(faults.found("events", slices.seen))
    }

    /// Which of these the ledger knows under an identity that cannot be made anew from the row: the parts of a joined id,
    /// or what a signature covers, are not in it.
    async fn known(&self, missed: &[(EventKey, Option<EventKey>)]) -> Result<HashSet<EventKey>, StoreError> {
        let keys = || missed.iter().map(|(key, _)| *key);
        let (Some(first), Some(last)) = (keys().min(), keys().max()) else { return Ok(HashSet::new()) };
        let known = self.store.list(&sql::LEDGER_KEYS_BETWEEN, vec![first.into(), last.into()]).await?;
        Ok(known.into_iter().collect())
    }

    async fn next(&mut self, statement: &sql::Statement, at: &mut Slices) -> Result<Option<Vec<Row>>, StoreError> {
        let wanted = match self.depth {
            Depth::Newest(most) => (most - at.seen).clamp(0, SLICE),
            Depth::All => SLICE,
        };
        if wanted == 0 {
            return Ok(None);
        }
        let rows = self.store.query(statement, vec![at.before.into(), wanted.into()]).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        at.before = last.key(0)?;
        at.seen += count(rows.len());
        self.seen += count(rows.len());
        (self.tell)(self.seen);
        Ok(Some(rows))
    }
}

fn identity_of(row: &Row) -> Result<oncebox_verify::Identity, StoreError> {
    let digest = digest(row)?;
    let first = identity(row, row.key(0)?, &digest)?;
    Ok(if row.text(6)? == "conflict" { first.of_conflict(&digest) } else { first })
}

/// How far one table's look has come.
struct Slices {
    before: EventKey,
    seen: i64,
}

impl Slices {
    const BEGIN: Self = Self { before: EventKey::MAX, seen: 0 };
}

/// Faults by kind, while they are counted.
#[derive(Default)]
struct Faults(BTreeMap<String, Fault>);

impl Faults {
    fn add(&mut self, what: &str, example: &str) {
        let empty = || Fault { what: what.to_owned(), count: 0, examples: Vec::new() };
        let fault = self.0.entry(what.to_owned()).or_insert_with(empty);
        fault.count += 1;
        if fault.examples.len() < EXAMPLES_MAX {
            fault.examples.push(example.to_owned());
        }
    }

    /// Takes these kinds out where there are no more of them together than have an explanation.
    fn forgive(&mut self, kinds: &[&str], explained: i64) {
        let found: i64 = kinds.iter().filter_map(|kind| self.0.get(*kind)).map(|fault| fault.count).sum();
        if found <= explained {
            self.0.retain(|what, _| !kinds.contains(&what.as_str()));
        }
    }

    fn found(self, check: &str, looked_at: i64) -> Finding {
        Finding { check: check.to_owned(), looked_at, faults: self.0.into_values().collect() }
    }
}
