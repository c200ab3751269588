//! What is counted when somebody looks at the metrics: there from the start, and zero again in the end.

use testkit::{TestDatabase, contract};

use super::{LEDGER, event, send, start, wait_for_states};
use crate::world::{PATIENCE, Setup, World, wait_until};

const CRM: &str = "[[destination]]\nname = \"crm\"\nurl = \"https://crm.example.com/\"\n";

#[track_caller]
fn expect_lines(world: &World, lines: &[&str]) {
    for line in lines {
        wait_until(line, PATIENCE, || world.metrics().lines().any(|one| one == *line));
    }
}

contract! {
    async fn everything_configured_is_there_from_the_start(db: TestDatabase) {
        let mut setup = Setup::new(db.url());
        setup.rest.push_str(CRM);
        let world = World { program: setup.serve(), db };
        expect_lines(&world, &[
            r#"oncebox_deliveries{handler="pull",state="ready"} 0"#,
            r#"oncebox_deliveries{handler="pull",state="claimed"} 0"#,
            r#"oncebox_deliveries{handler="pull",state="dead"} 0"#,
            r#"oncebox_deliveries{handler="pull",state="held"} 0"#,
            r#"oncebox_oldest_ready_seconds{handler="pull"} 0"#,
            r#"oncebox_outbox{destination="crm",state="ready"} 0"#,
            r#"oncebox_outbox{destination="crm",state="claimed"} 0"#,
            r#"oncebox_outbox{destination="crm",state="dead"} 0"#,
            r#"oncebox_ledger_rows{source="stripe"} 0"#,
            r#"oncebox_ledger_rows{source="custom"} 0"#,
        ]);
        world.expect("custom", &event(1), "accepted");
        expect_lines(&world, &[r#"oncebox_deliveries{handler="pull",state="ready"} 1"#]);
        let rows = r#"oncebox_ledger_rows{source="custom"} 1"#;
        wait_until("the ledger is counted again", PATIENCE, || world.metrics().lines().any(|line| line == rows));
    }

    async fn an_emptied_queue_shows_zero(db: TestDatabase) {
        let world = start(db, LEDGER);
        send(&world, 0..5);
        wait_for_states(&world, "ledger", &["done"]);
        expect_lines(&world, &[
            r#"oncebox_deliveries{handler="ledger",state="ready"} 0"#,
            r#"oncebox_deliveries{handler="ledger",state="claimed"} 0"#,
            r#"oncebox_oldest_ready_seconds{handler="ledger"} 0"#,
        ]);
    }
}
