//! Random batches against a model that takes one event after the other: batches, folding and both databases must not
//! show.

use std::collections::HashMap;

use oncebox::gateway::event::EventKey;
use oncebox::gateway::store::{Inserted, NewEvent};
use oncebox_verify::{Fingerprints, OnRepeat};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use testkit::TestDatabase;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::world::{NOW, World, fingerprinted, held, unsigned, varying};

const CASES: u32 = 32;

testkit::contract! {
    async fn random_batches_end_as_in_the_model(db: TestDatabase) {
        let world = World::new(db).await;
        let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
        let outcome = runner.run(&batches(), |batches| {
            // Sources share nothing, so that one database serves all cases.
            let source = world.keys.make::<()>(NOW).to_string();
            block_in_place(|| Handle::current().block_on(compare(&world, &source, batches)))
        });
        outcome.unwrap();
        world.check();
    }
}

/// What the engine can make of a request.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Signed,
    Varying,
    Unnamed,
    Unsigned(OnRepeat),
    SignedOutside(OnRepeat),
}

fn batches() -> impl Strategy<Value = Vec<Vec<(Kind, u8, u8)>>> {
    let on_repeat = || prop_oneof![Just(OnRepeat::Run), Just(OnRepeat::Hold), Just(OnRepeat::Duplicate)];
    let kind = prop_oneof![
        Just(Kind::Signed),
        Just(Kind::Varying),
        Just(Kind::Unnamed),
        on_repeat().prop_map(Kind::Unsigned),
        on_repeat().prop_map(Kind::SignedOutside),
    ];
    let event = (kind, 0..4_u8, 0..3_u8);
    prop::collection::vec(prop::collection::vec(event, 0..12), 1..5)
}

async fn compare(world: &World, source: &str, batches: Vec<Vec<(Kind, u8, u8)>>) -> Result<(), TestCaseError> {
    let mut model = Model::default();
    for batch in batches {
        let events: Vec<NewEvent> =
            batch.iter().map(|(kind, id, body)| make(world, source, *kind, *id, *body)).collect();
        let expected: Vec<Inserted> = events.iter().map(|event| model.insert(event)).collect();
        prop_assert_eq!(world.insert(events).await, expected);
    }
    let rows = world.query(&format!("select key, state from {{events_v1}} where source = '{source}' order by key"));
    let mut expected: Vec<_> =
        model.states.iter().map(|(key, state)| vec![key.to_string(), (*state).to_owned()]).collect();
    expected.sort();
    prop_assert_eq!(rows, expected);
    Ok(())
}

fn make(world: &World, source: &str, kind: Kind, id: u8, body: u8) -> NewEvent {
    let new = world.event_of(source, &format!("evt_{id}"), &format!("body {body}"));
    match kind {
        Kind::Signed => new,
        Kind::Varying => varying(new),
        Kind::Unnamed => held(world.event_of(source, &format!("body_{body}"), &format!("body {body}"))),
        Kind::Unsigned(on_repeat) => unsigned(new, on_repeat),
        Kind::SignedOutside(on_repeat) => fingerprinted(new, on_repeat),
    }
}

/// The contract's table of identities, one event at a time.
#[derive(Default)]
struct Model {
    ledger: HashMap<Vec<u8>, EventKey>,
    repeats: HashMap<Vec<u8>, EventKey>,
    bodies: HashMap<EventKey, Vec<u8>>,
    states: HashMap<EventKey, &'static str>,
}

impl Model {
    fn insert(&mut self, new: &NewEvent) -> Inserted {
        let event = &new.event;
        let identity = event.identity.as_bytes().to_vec();
        match self.ledger.get(&identity) {
            Some(original) if self.bodies[original] == event.body => Inserted::Duplicate(*original),
            Some(original) if event.on_other_body == oncebox_verify::OnOtherBody::Duplicate => {
                Inserted::Duplicate(*original)
            }
            Some(_) => self.insert_conflict([&identity, &event.body[..]].concat(), new),
            None => self.insert_fresh(identity, new),
        }
    }

    fn insert_conflict(&mut self, identity: Vec<u8>, new: &NewEvent) -> Inserted {
        if let Some(known) = self.ledger.get(&identity) {
            return Inserted::ConflictAgain(*known);
        }
        self.keep(identity, new, "conflict");
        Inserted::Conflict(new.key)
    }

    fn insert_fresh(&mut self, identity: Vec<u8>, new: &NewEvent) -> Inserted {
        let print = match new.event.fingerprint {
            Some(Fingerprints::Bytes(print)) => Some(print),
            _ => None,
        };
        let first = print.map(|print| *self.repeats.entry(print.as_bytes().to_vec()).or_insert(new.key));
        let original = first.filter(|first| *first != new.key);
        match (new.event.held, original, new.event.on_repeat) {
            (Some(_), _, _) | (None, Some(_), OnRepeat::Hold) => {
                self.keep(identity, new, "held");
                Inserted::Held(new.key)
            }
            (None, Some(_), OnRepeat::Run) => {
                self.keep(identity, new, "accepted");
                Inserted::Repeated(new.key)
            }
            (None, Some(original), OnRepeat::Duplicate) => {
                self.ledger.insert(identity, original);
                Inserted::Duplicate(original)
            }
            (None, None, _) => {
                self.keep(identity, new, "accepted");
                Inserted::Accepted(new.key)
            }
        }
    }

    fn keep(&mut self, identity: Vec<u8>, new: &NewEvent, state: &'static str) {
        self.ledger.insert(identity, new.key);
        self.bodies.insert(new.key, new.event.body.to_vec());
        self.states.insert(new.key, state);
    }
}
