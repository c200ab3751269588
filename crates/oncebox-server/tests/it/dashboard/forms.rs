//! The dashboard's forms against pages of other sites, with no form token and with wrong ones; and viewers at every route
//! that changes something.

use testkit::http::Answer;
use testkit::{TestDatabase, contract};

use crate::admin::security::{OPERATOR, VIEWER, ask, bury, log_in, state, with_tokens};
use crate::world::World;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
/// Every form of the dashboard but the login's, filled in.
const FORMS: [(&str, &str); 7] = [
    ("/act/replay", "source=stripe"),
    ("/act/release", "source=stripe"),
    ("/act/discard", "source=stripe"),
    ("/act/forget", "source=stripe"),
    ("/act/pause", "handler=pull"),
    ("/act/resume", "handler=pull"),
    ("/logout", ""),
];
/// What a browser says of another site's page.
const ELSEWHERE: [(&str, &str); 5] = [
    ("origin", "https://evil.example"),
    ("origin", "null"),
    ("origin", "http://127.0.0.1:1"),
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-site", "same-site"),
];

/// All that the forms could have changed.
fn changed(world: &World) -> Vec<Vec<Vec<String>>> {
    let ask = |sql: &str, table: &str| world.db.query(&format!("{sql} from {}", world.db.table(table)));
    vec![
        ask("select state, attempt", "deliveries"),
        ask("select state", "events"),
        ask("select count(*)", "ledger"),
        ask("select handler, paused", "handlers"),
        ask("select count(*)", "actions"),
    ]
}

fn send(world: &World, path: &str, fields: &str, headers: &[(&str, &str)]) -> Answer {
    let headers = [&[FORM], headers].concat();
    ask(world, "POST", path, &headers, fields.as_bytes())
}

/// Sends every form as it must not be sent, and then one as it must.
fn check_forms(world: &World, who: &[(&str, &str)], form_token: &str) {
    let before = changed(world);
    for (path, fields) in FORMS {
        let right = format!("{fields}&form_token={form_token}");
        for from in ELSEWHERE {
            let answer = send(world, path, &right, &[who, &[from]].concat());
            assert_eq!(answer.status, 403, "{path} from {from:?}");
            assert_eq!(answer.header("set-cookie"), None, "{path} from {from:?}");
        }
        for wrong in
            ["", "&form_token=", "&form_token=x", &format!("&form_token={form_token}0"), "&form_token=x&form_token="]
        {
            assert_eq!(send(world, path, &format!("{fields}{wrong}"), who).status, 403, "{path} with {wrong:?}");
        }
        let twice = format!("{fields}&form_token=x&form_token={form_token}");
        assert_eq!(send(world, path, &twice, who).status, 403, "{path}: the first one counts");
        let as_text = [who, &[("content-type", "text/plain")]].concat();
        assert!([400, 403].contains(&ask(world, "POST", path, &as_text, right.as_bytes()).status), "{path} as text");
    }
    assert_eq!(changed(world), before);
    assert_eq!(ask(world, "GET", "/", who, b"").status, 200, "and nobody was logged out");
    let sent = send(world, "/act/replay", &format!("source=stripe&form_token={form_token}"), who);
    assert_eq!((sent.status, state(world).as_str()), (303, "ready"), "{}", sent.text());
}

/// The form token that a page holds.
fn form_token(world: &World) -> String {
    let page = ask(world, "GET", "/act/replay?source=stripe", &[], b"").text();
    let (_, rest) = page.split_once("name=\"form_token\" value=\"").expect("a form token");
    rest.split('"').next().expect("its end").to_owned()
}

