//! Inserting events: insert first, and let the unique keys decide.
//!
//! One call is one batch inside one transaction. Copies inside the batch are folded in memory, keys reach the database
//! sorted, and each event gets its own outcome. The rules themselves are pure functions below.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use crate::clock::UnixMillis;
use crate::delivery::routing::NewDelivery;
use crate::event::{EventKey, EventState};
use crate::store::insert::same_bytes::Repeats;
use crate::store::{StoreError, Tx, TxInner, sql};
use oncebox_verify::{Digest, Fingerprint, Fingerprints, HeldReason, Identified, Identity, OnOtherBody, OnRepeat};

/// A verified event on its way into the store.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Our key for it, should it be new.
    pub key: EventKey,
    /// The source's name.
    pub source: Arc<str>,
    /// Identity, type and bytes.
    pub event: Identified,
    /// The request's headers as `name: value` lines, without credentials.
    pub headers: Bytes,
    /// Where the request came from.
    pub remote: Arc<str>,
    /// When it came.
    pub received_at: UnixMillis,
    /// The handlers it concerns: a delivery each, should it be new.
    pub handlers: Vec<NewDelivery>,
}

/// What became of one event of a batch. The key is the one that stays: the original's for a duplicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// New and stored with its deliveries.
    Accepted(EventKey),
    /// New, and the same bytes came before under another identity: stored with its deliveries, flagged.
    Repeated(EventKey),
    /// New and stored, waiting for a person.
    Held(EventKey),
    /// Known: one more arrival.
    Duplicate(EventKey),
    /// Known with other bytes: kept beside the original, not run unless a person releases it.
    Conflict(EventKey),
    /// The same conflict again: one more arrival of it.
    ConflictAgain(EventKey),
}

impl Inserted {
    /// The key that stays.
    pub fn key(&self) -> EventKey {
        match self {
            Self::Accepted(key)
            | Self::Repeated(key)
            | Self::Held(key)
            | Self::Duplicate(key)
            | Self::Conflict(key)
            | Self::ConflictAgain(key) => *key,
        }
    }

    /// The word for it in answers and metrics.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted(_) | Self::Repeated(_) => "accepted",
            Self::Held(_) => "held",
            Self::Duplicate(_) => "duplicate",
            Self::Conflict(_) | Self::ConflictAgain(_) => "conflict",
        }
    }

    /// True when deliveries were stored that can run at once.
    pub fn is_runnable(&self) -> bool {
        matches!(self, Self::Accepted(_) | Self::Repeated(_))
    }

    /// True when the event was stored before: nothing was written but an arrival is to be counted.
    pub fn is_arrival_only(&self) -> bool {
        matches!(self, Self::Duplicate(_) | Self::ConflictAgain(_))
    }
}

/// Who owns a unique key after we tried to insert it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum Owner {
    /// We do, since now.
    Fresh,
    /// Somebody before us, with these bytes (unknown where the event record is gone).
    Known { key: EventKey, body_sha256: Option<Digest> },
}

impl Owner {
    /// Keys are made for one event each: where ours stands, the row is ours, and an earlier try was committed.
    pub(in crate::store) fn unless_ours(self, own: EventKey) -> Self {
        match self {
            Self::Known { key, .. } if key == own => Self::Fresh,
            other => other,
        }
    }
}

/// A row to be written: the event at `index` of the batch, in this state.
#[derive(Clone, Copy, Debug)]
pub(in crate::store) struct NewRow {
    pub(in crate::store) index: usize,
    pub(in crate::store) state: EventState,
    pub(in crate::store) reason: Option<&'static str>,
    pub(in crate::store) original: Option<EventKey>,
}

/// Inserts a batch. Outcomes come in the order of the events; nothing counts before the transaction commits.
///
/// After a failure, or when this future is dropped, the transaction can only roll back. The rows may travel with the
/// commit, so a row that the database refuses shows there.
pub async fn insert_events(tx: &mut Tx, events: &Arc<[NewEvent]>) -> Result<Vec<Inserted>, StoreError> {
    let before = std::mem::replace(&mut tx.poisoned, true);
    let outcomes = insert(tx, events).await?;
    tx.poisoned = before;
    Ok(outcomes)
}

