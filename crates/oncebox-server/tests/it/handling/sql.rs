//! Handlers of kind `sql`.

use testkit::{TestDatabase, contract};

use super::{HASTY, LEDGER, delivery, effects, event, send, start, wait_for_states};
use crate::world::{PATIENCE, custom, wait_until};

contract! {
    async fn the_effect_is_there_once(db: TestDatabase) {
        let world = start(db, LEDGER);
        for number in 0..100 {
            world.expect("custom", &event(number), "accepted");
            world.expect("custom", &event(number), "duplicate");
        }
        wait_for_states(&world, "ledger", &["done"]);
        assert_eq!(effects(&world), (100, 100));
        let done = r#"oncebox_attempts_total{handler="ledger",try="first",outcome="done"} 100"#;
        wait_until("the attempts are counted", PATIENCE, || world.metrics().contains(done));
    }

    async fn what_always_fails_is_dead_after_its_attempts_and_the_rest_is_done(db: TestDatabase) {
        db.execute("create table picky (event_id text check (event_id not in ('evt_7', 'evt_30')))");
        let poison = format!(
            "{LEDGER}[[handler]]\nname = \"picky\"\nsources = [\"custom\"]\nlease = \"5s\"\n{HASTY}\
             sql = \"insert into effects (event_id, attempt) values ('x' || :event_id, :attempt); \
             insert into picky values (:event_id)\"\n"
        );
        let world = start(db, &poison);
        send(&world, 0..60);
        wait_for_states(&world, "ledger", &["done"]);
        wait_for_states(&world, "picky", &["done", "dead"]);
        for id in ["evt_7", "evt_30"] {
            let (state, attempt, error) = delivery(&world, "picky", id);
            assert_eq!((state.as_str(), attempt), ("dead", 3), "{id}: {error}");
            assert!(error.to_lowercase().contains("check"), "{error}");
        }
        // Nothing of a failed attempt stays, and nothing of the others is there twice.
        assert_eq!(effects(&world), (60 + 58, 60 + 58));
        assert_eq!(world.db.count("picky"), 58);
    }

    async fn a_body_that_is_no_text_fails_for_good(db: TestDatabase) {
        let world = start(db, &LEDGER.replace(":key", ":body").replace("\"custom\"", "\"digest\""));
        world.expect("digest", &custom(b"{\"x\":\"\xff\"}".to_vec()), "accepted");
        world.expect("digest", &custom(b"{\"x\":1}".to_vec()), "accepted");
        wait_for_states(&world, "ledger", &["done", "dead"]);
        assert_eq!(effects(&world), (1, 1));
        let rows = world.db.query(&format!("select attempt, last_error from {} where state = 'dead'", world.db.table("deliveries_v1")));
        assert_eq!(rows[0][0], "1");
        assert!(rows[0][1].contains(":body_bytes"), "{rows:?}");
    }

    async fn several_names_are_bound_with_their_types(db: TestDatabase) {
        db.execute("create table seen (source text, id text, key text, kind text, body text, at text, attempt integer)");
        let world = start(db, "[[handler]]\nname = \"all\"\nsources = [\"custom\"]\n\
            sql = \"insert into seen values (:source, :event_id, :key, :type, :body, cast(:received_at as text), :attempt)\"\n");
        let key = world.expect("custom", &event(5), "accepted");
        wait_for_states(&world, "all", &["done"]);
        let rows = world.db.query("select source, id, key, kind, body, attempt from seen");
        assert_eq!(rows, [["custom", "evt_5", key.as_str(), "load", r#"{"id":"evt_5","type":"load"}"#, "1"]]);
    }
}