contract! {
    async fn forms_act_for_the_pages_of_their_session_alone(db: TestDatabase) {
        let world = World::start_with(db, with_tokens);
        bury(&world);
        let (_, cookie, token) = log_in(&world, OPERATOR, &[]);
        let (_, _, of_another) = log_in(&world, OPERATOR, &[]);
        let who = [("cookie", cookie.as_str())];
        assert_ne!(token, of_another);
        let borrowed = format!("source=stripe&form_token={of_another}");
        assert_eq!(send(&world, "/act/replay", &borrowed, &who).status, 403, "another session's token");
        assert_eq!(send(&world, "/act/replay", &format!("source=stripe&form_token={token}"), &[]).status, 303, "nobody's");
        assert_eq!(state(&world), "dead");
        check_forms(&world, &who, &token);
    }

    async fn forms_act_for_our_pages_alone_where_no_token_is_needed(db: TestDatabase) {
        let world = World::start(db);
        bury(&world);
        let token = form_token(&world);
        check_forms(&world, &[], &token);
    }

    async fn an_action_that_grew_is_asked_again(db: TestDatabase) {
        let world = World::start(db);
        bury(&world);
        let token = form_token(&world);
        let fields = |count: i64| format!("source=stripe&count={count}&action_id=once&form_token={token}");
        let asked_again = send(&world, "/act/discard", &fields(0), &[]);
        assert_eq!((asked_again.status, state(&world).as_str()), (409, "dead"), "{}", asked_again.text());
        let page = asked_again.text();
        assert!(page.contains("Nothing was done") && page.contains("Discard 1 delivery?"), "{page}");
        assert_eq!((send(&world, "/act/discard", &fields(1), &[]).status, state(&world).as_str()), (303, "discarded"));
        assert_eq!(send(&world, "/act/discard", &fields(0), &[]).status, 303, "it was done before");
        let stale = send(&world, "/act/discard", "source=stripe", &[]);
        assert!(stale.header("content-type").is_some_and(|kind| kind.starts_with("text/html")), "{stale:?}");
    }

    async fn whoever_logs_in_again_is_led_back_to_the_question(db: TestDatabase) {
        let world = World::start_with(db, with_tokens);
        let question = format!("http://{}/act/replay?source=stripe", world.program.admin_addr());
        let lost = send(&world, "/act/replay", "source=stripe", &[("referer", &question)]);
        assert_eq!((lost.status, lost.header("location")), (303, Some("/login?next=/act/replay%3Fsource%3Dstripe")));
        let unknown = send(&world, "/act/replay", "source=stripe", &[]);
        assert_eq!(unknown.header("location"), Some("/login?next=/"));
    }

    async fn another_site_logs_nobody_in(db: TestDatabase) {
        let world = World::start_with(db, with_tokens);
        for from in ELSEWHERE {
            let answer = send(&world, "/login", &format!("token={OPERATOR}"), &[from]);
            assert_eq!((answer.status, answer.header("set-cookie")), (403, None), "{from:?}");
        }
        assert_eq!(send(&world, "/login", "token=wrong", &[]).status, 401);
        assert_eq!(send(&world, "/login", &format!("token={OPERATOR}"), &[]).status, 303);
    }

    async fn a_viewer_changes_nothing_anywhere(db: TestDatabase) {
        let world = World::start_with(db, with_tokens);
        bury(&world);
        let before = changed(&world);
        let (_, cookie, token) = log_in(&world, VIEWER, &[]);
        let bearer = format!("Bearer {VIEWER}");
        let json = ("content-type", "application/json");
        let session = [json, ("cookie", cookie.as_str()), ("oncebox-form-token", token.as_str())];
        let document = ask(&world, "GET", "/api/openapi.json", &[("authorization", &bearer)], b"").json();
        let mut tried = Vec::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            let changing = item.as_object().expect("methods").keys().filter(|method| *method != "get");
            for method in changing.filter(|_| path != "/api/v1/session").map(|method| method.to_uppercase()) {
                let real = path.replace("{name}", "pull").replace("{delivery}", "019a8d2e-5b1c-7f00-8000-3c6f0e9a7b11");
                for headers in [&session[..], &[json, ("authorization", &bearer)]] {
                    let answer = ask(&world, &method, &real, headers, b"{}");
                    assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
                }
                assert_eq!(ask(&world, &method, &real, &[json], b"{}").status, 401, "{method} {path}");
                tried.push(path.trim_start_matches("/api/v1/").to_owned());
            }
        }
        for known in [
            "erase", "retention/run", "retention/confirm", "deliveries/{delivery}/finish", "deliveries/{delivery}/fail",
            "deliveries/{delivery}/extend", "handlers/{name}/claim", "handlers/{name}/pause", "handlers/{name}/resume",
            "sources/{name}/arm", "replay", "release", "discard", "forget",
        ] {
            assert!(tried.iter().any(|path| path == known), "{known} in {tried:?}");
        }
        for (path, fields) in FORMS.iter().filter(|(path, _)| path.starts_with("/act/")) {
            let answer = send(&world, path, &format!("{fields}&form_token={token}"), &[("cookie", &cookie)]);
            assert_eq!(answer.status, 403, "{path}");
        }
        assert_eq!(changed(&world), before);
    }
}