async fn insert(tx: &mut Tx, events: &Arc<[NewEvent]>) -> Result<Vec<Inserted>, StoreError> {
    tx.faults.at("events.referee").await?;
    let mut batch = Batch::new(events);
    batch.owners = tx.claim_identities(batch.identities_wanted()).await?;
    let firsts = batch.brought();
    batch.repeats = Repeats::claim(tx, events, &firsts).await?;
    batch.settle_identities();
    for (identity, original) in std::mem::take(&mut batch.aliases) {
        let identity = EventKey::from_bytes(*identity.as_bytes());
        tx.execute(&sql::ALIAS_IDENTITY, vec![identity.into(), original.into()]).await?;
    }
    batch.repeats.withdraw(tx).await?;
    let conflicts = batch.conflicts_wanted();
    if !conflicts.is_empty() {
        let owners = tx.claim_identities(conflicts).await?;
        let mut known = Vec::with_capacity(owners.len());
        for owner in owners {
            let settled = match owner {
                Owner::Fresh => false,
                Owner::Known { key, .. } => tx.is_settled(key).await?,
            };
            known.push((owner, settled));
        }
        batch.settle_conflicts(&known);
    }
    tx.faults.at("events.write").await?;
    if !events.is_empty() {
        tx.confirm(batch.rows.is_empty()).await?;
    }
    if !batch.rows.is_empty() {
        tx.stage_rows(events.clone(), std::mem::take(&mut batch.rows)).await?;
    }
    tx.faults.at("events.written").await?;
    batch.outcomes()
}

/// A batch while it is being decided.
#[derive(Default)]
pub(super) struct Batch<'a> {
    events: &'a [NewEvent],
    repeats: Repeats,
    /// For each identity, sorted: the index of the event that came first with it.
    firsts: BTreeMap<Identity, usize>,
    pub(super) owners: Vec<Owner>,
    /// New identities that turned out to be another name of an event we have.
    aliases: Vec<(Identity, EventKey)>,
    /// For each conflicting identity, sorted: the events that share it.
    conflicts: BTreeMap<Identity, Vec<usize>>,
    rows: Vec<NewRow>,
    pub(super) outcomes: Vec<Option<Inserted>>,
}

impl<'a> Batch<'a> {
    pub(super) fn new(events: &'a [NewEvent]) -> Self {
        let mut firsts = BTreeMap::new();
        for (index, new) in events.iter().enumerate() {
            firsts.entry(new.event.identity).or_insert(index);
        }
        Self { events, firsts, outcomes: vec![None; events.len()], ..Self::default() }
    }

    pub(super) fn identities_wanted(&self) -> Vec<(Identity, EventKey)> {
        self.firsts.iter().map(|(identity, index)| (*identity, self.events[*index].key)).collect()
    }

    /// The row of each identity, sorted, should it be new and its only referee.
    pub(super) fn rows_if_new(&self) -> Vec<NewRow> {
        let row = |index: usize| match self.events[index].event.held {
            Some(reason) => NewRow { index, state: EventState::Held, reason: Some(reason.as_str()), original: None },
            None => NewRow { index, state: EventState::Accepted, reason: None, original: None },
        };
        self.firsts.values().map(|index| row(*index)).collect()
    }

    /// The events that contradict what is known under their identity.
    pub(super) fn contradicting(&self) -> Vec<usize> {
        self.conflicts.values().flatten().copied().collect()
    }

