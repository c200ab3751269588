//! Events whose identity cannot be made anew from what is shown: found, forgotten and checked by their names all the same.

use testkit::program::{Output, run};
use testkit::sender::{self, Signed};
use testkit::{TestDatabase, contract};

use crate::world::{BIN, TWILIO, TWILIO_URL, World};

const TOKEN: &str = "canary-bus-3Fg7-token";
/// All of them are shown as `urn:shop:1:order`.
const ALIKE: [(&str, &str); 3] = [("urn:shop:1", "order"), ("urn:shop", "1:order"), ("urn", "shop:1:order")];

fn start(db: TestDatabase) -> World {
    let bus = format!(
        "[[source]]\nname = \"bus\"\nprovider = \"cloudevents-webhook\"\nsecrets = [{{ value = \"{TOKEN}\" }}]\n"
    );
    World::start_with(db, |mut setup| {
        setup.rest.push_str(&bus);
        setup
    })
}

fn cloud_event((source, id): (&str, &str)) -> Signed {
    let headers =
        [("authorization", format!("Bearer {TOKEN}")), ("ce-source", source.to_owned()), ("ce-id", id.to_owned())];
    Signed {
        headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
        body: format!("{{\"from\":\"{source}\"}}").into_bytes(),
    }
}

fn command(world: &World, args: &[&str]) -> Output {
    run(BIN, &[args, &["--database", world.db.url()]].concat(), &[], world.program.dir())
}

/// Sends, and returns the key of the one event that the answer is about; the sender may send several.
fn told(world: &World, source: &str, signed: &Signed, status: &str) -> String {
    let answer = world.post(source, signed);
    assert_eq!((answer.status, &answer.json()["status"]), (200, &status.into()), "{}", answer.text());
    answer.json()["events"][0]["key"].as_str().expect("a key").to_owned()
}

contract! {
    async fn an_id_of_several_parts_is_found_by_what_is_shown(db: TestDatabase) {
        let mut world = start(db);
        let keys = ALIKE.map(|id| told(&world, "bus", &cloud_event(id), "accepted"));
        world.program.signal(libc::SIGTERM);
        assert!(world.program.wait_exit(crate::world::PATIENCE).success());
        let found = command(&world, &["event", "bus/urn:shop:1:order", "--json"]);
        assert_eq!(found.status, Some(0), "{}", found.stderr);
        for key in &keys {
            assert!(found.stdout.contains(key), "{key} is not in {}", found.stdout);
        }
        let checked = command(&world, &["check"]);
        assert_eq!(checked.status, Some(0), "{}{}", checked.stdout, checked.stderr);
        let forgotten = command(&world, &["forget", &keys[1], "--yes"]);
        assert_eq!(forgotten.status, Some(0), "{}", forgotten.stderr);
        world.program.restart();
        assert_eq!(told(&world, "bus", &cloud_event(ALIKE[0]), "duplicate"), keys[0]);
        assert_ne!(told(&world, "bus", &cloud_event(ALIKE[1]), "accepted"), keys[1]);
    }

    async fn an_event_whose_signature_covers_other_bytes_is_forgotten(db: TestDatabase) {
        let mut world = start(db);
        let signed = sender::twilio(TWILIO, TWILIO_URL, "tok-1", &[("From", "+1555"), ("Body", "hi")]);
        let key = |world: &World| {
            let answer = world.post("twilio", &signed);
            assert_eq!(answer.status, 200, "{}", answer.text());
            answer.header("oncebox-key").expect("a key").to_owned()
        };
        let first = key(&world);
        assert_eq!(key(&world), first, "a duplicate");
        let checked = command(&world, &["check"]);
        assert_eq!(checked.status, Some(0), "{}{}", checked.stdout, checked.stderr);
        world.program.signal(libc::SIGTERM);
        assert!(world.program.wait_exit(crate::world::PATIENCE).success());
        let forgotten = command(&world, &["forget", "twilio/tok-1", "--yes"]);
        assert_eq!(forgotten.status, Some(0), "{}{}", forgotten.stdout, forgotten.stderr);
        world.program.restart();
        let again = key(&world);
        assert_ne!(again, first, "it counts as new");
        assert_eq!(world.event(&again).state, "accepted");
    }
}
