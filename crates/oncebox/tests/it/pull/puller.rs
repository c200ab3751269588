//! One consumer in two guises: the verbs of the library, and the functions of the database.

use std::time::Duration;

use oncebox::Message;
use oncebox::Once;
use oncebox::gateway::delivery::order::order_key;
use oncebox::gateway::delivery::{Failed, Next};
use oncebox::gateway::event::KeyMaker;
use oncebox::gateway::store::{Claimed, Fence, Fenced, Finished, HandlerSql, PulledFailure, StoreError, Version, Want};
use testkit::Session;
use testkit::session::Refused;

use crate::application::{self, End};
use crate::store_contract::deliveries::{BILLING, LEASE};
use crate::world::{ALL, NOW, World, committed, run_handler};

/// Who pulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Puller {
    /// The library, as the program uses it.
    Verbs,
    /// SQL, as everybody else does.
    Functions,
}

/// A claimed delivery.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) fence: Fence,
    pub(super) key: String,
    pub(super) source: String,
    pub(super) event_id: String,
    pub(super) event_type: String,
    pub(super) body: Vec<u8>,
    pub(super) attempt: u32,
    claimed: Option<Claimed>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It is there now.
    Written,
    /// An earlier claim wrote it.
    Kept,
    /// This claim wrote it already.
    Twice,
}

/// What became of something that only the holder may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Recorded,
    Lost,
}

impl Puller {
    pub(super) async fn claim(self, world: &World, limit: usize) -> Vec<Taken> {
        match self {
            Self::Verbs => {
                // The program's own loop does this beside the claims.
                while !world.store.expire_leases(NOW).await.unwrap().is_empty() {}
                let want = Want {
                    handler: BILLING.to_owned(),
                    limit,
                    bytes: oncebox::gateway::limits::CLAIMED_BYTES_MAX,
                    lease: LEASE,
                    in_order: world.store.has_order_keys(BILLING).await.unwrap(),
                    payload: true,
                };
                // Two claims at one instant may be in each other's way at the index of "one at a time".
                let claims = loop {
                    match world.store.claim(std::slice::from_ref(&want), None, NOW).await {
                        Err(StoreError::Busy(_)) => {}
                        outcome => break outcome.unwrap(),
                    }
                };
                claims.claimed.into_iter().map(taken).collect()
            }
            Self::Functions => {
                let sql =
                    format!("select * from oncebox.claim('billing', max => {limit}, lease => interval '1 minute')");
                run(world, &sql).await.unwrap().iter().map(|row| read(row)).collect()
            }
        }
    }

    /// An effect and its mark in one transaction.
    pub(super) async fn work(self, world: &World, one: &Taken) -> Answer {
        match self {
            Self::Verbs => {
                let sql = "insert into effects (id, attempt) values (:event_id, :attempt)";
                let sql = HandlerSql::parse(sql, world.store.dialect()).unwrap();
                let mut tx = world.store.begin().await.unwrap();
                let ran = run_handler(&mut tx, &sql, one.claimed.as_slice(), Duration::from_secs(5)).await.unwrap();
                assert_eq!(ran, ALL);
                match tx.finish(&[one.fence], NOW).await.unwrap() {
                    Finished::All => committed(tx).await.map(|()| Answer::Recorded).unwrap(),
                    Finished::LeaseLost(_) => Answer::Lost,
                }
            }
            Self::Functions => {
                let effect = format!("insert into effects (id, attempt) values ('{}', {})", one.event_id, one.attempt);
                answer(run(world, &format!("begin; {effect}; {}; commit", call("finish", one.fence, ""))).await)
            }
        }
    }

    /// What became of the delivery.
    pub(super) async fn fail(self, world: &World, fence: Fence, reason: &str, retry: bool) -> Result<String, Answer> {
        match self {
            Self::Verbs => {
                let failed = if retry { Failed::Transient { retry_after: None } } else { Failed::Permanent };
                match world.store.fail_pulled(fence, reason, failed, u64::MAX / 2, NOW).await.unwrap() {
                    PulledFailure::Recorded(Next::Retry { .. }) => Ok("ready".to_owned()),
                    PulledFailure::Recorded(Next::Dead) => Ok("dead".to_owned()),
                    PulledFailure::Recorded(Next::Held) => Ok("held".to_owned()),
                    PulledFailure::LeaseLost => Err(Answer::Lost),
                }
            }
            Self::Functions => {
                let answered = run(world, &call("fail", fence, &format!(", '{reason}', retry => {retry}"))).await;
                answered.map(|rows| rows[0][0].clone()).map_err(|refused| lost(&refused))
            }
        }
    }

    pub(super) async fn extend(self, world: &World, fence: Fence) -> Answer {
        match self {
            Self::Verbs => match world.store.extend(fence, LEASE * 5, NOW).await.unwrap() {
                Some(_) => Answer::Recorded,
                None => Answer::Lost,
            },
            Self::Functions => answer(run(world, &call("extend", fence, ", interval '5 minutes'")).await),
        }
    }

