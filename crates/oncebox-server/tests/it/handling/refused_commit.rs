//! A commit that is refused every time, in words that sound as if the next one might come through.

use testkit::{Backend, TestDatabase};

use super::{LEDGER, delivery, effects, send, start_on, wait_for_states};

#[test]
fn a_commit_that_is_refused_every_time_is_a_failed_attempt() {
    for code in ["40001", "55P03", "57014", "53100", "23514"] {
        let db = TestDatabase::fresh(Backend::Postgres);
        db.execute("create table effects (event_id text, event_key text, attempt integer)");
        db.execute(&format!(
            "create function refuse() returns trigger language plpgsql as $$ begin \
             if new.event_id = 'evt_2' then raise exception 'not today' using errcode = '{code}'; end if; return null; end $$"
        ));
        db.execute(
            "create constraint trigger refuse after insert on effects deferrable initially deferred \
             for each row execute function refuse()",
        );
        let world = start_on(db, &LEDGER.replace("lease = \"5s\"", "lease = \"60s\""));
        send(&world, 0..5);
        wait_for_states(&world, "ledger", &["done", "dead"]);
        let (state, attempt, error) = delivery(&world, "ledger", "evt_2");
        assert_eq!((state.as_str(), attempt), ("dead", 3), "{code}: {error}");
        assert!(error.contains(&format!("at the commit: not today ({code})")), "{code}: {error}");
        assert_eq!(effects(&world), (4, 4), "{code}");
    }
}
