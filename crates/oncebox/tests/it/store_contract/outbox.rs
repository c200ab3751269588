//! Messages: written with the caller's transaction, claimed by state, marked once.

use std::time::Duration;

use bytes::Bytes;
use oncebox::Message;
use oncebox::gateway::delivery::Next;
use oncebox::gateway::event::{EventKey, MessageKey, NodeKey};
use oncebox::gateway::store::{
    Action, ActionError, ActionFilter, ActionKind, ClaimedMessage, DestinationFacts, Fenced, HandlerSql,
    MessageFailure, MessageFence, MessageFilter, MessageWant, NodeEntry, RanEach, Sent, SentMarks, StoreError,
};
use testkit::{Backend, Session, TestDatabase};

use super::deliveries::{claim, end_leases, processing};
use crate::application;
use crate::world::{ALL, NOW, World, committed, open, run_handler};

const LEASE: Duration = Duration::from_secs(60);

/// A world whose destinations have three attempts; `mail` wants order.
async fn sending(db: TestDatabase) -> World {
    let world = processing(db).await;
    let facts = |name: &str, ordered| DestinationFacts { name: name.to_owned(), attempts: 3, ordered };
    world.store.register_destinations(&[facts("mail", true), facts("crm", false)]).await.unwrap();
    world
}

/// What became of a message that was to be written.
#[derive(Debug, PartialEq, Eq)]
enum Written {
    /// It goes out.
    Fresh(MessageKey),
    /// Its key was there before: that message stays as it is.
    Kept,
}

async fn write(world: &World, message: Message) -> Result<Written, StoreError> {
    let id = world.keys.make(NOW);
    let is_new = application::send(&world.db, &message, id, NOW).await?;
    Ok(if is_new { Written::Fresh(id) } else { Written::Kept })
}

async fn fresh(world: &World, message: Message) -> MessageKey {
    match write(world, message).await.unwrap() {
        Written::Fresh(id) => id,
        Written::Kept => panic!("it was there"),
    }
}

async fn claim_messages(world: &World, destination: &str, limit: usize) -> Vec<ClaimedMessage> {
    let want = MessageWant { destination: destination.to_owned(), limit, bytes: usize::MAX, lease: LEASE };
    world.store.claim_messages(&[want], None, NOW).await.unwrap().claimed
}

async fn mark(world: &World, fences: &[MessageFence]) -> SentMarks {
    let marks: Vec<Sent> =
        fences.iter().map(|fence| Sent { fence: *fence, status: 201, answer: Bytes::from_static(b"thanks") }).collect();
    let mut tx = world.store.begin().await.unwrap();
    let outcome = tx.sent(&marks, NOW).await.unwrap();
    match outcome {
        SentMarks::All => committed(tx).await.unwrap(),
        SentMarks::LeaseLost(_) => assert!(committed(tx).await.is_err(), "a lost lease must not commit"),
    }
    outcome
}

async fn fail(world: &World, fence: MessageFence, next: Next) -> Fenced {
    let answer = Bytes::from_static(b"no");
    let failure = MessageFailure { fence, next, error: "answered 500".to_owned(), status: Some(500), answer };
    let mut tx = world.store.begin().await.unwrap();
    let outcome = tx.fail_message(&failure, NOW).await.unwrap();
    committed(tx).await.unwrap();
    outcome
}

fn states(world: &World) -> Vec<Vec<String>> {
    world.query("select state, attempt from {outbox} order by id")
}

fn set(world: &World, what: &str) {
    world.db.execute(&format!("update {} set {what}", world.db.table("outbox")));
}

