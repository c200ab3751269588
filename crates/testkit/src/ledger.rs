//! The checker's own record of every request, and the comparison with what the database holds.
//!
//! Outcomes are Jepsen's: *ok* must be stored, *fail* must not be, *info* may or may not be. Scenarios only write
//! down; judging happens once, after everything is quiet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use data_encoding::HEXLOWER_PERMISSIVE;

use crate::TestDatabase;
use crate::http;
use crate::sender::{Signed, sha256_hex};

/// What a request's answer promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// 2xx: it is stored.
    Ok,
    /// 4xx: it is not stored.
    Fail,
    /// 5xx or no answer: nobody knows.
    Info,
}

impl Outcome {
    /// Of an answer's status, or of none.
    pub fn of(status: Option<u16>) -> Self {
        match status {
            Some(200..=299) => Self::Ok,
            Some(400..=499) => Self::Fail,
            _ => Self::Info,
        }
    }
}

/// Whether the request's signature was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// Right: the sender is who it says.
    Good,
    /// Wrong on purpose.
    Bad,
}

/// One request and what became of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// The run it belongs to.
    pub run: String,
    /// The source it was sent to.
    pub source: String,
    /// The sender's id.
    pub id: String,
    /// SHA-256 of the body in hex.
    pub body_sha256: String,
    /// Whether it was signed well.
    pub signature: Signature,
    /// The answer's status.
    pub status: Option<u16>,
    /// What that promises.
    pub outcome: Outcome,
}

/// Every request of one run, in the order in which the answers were written down.
pub struct Ledger {
    run: String,
    varying: BTreeSet<String>,
    records: Mutex<Vec<Record>>,
}

impl Ledger {
    /// An empty one for a run.
    pub fn new(run: &str) -> Self {
        Self { run: run.to_owned(), varying: BTreeSet::new(), records: Mutex::new(Vec::new()) }
    }

    /// Names a source whose retries may differ in their bytes: there only the first body has to be stored.
    pub fn varying(mut self, source: &str) -> Self {
        self.varying.insert(source.to_owned());
        self
    }

    /// Writes a request down after its answer, or after it is clear that none comes.
    pub fn record(&self, source: &str, id: &str, body: &[u8], signature: Signature, status: Option<u16>) {
        let record = Record {
            run: self.run.clone(),
            source: source.to_owned(),
            id: id.to_owned(),
            body_sha256: sha256_hex(body),
            signature,
            status,
            outcome: Outcome::of(status),
        };
        self.lock().push(record);
    }

    /// Sends well signed requests by [`http::blast`] and writes all of them down.
    pub fn blast(
        &self,
        addr: &str,
        source: &str,
        requests: &[(String, Signed)],
        concurrency: usize,
    ) -> Vec<http::Outcome> {
        let wire = requests.iter().map(|(_, signed)| signed.raw(source, addr));
        let outcomes = http::blast(addr, wire, concurrency);
        for ((id, signed), outcome) in requests.iter().zip(&outcomes) {
            self.record(source, id, &signed.body, Signature::Good, outcome.status());
        }
        outcomes
    }

    /// A copy of everything written down.
    pub fn records(&self) -> Vec<Record> {
        self.lock().clone()
    }

    /// Events that were answered 2xx and later, sent again, with another status.
    pub fn duplicates_refused(&self) -> Vec<String> {
        let (mut stored, mut refused) = (BTreeSet::new(), Vec::new());
        for record in self.lock().iter() {
            let name = (record.source.clone(), record.id.clone());
            match record.status {
                Some(200..=299) => drop(stored.insert(name)),
                Some(_) if stored.contains(&name) => refused.push(record.id.clone()),
                _ => {}
            }
        }
        refused
    }

