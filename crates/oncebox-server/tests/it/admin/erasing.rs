//! An erasure over the API, killed midway and submitted again: everything of the subject goes, once, and nothing else.

use serde_json::json;
use testkit::http;
use testkit::{TestDatabase, contract};

use crate::world::{PATIENCE, Setup, World, custom};

const EVENTS: usize = 1000;

contract! {
    async fn an_erasure_killed_midway_goes_on(db: TestDatabase) {
        let url = db.url().to_owned();
        let armed = Setup::new(&url).env("ONCEBOX_FAULTS", "actions.slice=abort@3");
        let mut world = World { program: armed.serve(), db };
        let event = |n: usize| json!({"id": format!("e{n}"), "type": "t", "who": if n.is_multiple_of(2) { "ann-canary" } else { "bob" }});
        let events: Vec<_> = (0..EVENTS).map(event).collect();
        assert_eq!(world.post("batch", &custom(json!({"events": events}).to_string())).status, 200);
        let body = json!({"filter": {"source": "batch", "pointer": "/who", "value": "ann-canary"}, "action_id": "gone"});
        assert!(submit(world.program.admin_addr(), &body).is_err(), "no answer from the dead");
        world.program.wait_exit(PATIENCE);
        let left = world.db.count(&world.db.table("payloads"));
        assert!((501..1000).contains(&left), "{left}");

        world.program = Setup::new(&url).serve();
        let answer = submit(world.program.admin_addr(), &body).expect("an answer");
        assert_eq!((answer.status, &answer.json()["count"]), (200, &json!(EVENTS / 2)), "{}", answer.text());
        let again = submit(world.program.admin_addr(), &body).expect("an answer").json();
        assert_eq!((&again["count"], &again["repeated"]), (&json!(EVENTS / 2), &json!(true)));
        let counts = world.row_counts();
        assert_eq!([counts["payloads"], counts["events"], counts["ledger"]], [500, 1000, 1000]);
        let log = http::get(world.program.admin_addr(), "/api/v1/actions", &[]).text();
        assert!(log.contains("erase") && !log.contains("ann-canary") && !world.program.log().contains("ann-canary"), "{log}");
        let empty = submit(world.program.admin_addr(), &json!({"filter": {}})).expect("an answer");
        assert_eq!(empty.status, 400, "{}", empty.text());
        let nul = submit(world.program.admin_addr(), &json!({"filter": {"key": "stripe/a\0b"}})).expect("an answer");
        assert_eq!(nul.status, 400, "{}", nul.text());
        let misspelt = submit(world.program.admin_addr(), &json!({"filter": {"sorce": "batch"}})).expect("an answer");
        assert!((400..500).contains(&misspelt.status), "{}", misspelt.text());
    }
}

fn submit(admin: &str, body: &serde_json::Value) -> std::io::Result<http::Answer> {
    let headers = [("content-type", "application/json")];
    http::request(admin, "POST", "/api/v1/erase", &headers, body.to_string().as_bytes())
}