testkit::contract! {
    async fn a_message_exists_exactly_if_its_transaction_committed(db: TestDatabase) {
        let world = sending(db).await;
        let never = match world.db.backend() {
            Backend::Sqlite => "insert into oncebox_send (destination, body) values ('crm', 'never')",
            Backend::Postgres => "select oncebox.send('crm', 'never')",
        };
        let never = HandlerSql::parse(never, world.store.dialect()).unwrap();
        world.insert_one(world.event("evt_1", "{}")).await;
        let claimed = claim(&world, 1).await;
        let mut tx = world.store.begin().await.unwrap();
        assert_eq!(run_handler(&mut tx, &never, &claimed, LEASE).await.unwrap(), ALL);
        drop(tx);
        let headers = vec![("x-a".to_owned(), "ä\"".to_owned())];
        let id = fresh(&world, Message { headers, ..Message::new("crm", "now").path("/contacts?a=1") }).await;
        let claimed = claim_messages(&world, "crm", 10).await;
        assert_eq!(claimed.len(), 1);
        let one = &claimed[0];
        assert_eq!((one.fence.id, one.destination.as_str(), one.attempt), (id, "crm", 1));
        assert_eq!((one.method.as_str(), one.path.as_str(), &one.body[..]), ("POST", "/contacts?a=1", &b"now"[..]));
        let headers: serde_json::Value = serde_json::from_str(&one.headers).unwrap();
        assert_eq!(headers, serde_json::json!({"x-a": "ä\""}));
        assert!(one.idempotency_key.parse::<EventKey>().is_ok(), "{}", one.idempotency_key);
        assert_eq!(claim_messages(&world, "crm", 10).await.len(), 0, "it is claimed");
        assert_eq!(mark(&world, &[one.fence]).await, SentMarks::All);
        assert_eq!(states(&world), [["sent", "1"]]);
        let detail = world.store.message(id).await.unwrap().unwrap();
        assert_eq!((detail.line.status, detail.answer.as_deref()), (Some(201), Some(&b"thanks"[..])));
        assert!(world.store.was_sent(one.fence).await.unwrap());
    }

    async fn what_becomes_of_a_message_leaves_its_contents_alone(db: TestDatabase) {
        let world = sending(db).await;
        fresh(&world, Message::new("crm", "now")).await;
        match world.db.backend() {
            Backend::Sqlite => world.db.execute(
                "create trigger never before update on oncebox_outbox_contents begin select raise(abort, 'changed'); end",
            ),
            Backend::Postgres => {
                world.db.execute(
                    "create function never() returns trigger language plpgsql as $$ begin raise 'changed'; end $$",
                );
                world.db.execute(
                    "create trigger never before update on oncebox.outbox_contents for each row execute function never()",
                );
            }
        }
        let fence = claim_messages(&world, "crm", 1).await[0].fence;
        assert_eq!(fail(&world, fence, Next::Retry { after: Duration::ZERO }).await, Fenced::Recorded);
        set(&world, "due_at_ms = 1");
        let fence = claim_messages(&world, "crm", 1).await[0].fence;
        assert_eq!(mark(&world, &[fence]).await, SentMarks::All);
        assert_eq!((states(&world), world.count("outbox_contents")), (vec![vec!["sent".to_owned(), "2".to_owned()]], 1));
    }

    async fn a_claim_ends_with_its_bytes(db: TestDatabase) {
        let world = sending(db).await;
        for body in ["12345", "1234", "123", "12"] {
            fresh(&world, Message::new("crm", body)).await;
        }
        for (bytes, expected) in [(6, vec![5, 4]), (1, vec![3]), (100, vec![2]), (1, vec![])] {
            let want = MessageWant { destination: "crm".to_owned(), limit: 10, bytes, lease: LEASE };
            let claimed = world.store.claim_messages(&[want], None, NOW).await.unwrap().claimed;
            let sizes: Vec<usize> = claimed.iter().map(|one| one.body.len()).collect();
            assert_eq!(sizes, expected, "{bytes} bytes");
        }
    }

    async fn a_given_key_is_one_message_for_its_destination(db: TestDatabase) {
        let world = sending(db).await;
        let id = fresh(&world, Message::new("crm", "first").key("order-1")).await;
        assert_eq!(write(&world, Message::new("crm", "second").key("order-1")).await.unwrap(), Written::Kept);
        assert_eq!(world.store.message(id).await.unwrap().unwrap().body, b"first");
        fresh(&world, Message::new("mail", "other").key("order-1")).await;
        assert_eq!(world.query("select idempotency_key from {outbox_contents} order by 1"), [["crm/order-1"], ["mail/order-1"]]);
        let refused = write(&world, Message::new("crm", "").key("a/b")).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    }

    async fn a_step_is_one_message_over_the_attempts_of_its_delivery(db: TestDatabase) {
        let world = sending(db).await;
        let event = world.event("evt_1", "{}");
        world.insert_one(event.clone()).await;
        let delivery = claim(&world, 1).await[0].fence.delivery;
        let step = |body: &str| Message::new("crm", body).step(delivery, "notify");
        let id = fresh(&world, step("first")).await;
        let twice = write(&world, step("again")).await;
        assert!(twice.is_err_and(|error| error.chain().contains("already in this claim")));
        fresh(&world, Message::new("mail", "").step(delivery, "notify")).await;
        fresh(&world, Message::new("crm", "").step(delivery, "other")).await;
        end_leases(&world);
        assert_eq!(world.store.expire_leases(NOW).await.unwrap().len(), 1);
        assert_eq!(claim(&world, 1).await[0].attempt, 2);
        assert_eq!(write(&world, step("later")).await.unwrap(), Written::Kept);
        let detail = world.store.message(id).await.unwrap().unwrap();
        assert_eq!(detail.line.idempotency_key, format!("{delivery}/crm/notify"));
        assert_eq!((detail.line.key, detail.line.handler.as_deref()), (Some(event.key), Some("billing")));
        assert_eq!((detail.line.step.as_deref(), detail.body), (Some("notify"), b"first".to_vec()));
        assert_eq!(detail.order_key, Some(event.key.to_string().replace('-', "")));
        let unknown = write(&world, Message::new("crm", "").step(event.key.of_delivery("nobody"), "notify")).await;
        assert!(unknown.is_err_and(|error| error.chain().contains("no delivery") || error.chain().contains("no such delivery")));
    }

    async fn a_late_commit_with_a_low_id_is_found(db: TestDatabase) {
        let world = sending(db).await;
        let late = world.keys.make(NOW - 60_000);
        if world.db.backend() == Backend::Postgres {
            let slow = Session::open(world.db.url()).await;
            let id = ["outbox", "outbox_contents"].map(|name| format!("update oncebox.{name} set id = '{late}'")).join("; ");
            slow.query(&format!("begin; select oncebox.send('crm', 'late'); {id}")).await.unwrap();
            fresh(&world, Message::new("crm", "quick")).await;
            let quick = claim_messages(&world, "crm", 10).await;
            mark(&world, &[quick[0].fence]).await;
            slow.query("commit").await.unwrap();
        } else {
            // One writer at a time: the late one can only begin late. It comes with a low id all the same.
            fresh(&world, Message::new("crm", "quick")).await;
            let quick = claim_messages(&world, "crm", 10).await;
            mark(&world, &[quick[0].fence]).await;
            application::send(&world.db, &Message::new("crm", "late"), late, NOW - 60_000).await.unwrap();
        }
        let found = claim_messages(&world, "crm", 10).await;
        assert_eq!(found.iter().map(|one| one.fence.id).collect::<Vec<_>>(), [late]);
    }

    async fn whoever_lost_the_lease_changes_nothing(db: TestDatabase) {
        let world = sending(db).await;
        fresh(&world, Message::new("crm", "")).await;
        let old = claim_messages(&world, "crm", 1).await[0].fence;
        set(&world, "lease_until_ms = 1");
        let expired = world.store.expire_messages(NOW).await.unwrap();
        assert_eq!((expired.len(), expired[0].destination.as_str(), expired[0].attempt, expired[0].dead), (1, "crm", 1, false));
        assert_eq!(world.store.expire_messages(NOW).await.unwrap(), []);
        let new = claim_messages(&world, "crm", 1).await[0].fence;
        assert_eq!(mark(&world, &[old]).await, SentMarks::LeaseLost(vec![old.id]));
        assert_eq!(fail(&world, old, Next::Dead).await, Fenced::LeaseLost);
        assert_eq!(world.store.give_back_messages(&[old], Duration::ZERO, NOW).await.unwrap(), [Fenced::LeaseLost]);
        assert_eq!(states(&world), [["claimed", "2"]]);
        assert_eq!(mark(&world, &[new]).await, SentMarks::All);
        assert_eq!(world.query("select attempt, outcome from {outbox_attempts}"), [["1", "lost"]]);
    }

    async fn failures_are_tried_again_until_the_attempts_are_used_up(db: TestDatabase) {
        let world = sending(db).await;
        let id = fresh(&world, Message::new("crm", "")).await;
        for _ in 0..2 {
            let fence = claim_messages(&world, "crm", 1).await[0].fence;
            assert_eq!(fail(&world, fence, Next::Retry { after: Duration::from_secs(3600) }).await, Fenced::Recorded);
            assert_eq!(claim_messages(&world, "crm", 1).await.len(), 0, "it is not due");
            set(&world, "due_at_ms = 1");
        }
        let fence = claim_messages(&world, "crm", 1).await[0].fence;
        // Given back, it may be claimed a third time; the fourth claim buries it.
        world.store.give_back_messages(&[fence], Duration::ZERO, NOW).await.unwrap();
        let fence = claim_messages(&world, "crm", 1).await[0].fence;
        fail(&world, fence, Next::Retry { after: Duration::ZERO }).await;
        set(&world, "due_at_ms = 1");
        let want = MessageWant { destination: "crm".to_owned(), limit: 1, bytes: usize::MAX, lease: LEASE };
        let claims = world.store.claim_messages(&[want], None, NOW).await.unwrap();
        let buried: Vec<_> = claims.buried.iter().map(|one| (one.fence.id, one.destination.as_str(), one.attempt)).collect();
        assert_eq!((claims.claimed.len(), buried), (0, vec![(id, "crm", 3)]));
        assert_eq!(states(&world), [["dead", "3"]]);
        let detail = world.store.message(id).await.unwrap().unwrap();
        assert_eq!(detail.attempts.iter().map(|one| one.attempt).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((detail.line.status, detail.answer.as_deref()), (Some(500), Some(&b"no"[..])));
    }

    async fn where_order_matters_one_of_a_key_goes_out_at_a_time(db: TestDatabase) {
        let world = sending(db).await;
        let mut ids = Vec::new();
        for key in [Some("a"), Some("a"), None, Some("b"), None] {
            let order_key = key.map(str::to_owned);
            ids.push(fresh(&world, Message { order_key, ..Message::new("mail", "") }).await);
        }
        let first = claim_messages(&world, "mail", 10).await;
        assert_eq!(first.iter().map(|one| one.fence.id).collect::<Vec<_>>(), [ids[0], ids[2], ids[3], ids[4]]);
        assert_eq!(claim_messages(&world, "mail", 10).await.len(), 0);
        fail(&world, first[0].fence, Next::Retry { after: Duration::from_secs(3600) }).await;
        assert_eq!(claim_messages(&world, "mail", 10).await.len(), 0, "the older one is to be tried again");
        set(&world, "due_at_ms = 1");
        let again = claim_messages(&world, "mail", 10).await;
        assert_eq!(again.iter().map(|one| one.fence.id).collect::<Vec<_>>(), [ids[0]]);
        fail(&world, again[0].fence, Next::Dead).await;
        assert_eq!(claim_messages(&world, "mail", 10).await[0].fence.id, ids[1], "a dead one is skipped");
    }

    async fn dead_messages_are_replayed_and_discarded(db: TestDatabase) {
        let world = sending(db).await;
        let mut ids = Vec::new();
        for body in ["a", "b", "c"] {
            ids.push(fresh(&world, Message::new("crm", body)).await);
        }
        for one in claim_messages(&world, "crm", 3).await {
            fail(&world, one.fence, Next::Dead).await;
        }
        let act = async |kind, filter: ActionFilter| {
            let id = format!("{kind:?} {filter:?}");
            let counted = world.store.count_action(kind, &filter).await.unwrap();
            let action = Action { id, kind, filter, who: "test".to_owned() };
            let acted = world.store.act(&action, None, NOW).await.unwrap();
            assert_eq!((counted, world.store.act(&action, None, NOW).await.unwrap()), (acted, acted));
            acted
        };
        let one = ActionFilter { message: Some(ids[1]), ..ActionFilter::default() };
        assert_eq!(act(ActionKind::Discard, one).await, 1);
        let all = ActionFilter { destination: Some("crm".to_owned()), ..ActionFilter::default() };
        assert_eq!(act(ActionKind::Replay, all.clone()).await, 2);
        assert_eq!(states(&world), [["ready", "1"], ["discarded", "1"], ["ready", "1"]]);
        assert_eq!(world.query("select attempts_before from {outbox} where state = 'ready'"), [["1"], ["1"]]);
        assert_eq!(world.query("select count(distinct idempotency_key) from {outbox_contents}"), [["3"]]);
        let held = world.store.count_action(ActionKind::Release, &all).await;
        assert!(matches!(held, Err(ActionError::Messages)), "{held:?}");
        let dead = MessageFilter { state: Some("dead".to_owned()), ..MessageFilter::default() };
        assert_eq!(world.store.messages(&dead, 10).await.unwrap().items, []);
    }

    async fn messages_that_wait_for_their_next_attempt_are_due_now(db: TestDatabase) {
        let world = sending(db).await;
        for (destination, body) in [("crm", "a"), ("crm", "b"), ("mail", "c")] {
            fresh(&world, Message::new(destination, body)).await;
        }
        for destination in ["crm", "mail"] {
            for one in claim_messages(&world, destination, 3).await {
                fail(&world, one.fence, Next::Retry { after: Duration::from_secs(3600) }).await;
            }
        }
        let filter = ActionFilter { destination: Some("crm".to_owned()), waiting: true, ..ActionFilter::default() };
        assert_eq!(world.store.count_hurry(&filter, NOW).await.unwrap(), 2);
        let action = Action { id: "w".to_owned(), kind: ActionKind::Replay, filter, who: "test".to_owned() };
        assert_eq!(world.store.act(&action, None, NOW).await.unwrap(), 2);
        let again = claim_messages(&world, "crm", 3).await;
        assert_eq!(again.iter().map(|one| one.attempt).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(claim_messages(&world, "mail", 3).await.len(), 0, "another destination waits on");
    }

    async fn a_dead_process_gives_its_messages_back_at_once(db: TestDatabase) {
        let world = sending(db).await;
        fresh(&world, Message::new("crm", "")).await;
        let node = |byte| NodeEntry { name: "here".to_owned(), node: NodeKey::from_bytes([byte; 16]) };
        world.store.register_node(&node(1), NOW).await.unwrap();
        let want = MessageWant { destination: "crm".to_owned(), limit: 1, bytes: usize::MAX, lease: LEASE };
        world.store.claim_messages(&[want], Some(node(1).node), NOW).await.unwrap();
        assert_eq!(world.store.reclaim_messages(node(2).node, NOW).await.unwrap(), []);
        assert_eq!(world.store.reclaim_messages(node(1).node, NOW).await.unwrap().len(), 1);
        assert_eq!(states(&world), [["ready", "1"]]);
        assert_eq!(world.store.due(NOW).await.unwrap().destinations, ["crm"]);
    }

    async fn pages_go_on_where_they_ended(db: TestDatabase) {
        let world = sending(db).await;
        for n in 0..5 {
            fresh(&world, Message::new(if n % 2 == 0 { "crm" } else { "mail" }, "")).await;
        }
        let mut filter = MessageFilter { destination: Some("crm".to_owned()), ..MessageFilter::default() };
        let first = world.store.messages(&filter, 2).await.unwrap();
        filter.before = first.next;
        let last = world.store.messages(&filter, 2).await.unwrap();
        assert_eq!((first.items.len(), last.items.len(), last.next), (2, 1, None));
        let depths = world.store.outbox_depths().await.unwrap();
        assert_eq!(depths.iter().map(|one| (one.name.as_str(), one.count)).collect::<Vec<_>>(), [("crm", 3), ("mail", 2)]);
    }
}

/// SQLite's way for handlers to send; on Postgres it is a function with tests of its own.
#[tokio::test]
async fn on_sqlite_a_view_takes_messages() {
    let world = sending(TestDatabase::fresh(Backend::Sqlite)).await;
    world.insert_one(world.event("evt_1", "{}")).await;
    let claimed = claim(&world, 1).await;
    let run = async |text: &str| {
        let sql = HandlerSql::parse(text, world.store.dialect()).unwrap();
        let mut tx = world.store.begin().await.unwrap();
        match run_handler(&mut tx, &sql, &claimed, LEASE).await.unwrap() {
            RanEach::Written(_) => committed(tx).await.map(|()| String::new()).unwrap(),
            RanEach::Stopped { error, .. } | RanEach::Stale { error } => error,
        }
    };
    let insert = "insert into oncebox_send (destination, body, delivery, step)";
    assert_eq!(run(&format!("{insert} values ('crm', :body, :delivery, 'notify')")).await, "");
    assert_eq!(
        run(&format!("{insert} values ('crm', 'x', :delivery, null); {insert} values ('mail', 'x', :delivery, 'b')"))
            .await,
        ""
    );
    assert_eq!(run("insert into oncebox_send (destination, body, key, path, method, headers) values ('crm', x'00ff', 'k', '/p', 'put', '{\"a\":\"b\"}')").await, "");
    let fresh = "insert into oncebox_send (destination, body) values ('other', 'x')";
    assert_eq!(run(&format!("{fresh}; {fresh}")).await, "");
    let keys = world.query("select count(distinct idempotency_key) from {outbox} join {outbox_contents} using (id) where destination = 'other'");
    assert_eq!(keys, [["2"]]);
    for (text, error) in [
        (format!("{insert} values ('crm', 'x', :delivery, 'notify')"), "sent already in this claim"),
        (format!("{insert} values ('crm', 'x', :delivery, 'a b')"), "CHECK constraint"),
        (format!("{insert} values ('c rm', 'x', :delivery, 'c')"), "CHECK constraint"),
        (format!("{insert} values ('crm', 'x', :key, 'c')"), "no such delivery"),
        (format!("{insert} values ('crm', 'x', null, 'c')"), "a step belongs to a delivery"),
        (
            "insert into oncebox_send (destination, body, method) values ('crm', 'x', 'HEAD')".to_owned(),
            "a method is one of POST, PUT, PATCH, DELETE and GET",
        ),
        (
            "insert into oncebox_send (destination, body) values ('crm', zeroblob(16777217))".to_owned(),
            "the body of a message has at most 16 MiB",
        ),
        ("insert into oncebox_send (destination, body, key) values ('crm', 'x', 'a/b')".to_owned(), "visible ASCII"),
        (
            "insert into oncebox_send (destination, body, headers) values ('crm', 'x', '[]')".to_owned(),
            "CHECK constraint",
        ),
    ] {
        let found = run(&text).await;
        assert!(found.contains(error), "{text}: {found}");
    }
    // A claim after one that was given back has its attempt and a token of its own.
    world.db.execute("update oncebox_deliveries set token = randomblob(16)");
    let later = run(&format!("{insert} values ('crm', 'later', :delivery, 'notify')")).await;
    assert_eq!(later, "", "a later claim changes nothing");
    let delivery = claimed[0].fence.delivery;
    let rows = world.query("select idempotency_key, method, path, headers, body, handler, delivery_attempt from {outbox} join {outbox_contents} using (id) where destination <> 'other' order by id");
    assert_eq!(
        rows,
        [
            [&format!("{delivery}/crm/notify"), "POST", "", "{}", "\\x7b7d", "billing", "1"].map(str::to_owned),
            [&format!("{delivery}/crm/send"), "POST", "", "{}", "\\x78", "billing", "1"].map(str::to_owned),
            [&format!("{delivery}/mail/b"), "POST", "", "{}", "\\x78", "billing", "1"].map(str::to_owned),
            ["crm/k", "PUT", "/p", "{\"a\":\"b\"}", "\\x00ff", "", ""].map(str::to_owned),
        ]
    );
    // Named in the order of writing, and due by the clock that claimed the delivery.
    assert_eq!(claim_messages(&world, "crm", 10).await.len(), 3);
    let second = open(&world.db).await.unwrap();
    assert_eq!(second.messages(&MessageFilter::default(), 10).await.unwrap().items.len(), 6);
}
