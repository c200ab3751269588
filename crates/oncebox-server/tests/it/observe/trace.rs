//! The trace of a webhook goes on to whatever is done about it, with spans or without.

use testkit::receiver::Receiver;
use testkit::{Backend, TestDatabase, contract};

use crate::world::{PATIENCE, Setup, World, custom, wait_until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A handler that calls, one that writes a message without reading the payload, and the destination of it.
pub(crate) fn setup(db: &TestDatabase, app: &Receiver, crm: &Receiver) -> Setup {
    let send = match db.backend() {
        Backend::Sqlite => {
            "insert into oncebox_send (destination, body, delivery, step) values ('crm', :event_id, :delivery, 's')"
        }
        Backend::Postgres => "select oncebox.send('crm', :event_id, delivery => :delivery, step => 's')",
    };
    let parts = format!(
        "[[handler]]\nname = \"app\"\nsources = [\"custom\"]\nhttp = {{ url = \"{}\" }}\n\
         [[handler]]\nname = \"write\"\nsources = [\"custom\"]\nsql = \"{send}\"\n\
         [[destination]]\nname = \"crm\"\nurl = \"{}\"\n",
        app.url(),
        crm.url()
    );
    let mut setup = Setup::new(db.url());
    setup.rest = setup.rest.replace("[[handler]]\nname = \"pull\"\npull = true\n", &parts);
    setup
}

/// Sends an event with this header and returns what arrived with the call and with the message.
fn carried(world: &World, app: &Receiver, crm: &Receiver, id: &str, traceparent: &str) -> [Option<String>; 2] {
    let mut signed = custom(format!(r#"{{"id":"{id}"}}"#));
    signed.headers.push(("traceparent".to_owned(), traceparent.to_owned()));
    signed.headers.push(("tracestate".to_owned(), "vendor=1".to_owned()));
    let before = app.calls().len();
    world.expect("custom", &signed, "accepted");
    wait_until("both arrived", PATIENCE, || app.calls().len() > before && crm.calls().len() > before);
    [app, crm].map(|receiver| receiver.calls()[before].header("traceparent").map(str::to_owned))
}

contract! {
    async fn a_valid_trace_is_carried_and_any_other_is_dropped(db: TestDatabase) {
        let (app, crm) = (Receiver::start(), Receiver::start());
        let world = World { program: setup(&db, &app, &crm).serve(), db };
        let given = format!("00-{TRACE}-00f067aa0ba902b7-01");
        assert_eq!(carried(&world, &app, &crm, "a", &given), [Some(given.clone()), Some(given.clone())]);
        assert_eq!(app.calls()[0].header("tracestate"), Some("vendor=1"));
        for (number, wrong) in ["nonsense", &given.to_uppercase(), &given.replace(TRACE, &"0".repeat(32))].iter().enumerate() {
            assert_eq!(carried(&world, &app, &crm, &format!("wrong-{number}"), wrong), [None, None], "{wrong}");
        }
        assert_eq!(app.calls()[1].header("tracestate"), None, "worth nothing without a trace");
    }
}
