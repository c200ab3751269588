//! A standby that must confirm every commit: nothing is acknowledged that it does not have, however the row came to be seen.

use testkit::TestDatabase;
use testkit::database::postgres_query;
use testkit::postgres::{Cluster, Mode, Options};

use crate::world::{PATIENCE, World, custom, wait_until};

/// Makes every commit wait for a standby, or for none.
fn confirm_by(primary: &Cluster, names: &str) {
    let admin = primary.url("postgres");
    postgres_query(&admin, &format!("alter system set synchronous_standby_names = '{names}'"));
    postgres_query(&admin, "select pg_reload_conf()");
    wait_until("the setting is there", PATIENCE, || {
        postgres_query(&admin, "show synchronous_standby_names") == [[names]]
    });
}

/// The first copy waits for the standby in vain. A primary that restarts in place shows the row all the same, so the second
/// copy is a duplicate, of something that a promotion would lose.
#[test]
fn a_duplicate_of_what_the_standby_does_not_have_is_503() {
    let mut primary = Cluster::start(Options::default());
    let db = TestDatabase::fresh_on(&primary);
    let mut standby = Cluster::standby_of(&mut primary);
    let world = World::start(db);
    world.expect("custom", &custom(r#"{"id":"before"}"#), "accepted");
    confirm_by(&primary, "*");
    world.expect("custom", &custom(r#"{"id":"both"}"#), "accepted");

    standby.stop(Mode::Fast);
    let event = custom(r#"{"id":"one"}"#);
    assert_eq!(world.post("custom", &event).status, 503, "nobody confirms it");
    primary.stop(Mode::Immediate);
    primary.start_again();
    wait_until("the row is seen", PATIENCE, || {
        world.db.query("select count(*) from oncebox.events where event_id = 'one'") == [["1"]]
    });
    let again = world.post("custom", &event);
    assert_eq!(again.status, 503, "nobody has confirmed it: {}", again.text());

    standby.start_again();
    wait_until("it is confirmed", PATIENCE, || world.post("custom", &event).status == 200);
    let duplicate = world.post("custom", &event);
    assert_eq!(duplicate.json()["status"], "duplicate", "{}", duplicate.text());
    primary.stop(Mode::Immediate);
    standby.promote();
    let there = format!("{}", standby.url(database_name(&world)));
    assert_eq!(postgres_query(&there, "select count(*) from oncebox.events where event_id = 'one'"), [["1"]]);
}

fn database_name(world: &World) -> &str {
    world.db.url().rsplit_once('/').expect("a URL names a database").1
}