    pub(super) async fn give_back(self, world: &World, fence: Fence) -> Answer {
        match self {
            Self::Verbs => match world.store.give_back(&[fence], Duration::ZERO, NOW).await.unwrap()[..] {
                [Fenced::Recorded] => Answer::Recorded,
                _ => Answer::Lost,
            },
            Self::Functions => answer(run(world, &call("give_back", fence, "")).await),
        }
    }

    pub(super) async fn newer(self, world: &World, object: &str, version: i64, or_equal: bool) -> bool {
        match self {
            Self::Verbs => {
                let mut tx = world.store.begin().await.unwrap();
                let answer = tx.newer(BILLING, order_key(object), version, or_equal, NOW).await.unwrap();
                committed(tx).await.unwrap();
                answer == Version::Newer
            }
            Self::Functions => {
                let sql = format!("select oncebox.newer('billing', '{object}', {version}, or_equal => {or_equal})");
                run(world, &sql).await.unwrap()[0][0] == "t"
            }
        }
    }

    /// A message of a step, in a transaction of its own.
    pub(super) async fn send(self, world: &World, fence: Fence, step: &str) -> Sent {
        let before = world.count("outbox");
        match self {
            Self::Verbs => {
                let message = Message::new("crm", "{}").step(fence.delivery, step);
                match application::send(&world.db, &message, KeyMaker::default().make(NOW), NOW).await {
                    Err(error) if error.chain().contains("already in this claim") => return Sent::Twice,
                    outcome => assert!(outcome.is_ok(), "{outcome:?}"),
                }
            }
            Self::Functions => {
                let sql =
                    format!("select oncebox.send('crm', '{{}}', delivery => '{}', step => '{step}')", fence.delivery);
                match run(world, &sql).await {
                    Err(refused) if refused.sqlstate == "23505" => return Sent::Twice,
                    outcome => assert!(outcome.is_ok(), "{outcome:?}"),
                }
            }
        }
        if world.count("outbox") > before { Sent::Written } else { Sent::Kept }
    }

    pub(super) async fn refuses_once(self, world: &World, scope: &str, id: &str) -> bool {
        match self {
            Self::Verbs => {
                let answered = application::once(&world.db, scope, &[id], End::Commit).await;
                matches!(answered, Err(StoreError::Refused(_)))
            }
            Self::Functions => {
                let answered = run(world, &format!("select oncebox.once('{scope}', '{id}')")).await;
                answered.is_err_and(|refused| refused.sqlstate == "22023")
            }
        }
    }

    pub(super) async fn once(self, world: &World, scope: &str, id: &str) -> bool {
        match self {
            Self::Verbs => application::once(&world.db, scope, &[id], End::Commit).await.unwrap() == [Once::Fresh],
            Self::Functions => {
                run(world, &format!("select oncebox.once('{scope}', '{id}')")).await.unwrap()[0][0] == "t"
            }
        }
    }
}

/// A call of a function that takes delivery and token first.
pub(super) fn call(function: &str, fence: Fence, rest: &str) -> String {
    format!("select oncebox.{function}('{}', '{}'{rest})", fence.delivery, fence.token)
}

pub(super) fn lost(refused: &Refused) -> Answer {
    assert!(["OB001", "OB002"].contains(&refused.sqlstate.as_str()), "{refused:?}");
    Answer::Lost
}

async fn run(world: &World, sql: &str) -> Result<Vec<Vec<String>>, Refused> {
    Session::open(world.db.url()).await.query(sql).await
}

fn answer(answered: Result<Vec<Vec<String>>, Refused>) -> Answer {
    answered.map_or_else(|refused| lost(&refused), |_rows| Answer::Recorded)
}

fn taken(claimed: Claimed) -> Taken {
    Taken {
        fence: claimed.fence,
        key: claimed.key.to_string(),
        source: claimed.source.clone(),
        event_id: claimed.event_id.clone(),
        event_type: claimed.event_type.clone(),
        body: claimed.body.to_vec(),
        attempt: claimed.attempt,
        claimed: Some(claimed),
    }
}

/// Columns as the contract names them: delivery, token, key, source, `event_id`, type, body, attempt, and two times.
fn read(row: &[String]) -> Taken {
    assert_eq!(row.len(), 10);
    Taken {
        fence: Fence { delivery: row[0].parse().unwrap(), token: row[1].parse().unwrap() },
        key: row[2].clone(),
        source: row[3].clone(),
        event_id: row[4].clone(),
        event_type: row[5].clone(),
        body: data_encoding::HEXLOWER.decode(row[6].trim_start_matches("\\x").as_bytes()).unwrap(),
        attempt: row[7].parse().unwrap(),
        claimed: None,
    }
}