    /// How many requests had this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.lock().iter().filter(|record| record.outcome == outcome).count()
    }

    /// Compares with the database, which must be quiet and hold only this run.
    pub fn check(&self, db: &TestDatabase) -> Report {
        let records = self.records();
        let stored = read_stored(db);
        let sent = Sent::of(&records);
        let stored_ids: BTreeSet<Identity> = stored.iter().map(Stored::identity).collect();
        Report {
            lost: self.lost(&sent, &stored, &stored_ids),
            phantom: stored_ids.iter().filter(|id| !sent.possible.contains_key(*id)).map(name).collect(),
            unverified_stored: stored.iter().filter(|row| sent.is_forged(row)).map(Stored::name).collect(),
            dup_non2xx: refused_duplicates(&records),
            digest_mismatch: stored.iter().filter(|row| sent.differs(row)).map(Stored::name).collect(),
            payload_missing: stored.iter().filter(|row| row.payload_sha256.is_none()).map(Stored::name).collect(),
        }
    }

    /// A 2xx promises that this very body is kept, be it as the event or as a conflict.
    fn lost(&self, sent: &Sent, stored: &[Stored], stored_ids: &BTreeSet<Identity>) -> Vec<String> {
        let bodies: BTreeSet<_> = stored.iter().map(|row| (row.identity(), row.body_sha256.clone())).collect();
        let kept = |body: &&(Identity, String)| {
            let varies = self.varying.contains(&body.0.0);
            if varies { stored_ids.contains(&body.0) } else { bodies.contains(*body) }
        };
        sent.ok.iter().filter(|body| !kept(body)).map(|(identity, _)| name(identity)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong, by `source/id`; every list must be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Answered 2xx and not stored.
    pub lost: Vec<String>,
    /// Stored, though no well signed request was answered 2xx or left open.
    pub phantom: Vec<String>,
    /// Stored with a body that only came badly signed.
    pub unverified_stored: Vec<String>,
    /// Known and well signed, yet answered with neither 2xx nor 503.
    pub dup_non2xx: Vec<String>,
    /// Stored bytes that nobody sent, or that do not have the stored digest.
    pub digest_mismatch: Vec<String>,
    /// Stored without its bytes: right only after the payload's retention.
    pub payload_missing: Vec<String>,
}

impl Report {
    /// Panics with every finding unless there is none.
    pub fn assert_clean(&self) {
        assert_eq!(*self, Self::default(), "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lists = [
            ("lost", &self.lost),
            ("phantom", &self.phantom),
            ("unverified_stored", &self.unverified_stored),
            ("dup_non2xx", &self.dup_non2xx),
            ("digest_mismatch", &self.digest_mismatch),
            ("payload_missing", &self.payload_missing),
        ];
        for (name, list) in lists {
            let first: Vec<_> = list.iter().take(5).map(String::as_str).collect();
            writeln!(f, "{name}: {} {}", list.len(), first.join(" "))?;
        }
        Ok(())
    }
}

/// Source and id.
type Identity = (String, String);

struct Stored {
    source: String,
    id: String,
    body_sha256: String,
    payload_sha256: Option<String>,
}

impl Stored {
    fn identity(&self) -> Identity {
        (self.source.clone(), self.id.clone())
    }

    fn name(&self) -> String {
        name(&self.identity())
    }
}

/// The well signed requests by identity, and the digests of the badly signed ones.
struct Sent {
    ok: BTreeSet<(Identity, String)>,
    possible: BTreeMap<Identity, BTreeSet<String>>,
    forged: BTreeSet<(Identity, String)>,
}

impl Sent {
    fn of(records: &[Record]) -> Self {
        let mut sent = Self { ok: BTreeSet::new(), possible: BTreeMap::new(), forged: BTreeSet::new() };
        for record in records {
            let (identity, digest) = (record_identity(record), record.body_sha256.clone());
            match (record.signature, record.outcome) {
                (Signature::Bad, _) => drop(sent.forged.insert((identity, digest))),
                (Signature::Good, Outcome::Fail) => {}
                (Signature::Good, Outcome::Ok | Outcome::Info) => {
                    if record.outcome == Outcome::Ok {
                        sent.ok.insert((identity.clone(), digest.clone()));
                    }
                    sent.possible.entry(identity).or_default().insert(digest);
                }
            }
        }
        sent
    }

    fn sent_well(&self, row: &Stored) -> bool {
        self.possible.get(&row.identity()).is_some_and(|digests| digests.contains(&row.body_sha256))
    }

    fn is_forged(&self, row: &Stored) -> bool {
        self.forged.contains(&(row.identity(), row.body_sha256.clone())) && !self.sent_well(row)
    }

    fn differs(&self, row: &Stored) -> bool {
        let known = self.possible.contains_key(&row.identity());
        let other_payload = row.payload_sha256.as_ref().is_some_and(|payload| *payload != row.body_sha256);
        other_payload || (known && !self.sent_well(row))
    }
}

/// Well signed requests that were refused although the same bytes had been accepted before.
fn refused_duplicates(records: &[Record]) -> Vec<String> {
    let mut accepted = BTreeSet::new();
    let mut refused = Vec::new();
    for record in records.iter().filter(|record| record.signature == Signature::Good) {
        let known = (record_identity(record), record.body_sha256.clone());
        match record.status {
            Some(200..=299) => drop(accepted.insert(known)),
            // Shedding load, or no answer at all.
            Some(503) | None => {}
            Some(_) if accepted.contains(&known) => refused.push(name(&known.0)),
            Some(_) => {}
        }
    }
    refused
}

fn read_stored(db: &TestDatabase) -> Vec<Stored> {
    let payloads = db.query(&format!("select key, body from {}", db.table("payloads")));
    let payloads: BTreeMap<_, _> = payloads.into_iter().map(|row| (hex_digits(&row[0]), digest_of(&row[1]))).collect();
    let events = db.query(&format!("select source, event_id, key, body_sha256 from {}", db.table("events_v1")));
    let stored = events.into_iter().map(|row| Stored {
        payload_sha256: payloads.get(&hex_digits(&row[2])).cloned(),
        source: row[0].clone(),
        id: row[1].clone(),
        body_sha256: row[3].clone(),
    });
    stored.collect()
}

/// A key is bytes in the tables and a UUID in the views; the digits are the same.
fn hex_digits(key: &str) -> String {
    key.trim_start_matches("\\x").replace('-', "").to_ascii_lowercase()
}

fn digest_of(body: &str) -> String {
    // SQLite keeps bytes that were bound as text as text.
    match body.strip_prefix("\\x").map(|hex| HEXLOWER_PERMISSIVE.decode(hex.as_bytes())) {
        Some(Ok(bytes)) => sha256_hex(&bytes),
        _ => sha256_hex(body.as_bytes()),
    }
}

fn record_identity(record: &Record) -> Identity {
    (record.source.clone(), record.id.clone())
}

fn name(identity: &Identity) -> String {
    format!("{}/{}", identity.0, identity.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;

    crate::contract! {
        async fn a_clean_run_is_clean(db: TestDatabase) {
            create_tables(&db);
            store(&db, 1, "a", b"{}", b"{}");
            let ledger = Ledger::new("clean");
            for status in [Some(200), Some(503), Some(200), None] {
                ledger.record("s", "a", b"{}", Signature::Good, status);
            }
            ledger.record("s", "a", b"{ }", Signature::Bad, Some(401));
            ledger.record("s", "never", b"{}", Signature::Good, None);
            ledger.record("s", "b", b"1", Signature::Good, Some(200));
            ledger.record("s", "b", b"2", Signature::Good, Some(200));
            store(&db, 2, "b", b"1", b"1");
            assert_eq!(ledger.check(&db).lost, ["s/b"]);
            let ledger = ledger.varying("s");
            ledger.check(&db).assert_clean();
            assert_eq!(ledger.count(Outcome::Info), 3);
        }

        async fn every_fault_is_found(db: TestDatabase) {
            create_tables(&db);
            let ledger = Ledger::new("faults");
            ledger.record("s", "lost", b"1", Signature::Good, Some(200));
            store(&db, 1, "phantom", b"1", b"1");
            ledger.record("s", "forged", b"1", Signature::Good, Some(200));
            ledger.record("s", "forged", b"2", Signature::Bad, Some(401));
            store(&db, 2, "forged", b"2", b"2");
            ledger.record("s", "refused", b"1", Signature::Good, Some(200));
            ledger.record("s", "refused", b"1", Signature::Good, Some(409));
            ledger.record("s", "refused", b"1", Signature::Good, Some(500));
            store(&db, 3, "refused", b"1", b"1");
            ledger.record("s", "changed", b"1", Signature::Good, None);
            store(&db, 4, "changed", b"1", b"one");
            let names = |ids: &[&str]| ids.iter().map(|id| format!("s/{id}")).collect::<Vec<_>>();
            let expected = Report {
                lost: names(&["forged", "lost"]),
                phantom: names(&["phantom"]),
                unverified_stored: names(&["forged"]),
                dup_non2xx: names(&["refused", "refused"]),
                digest_mismatch: names(&["forged", "changed"]),
                payload_missing: Vec::new(),
            };
            assert_eq!(ledger.check(&db), expected);
        }
    }

    fn create_tables(db: &TestDatabase) {
        let bytes = if db.backend() == Backend::Sqlite { "blob" } else { "bytea" };
        if db.backend() == Backend::Postgres {
            db.execute("create schema oncebox");
        }
        let (events, payloads) = (db.table("events_v1"), db.table("payloads"));
        db.execute(&format!("create table {events} (source text, event_id text, key text, body_sha256 text)"));
        db.execute(&format!("create table {payloads} (key {bytes}, body {bytes})"));
    }

    fn store(db: &TestDatabase, number: u8, id: &str, claimed: &[u8], kept: &[u8]) {
        let bytes =
            |hex: &str| if db.backend() == Backend::Sqlite { format!("x'{hex}'") } else { format!("'\\x{hex}'") };
        let (events, payloads, digest) = (db.table("events_v1"), db.table("payloads"), sha256_hex(claimed));
        let key = format!("00000000-0000-7000-8000-0000000000{number:02x}");
        db.execute(&format!("insert into {events} values ('s', '{id}', '{key}', '{digest}')"));
        let (key, kept) = (bytes(&key.replace('-', "")), bytes(&data_encoding::HEXLOWER.encode(kept)));
        db.execute(&format!("insert into {payloads} values ({key}, {kept})"));
    }
}
