//! A claim whose answer was lost with the database is held by a process that does not know of it: a clean stop must not
//! leave it to the end of its lease.

use testkit::{Backend, TestDatabase, contract, http};

use crate::world::{PATIENCE, World, custom};

contract! {
    async fn a_clean_stop_gives_back_what_it_does_not_know_of(db: TestDatabase) {
        let mut world = World::start(db);
        for id in ["a", "b", "c"] {
            world.expect("custom", &custom(format!(r#"{{"id":"{id}"}}"#)), "accepted");
        }
        // A consumer outside has one, and no stop of ours takes it away.
        let path = "/api/v1/handlers/pull/claim";
        let json = [("content-type", "application/json")];
        let claimed = http::post(world.program.admin_addr(), path, &json, br#"{"max":1,"lease":"60s"}"#).json();
        assert_eq!(claimed["items"].as_array().map(Vec::len), Some(1), "{claimed}");
        let token = match world.db.backend() {
            Backend::Sqlite => "randomblob(16)",
            Backend::Postgres => "gen_random_uuid()",
        };
        let (deliveries, nodes) = (world.db.table("deliveries"), world.db.table("nodes"));
        world.db.execute(&format!(
            "update {deliveries} set state = 'claimed', attempt = 1, token = {token}, lease_until_ms = 9000000000000, \
             node = (select node from {nodes}) where state = 'ready'"
        ));
        world.program.signal(libc::SIGTERM);
        assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(0));
        let sql = format!("select state, attempt, count(*) from {deliveries} group by state, attempt order by state");
        assert_eq!(world.db.query(&sql), [["claimed", "1", "1"], ["ready", "0", "2"]]);
        assert!(world.program.log().contains("2 claims whose answer was lost are ready again"), "{}", world.program.log());
    }
}
