//! Erasing a subject: the bytes of its events go, the ledger and the event record stay, so that a redelivery still counts
//! as a duplicate.
//!
//! Events are found by key, or by a value inside their body. Reading happens outside any transaction; each slice then
//! erases what it found and says how far it came, so that a killed erasure goes on where it stopped. The audit log keeps a
//! mark of the value, made with the action's id, and never the value itself.

use crate::clock::UnixMillis;
use crate::event::{EventKey, Mark, Position};
use crate::store::operate::actions::{Slice, count};
use crate::store::{Action, ActionError, ActionFilter, ActionKind, Store, StoreError, Tx, Value, sql};
use oncebox_verify::BodyPointer;

/// Events looked at in one slice: each one's body is read.
const SLICE: i64 = 200;

/// Whose data goes.
#[derive(Clone, Debug)]
pub enum Subject {
    /// That of one event.
    Event(EventKey),
    /// That of every event of a source whose body has this value.
    Value(SubjectValue),
}

/// A value inside bodies.
#[derive(Clone, Debug)]
pub struct SubjectValue {
    /// The source's name.
    pub source: String,
    /// The pointer as it was written.
    pub pointer: String,
    /// Where the value stands.
    pub place: BodyPointer,
    /// The value: text, or a whole number as text.
    pub value: String,
    /// Received not before.
    pub since: Option<UnixMillis>,
    /// Received before.
    pub until: Option<UnixMillis>,
}

/// An erasure under its own id.
#[derive(Clone, Debug)]
pub struct Erasure {
    /// The id: the same one twice acts once.
    pub id: String,
    /// Who asked.
    pub who: String,
    /// Whose data goes.
    pub subject: Subject,
}

/// What an erasure would concern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasureCount {
    /// Events.
    pub events: i64,
    /// Their deliveries and messages that have not ended, and then never will run.
    pub waiting: i64,
}

impl Store {
    /// How much an erasure would concern. By value this reads the body of every event of the source.
    pub async fn count_erasure(&self, subject: &Subject) -> Result<ErasureCount, ActionError> {
        let mut total = ErasureCount::default();
        let mut reached = Position::MIN;
        loop {
            let (found, last) = self.find_subject(subject, reached).await?;
            let Some(last) = last else { return Ok(total) };
            reached = last;
            total.events += count(found.len());
            for key in found {
                let (first, last) = key.delivery_range();
                total.waiting += self.number(&sql::COUNT_WAITING, vec![key.into(), first.into(), last.into()]).await?;
            }
        }
    }

    /// Erases, in slices, and says how many events it concerned in all.
    pub async fn erase(&self, erasure: &Erasure, now: UnixMillis) -> Result<i64, ActionError> {
        let about = erasure.about();
        let filter = erasure.subject.filter();
        let Erasure { id, who, .. } = erasure.clone();
        let action = Action { id, kind: ActionKind::Erase, filter, who };
        let known = self.action(&erasure.id).await?.is_some();
        // Counting reads every body, so it is not done again for an erasure that goes on.
        let counted = if known { 0 } else { self.count_erasure(&erasure.subject).await?.events };
        self.open_action(&action, &about, counted, now).await?;
        let mut reached = Position::MIN;
        loop {
            let (found, last) = self.find_subject(&erasure.subject, reached).await?;
            let (mut tx, progress) = self.begin_slice(&action, &about).await?;
            if progress.finished {
                tx.rollback().await;
                return Ok(progress.acted);
            }
            if progress.reached != reached {
                // Somebody else works on the same erasure, or it was killed before: go on from there.
                reached = progress.reached;
                tx.rollback().await;
                continue;
            }
            for key in &found {
                tx.erase_event(*key, now).await?;
            }
            let slice = Slice { acted: count(found.len()), reached: last };
            tx.advance(&action, &progress, slice, 1, now).await?;
            tx.commit_or_fail().await?;
            reached = last.unwrap_or(reached);
        }
    }

    /// The subject's events among those looked at, and the last one looked at.
    async fn find_subject(
        &self,
        subject: &Subject,
        reached: Position,
    ) -> Result<(Vec<EventKey>, Option<Position>), StoreError> {
        let mut values = subject.filter().of_events(reached, self.dialect());
        values.extend([Value::Null, SLICE.into()]);
        let (mut found, mut last) = (Vec::new(), None);
        for key in self.list::<EventKey>(&sql::ACTION_EVENTS, values).await? {
            last = Some(key.position());
            if self.is_of(subject, key).await? {
                found.push(key);
            }
        }
        Ok((found, last))
    }

    async fn is_of(&self, subject: &Subject, key: EventKey) -> Result<bool, StoreError> {
        let Subject::Value(wanted) = subject else { return Ok(true) };
        let Some(payload) = self.payload(key).await? else { return Ok(false) };
        Ok(wanted.place.read(&payload.body).as_ref() == Some(&wanted.value))
    }
}

impl Tx {
    async fn erase_event(&mut self, key: EventKey, now: UnixMillis) -> Result<(), StoreError> {
        let (first, last) = key.delivery_range();
        let range = || vec![key.into(), first.into(), last.into()];
        self.execute(&sql::ERASE_PAYLOAD, vec![key.into()]).await?;
        self.execute(&sql::ERASE_DELIVERIES, vec![key.into(), first.into(), last.into(), now.into()]).await?;
        self.execute(&sql::ERASE_ATTEMPTS, range()).await?;
        self.execute(&sql::ERASE_STEPS, range()).await?;
        self.execute(&sql::ERASE_MESSAGE_ATTEMPTS, vec![key.into()]).await?;
        self.execute(&sql::ERASE_ANSWERS, vec![key.into()]).await?;
        self.execute(&sql::ERASE_MESSAGES, vec![key.into()]).await?;
        self.execute(&sql::ERASE_MESSAGE_CONTENTS, vec![key.into(), Value::Bytes(Vec::new())]).await?;
        // A held event whose deliveries are discarded waits for nobody.
        self.execute(&sql::SETTLE_EVENT, range()).await.map(drop)
    }
}

impl Subject {
    fn filter(&self) -> ActionFilter {
        match self {
            Self::Event(key) => ActionFilter { key: Some(*key), ..ActionFilter::default() },
            Self::Value(wanted) => ActionFilter {
                source: Some(wanted.source.clone()),
                since: wanted.since,
                until: wanted.until,
                ..ActionFilter::default()
            },
        }
    }
}

impl Erasure {
    /// What the audit log says: enough to know the same erasure again, and not what was erased.
    fn about(&self) -> String {
        match &self.subject {
            Subject::Event(key) => serde_json::json!({"key": key.to_string()}),
            Subject::Value(wanted) => {
                let parts = [self.id.as_bytes(), wanted.pointer.as_bytes(), wanted.value.as_bytes()];
                let mark = Mark::of_parts(b"erase", &parts);
                serde_json::json!({
                    "source": wanted.source, "pointer": wanted.pointer, "since": wanted.since, "until": wanted.until,
                    "value_mark": data_encoding::HEXLOWER.encode(mark.as_bytes()),
                })
            }
        }
        .to_string()
    }
}