    /// Which events bring something for the second referee, each with the key under which it is kept. What is new
    /// brings its bytes: a duplicate is not stored and a conflict never runs, so neither may stand in the way of an event
    /// that comes with the same bytes later. Both bring what their delivery was signed with: it was used up by them, and
    /// must not bring another event.
    fn brought(&self) -> Vec<(usize, EventKey)> {
        if self.events.iter().all(|new| new.event.fingerprint.is_none()) {
            return Vec::new();
        }
        let owners: HashMap<Identity, (usize, Owner)> = self.owners_by_identity();
        let brings = |(index, new): (usize, &NewEvent)| {
            let event = &new.event;
            let is_delivery = matches!(event.fingerprint?, Fingerprints::Delivery(_));
            let original = match owners[&event.identity] {
                (first, Owner::Fresh) if first == index => return Some((index, new.key)),
                // Whether the first is stored or another name of an older event is not known yet.
                (_, Owner::Fresh) if event.on_repeat == OnRepeat::Duplicate => return None,
                (first, Owner::Fresh) => self.events[first].key,
                (_, Owner::Known { key, .. }) => key,
            };
            is_delivery.then_some((index, original))
        };
        self.events.iter().enumerate().filter_map(brings).collect()
    }

    fn owners_by_identity(&self) -> HashMap<Identity, (usize, Owner)> {
        let pairs = self.firsts.iter().zip(&self.owners);
        pairs.map(|((identity, index), owner)| (*identity, (*index, *owner))).collect()
    }

    pub(super) fn settle_identities(&mut self) {
        let owners = self.owners_by_identity();
        for (index, new) in self.events.iter().enumerate() {
            let (first, owner) = owners[&new.event.identity];
            let (original, bytes) = match owner {
                Owner::Fresh if first == index => {
                    self.settle_fresh(index);
                    continue;
                }
                Owner::Fresh => {
                    // The first was settled before this one, perhaps as another name of an older event.
                    let settled = self.outcomes[first].map_or(self.events[first].key, |outcome| outcome.key());
                    (settled, Some(self.events[first].event.body_sha256))
                }
                Owner::Known { key, body_sha256 } => (key, body_sha256),
            };
            match known(&new.event, bytes.as_ref()) {
                OnOtherBody::Duplicate => self.outcomes[index] = Some(Inserted::Duplicate(original)),
                OnOtherBody::Conflict => {
                    let conflict = new.event.identity.of_conflict(&new.event.body_sha256);
                    self.conflicts.entry(conflict).or_default().push(index);
                    self.outcomes[index] = Some(Inserted::Conflict(original));
                }
            }
        }
    }

    fn settle_fresh(&mut self, index: usize) {
        let new = &self.events[index];
        let repeat = self.repeats.of(new);
        let original = repeat.map(|repeat| repeat.first);
        let (outcome, row) = match fresh(&new.event, repeat.map(|repeat| repeat.reason)) {
            Fresh::Run => (Inserted::Accepted(new.key), Some((EventState::Accepted, None))),
            Fresh::RunFlagged(reason) => (Inserted::Repeated(new.key), Some((EventState::Accepted, Some(reason)))),
            Fresh::Hold(reason) => (Inserted::Held(new.key), Some((EventState::Held, Some(reason)))),
            Fresh::CountAsOriginal => {
                let original = original.unwrap_or(new.key);
                self.aliases.push((new.event.identity, original));
                (Inserted::Duplicate(original), None)
            }
        };
        self.outcomes[index] = Some(outcome);
        if let Some((state, reason)) = row {
            self.rows.push(NewRow { index, state, reason: reason.map(HeldReason::as_str), original });
        }
    }

    fn conflicts_wanted(&self) -> Vec<(Identity, EventKey)> {
        self.conflicts.iter().map(|(identity, indexes)| (*identity, self.events[indexes[0]].key)).collect()
    }

    /// One that a person settled is known, and what comes under it a duplicate.
    fn settle_conflicts(&mut self, owners: &[(Owner, bool)]) {
        for ((_, indexes), (owner, settled)) in self.conflicts.iter().zip(owners) {
            let key = match owner {
                Owner::Fresh => self.events[indexes[0]].key,
                Owner::Known { key, .. } => *key,
            };
            for (nth, index) in indexes.iter().enumerate() {
                let original = self.outcomes[*index].map(|outcome| outcome.key());
                let first = nth == 0 && *owner == Owner::Fresh;
                self.outcomes[*index] = Some(match (first, settled) {
                    (true, _) => Inserted::Conflict(key),
                    (false, true) => Inserted::Duplicate(key),
                    (false, false) => Inserted::ConflictAgain(key),
                });
                if first {
                    self.rows.push(NewRow { index: *index, state: EventState::Conflict, reason: None, original });
                }
            }
        }
    }

