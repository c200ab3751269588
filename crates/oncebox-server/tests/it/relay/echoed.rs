//! A destination that says our own credentials back: they are in no log, no answer of ours and no table.

use testkit::receiver::{Call, Receiver, Reply};
use testkit::{TestDatabase, contract, http};

use super::{HASTY, destination, setup, wait_for_messages, write};
use crate::world::World;

const TOKEN: &str = "canary-destination-6Fd2";
const PASSWORD: &str = "canary-password-3Ks8";

fn echo(call: &Call) -> Reply {
    let lines: Vec<String> = call.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let password = call.header("x-proxy").and_then(|value| value.strip_prefix("Basic "));
    let opened = password.and_then(|text| data_encoding::BASE64.decode(text.as_bytes()).ok()).unwrap_or_default();
    let said = format!("you sent {} which is {}", lines.join("; "), String::from_utf8_lossy(&opened));
    let status = if call.path.ends_with("fine") { 200 } else { 500 };
    Reply::Body(status, said)
}

contract! {
    async fn credentials_that_are_said_back_are_kept_nowhere(db: TestDatabase) {
        let receiver = Receiver::start_with(echo);
        let basic = data_encoding::BASE64.encode(format!("user:{PASSWORD}").as_bytes());
        let headers = format!(
            "headers = {{ authorization = {{ value = \"Bearer {TOKEN}\" }}, x-proxy = {{ value = \"Basic {basic}\" }} }}\n{HASTY}"
        );
        let world = World { program: setup(&db, &destination(&receiver, &headers)).serve(), db };
        write(&world.db, "bad", "");
        write(&world.db, "good", "fine");
        wait_for_messages(&world.db, &["dead", "sent"]);
        assert_eq!(receiver.calls()[0].header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
        let mut seen = world.program.log();
        let admin = world.program.admin_addr();
        let listed = http::get(admin, "/api/v1/outbox", &[]);
        for line in listed.json()["items"].as_array().expect("rows") {
            let id = line["id"].as_str().expect("an id");
            seen += &http::get(admin, &format!("/api/v1/outbox/{id}"), &[]).text();
            seen += &http::get(admin, &format!("/outbox/{id}"), &[]).text();
        }
        seen += &listed.text();
        seen += &http::get(admin, "/api/v1/dead-letters", &[]).text();
        for table in ["outbox", "outbox_attempts", "outbox_answers"] {
            for row in world.db.query(&format!("select * from {}", world.db.table(table))) {
                for cell in row {
                    let bytes = cell.strip_prefix("\\x").and_then(|hex| data_encoding::HEXLOWER.decode(hex.as_bytes()).ok());
                    seen += &bytes.map_or(cell, |bytes| String::from_utf8_lossy(&bytes).into_owned());
                }
            }
        }
        assert!(seen.contains("you sent"), "the rest of the answer is there: {seen}");
        for secret in [TOKEN, PASSWORD, basic.as_str()] {
            assert!(!seen.contains(secret), "{secret} is in {seen}");
        }
    }
}