    pub(super) fn outcomes(self) -> Result<Vec<Inserted>, StoreError> {
        self.outcomes.into_iter().collect::<Option<_>>().ok_or(StoreError::Corrupt { what: "batch outcome" })
    }
}

/// What to do with an event whose identity is new.
#[derive(Debug, PartialEq, Eq)]
enum Fresh {
    Run,
    RunFlagged(HeldReason),
    Hold(HeldReason),
    CountAsOriginal,
}

/// `repeat` says why it looks like something that came before under another identity, if it does.
fn fresh(event: &Identified, repeat: Option<HeldReason>) -> Fresh {
    match (event.held, repeat, event.on_repeat) {
        (Some(reason), _, _) => Fresh::Hold(reason),
        (None, None, _) => Fresh::Run,
        (None, Some(reason), OnRepeat::Run) => Fresh::RunFlagged(reason),
        (None, Some(reason), OnRepeat::Hold) => Fresh::Hold(reason),
        // The bytes came under another type: which of the two is right is for a person to say.
        (None, Some(HeldReason::RepeatedTopic), OnRepeat::Duplicate) => Fresh::Hold(HeldReason::RepeatedTopic),
        (None, Some(_), OnRepeat::Duplicate) => Fresh::CountAsOriginal,
    }
}

/// What an event with a known identity is, given the bytes that came first.
fn known(event: &Identified, original: Option<&Digest>) -> OnOtherBody {
    match original {
        Some(bytes) if *bytes == event.body_sha256 => OnOtherBody::Duplicate,
        Some(_) => event.on_other_body,
        // The ledger knows an event whose record is gone, which must not be. Keep this one for a person to look at.
        None => OnOtherBody::Conflict,
    }
}

impl Tx {
    async fn claim_identities(&mut self, wanted: Vec<(Identity, EventKey)>) -> Result<Vec<Owner>, StoreError> {
        assert!(wanted.is_sorted(), "keys reach the database sorted, or two nodes deadlock");
        let count = wanted.len();
        let owners = by_database!(&mut self.inner,
            TxInner::Sqlite(tx) => tx.claim_identities(wanted).await?,
            TxInner::Postgres(tx) => tx.claim_identities(&wanted).await?,
        );
        assert_eq!(owners.len(), count, "one owner for each identity");
        Ok(owners)
    }

    pub(in crate::store) async fn claim_fingerprints(
        &mut self,
        wanted: Vec<(Fingerprint, EventKey)>,
    ) -> Result<Vec<Owner>, StoreError> {
        assert!(wanted.is_sorted(), "keys reach the database sorted, or two nodes deadlock");
        by_database!(&mut self.inner,
            TxInner::Sqlite(tx) => tx.claim_fingerprints(wanted).await,
            TxInner::Postgres(tx) => tx.claim_fingerprints(&wanted).await,
        )
    }

    /// Where nothing is written, what was seen must be as safe as what would have been.
    async fn confirm(&mut self, writes_nothing: bool) -> Result<(), StoreError> {
        by_database!(TxInner, &mut self.inner, tx => tx.confirm(writes_nothing).await)
    }

    async fn stage_rows(&mut self, events: Arc<[NewEvent]>, rows: Vec<NewRow>) -> Result<(), StoreError> {
        by_database!(&mut self.inner,
            TxInner::Sqlite(tx) => tx.stage_rows(events, rows, self.steady.clone()).await,
            TxInner::Postgres(tx) => tx.stage_rows(events, rows, self.steady.now()).await,
        )
    }
}

/// The state in which a delivery of an event begins.
pub(in crate::store) fn delivery_state(event: EventState) -> Option<&'static str> {
    match event {
        EventState::Accepted => Some("ready"),
        EventState::Held => Some("held"),
        EventState::Conflict => None,
    }
}
