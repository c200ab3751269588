use super::*;

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let parsed = |(name, value): &(&str, &str)| {
        (name.parse::<HeaderName>().expect("a name"), value.parse::<HeaderValue>().expect("a value"))
    };
    lines.iter().map(parsed).collect()
}

fn guard(operator: Option<&str>, viewer: Option<&str>, listens_on: &str) -> Guard {
    let access = access(operator, viewer);
    Guard::new(access, listens_on.parse().expect("an address")).expect("randomness")
}

fn access(operator: Option<&str>, viewer: Option<&str>) -> Access {
    Access {
        operator: operator.map(Secret::new),
        viewer: viewer.map(Secret::new),
        consumers: vec![("billing".to_owned(), Secret::new("consumer"))],
        hosts: vec!["hooks.internal".to_owned()],
    }
}

fn cookie_of(opened: &Opened) -> String {
    opened.cookie.to_str().expect("text").split(';').next().expect("a pair").to_owned()
}

#[test]
fn hosts() {
    let guard = guard(None, None, "127.0.0.1:8081");
    for (host, expected) in [
        ("localhost:8081", true),
        ("LOCALHOST", true),
        ("127.0.0.1:8081", true),
        ("[::1]:8081", true),
        ("127.0.0.1", true),
        ("hooks.internal", true),
        ("Hooks.Internal:443", true),
        ("evil.example:8081", false),
        ("localhost.evil.example", false),
        ("hooks.internal.evil.example", false),
        ("hooks.internal:80.evil.example", false),
        ("", false),
    ] {
        assert_eq!(guard.is_for_us(&Uri::from_static("/"), &headers(&[("host", host)])), expected, "{host}");
    }
    assert!(!guard.is_for_us(&Uri::from_static("/"), &HeaderMap::new()));
    let mut two = headers(&[("host", "localhost")]);
    assert!(guard.is_for_us(&Uri::from_static("http://localhost:8081/"), &two));
    assert!(!guard.is_for_us(&Uri::from_static("http://evil.example/"), &two), "a target with another name");
    two.append(HOST, HeaderValue::from_static("evil.example"));
    assert!(!guard.is_for_us(&Uri::from_static("/"), &two), "a second Host");
}

#[test]
fn other_sites_are_refused() {
    let check = |method: Method, lines: &[(&str, &str)], expected: bool| {
        let lines = [&[("host", "127.0.0.1:8081")], lines].concat();
        let guard = guard(None, None, "127.0.0.1:8081");
        let mut request = Request::default();
        (*request.method_mut(), *request.headers_mut()) = (method.clone(), headers(&lines));
        assert_eq!(refuse_site(&guard, &request).is_none(), expected, "{method} {lines:?}");
    };
    check(Method::POST, &[], true);
    check(Method::POST, &[("origin", "http://127.0.0.1:8081")], true);
    check(Method::POST, &[("origin", "http://127.0.0.1:9999")], false);
    check(Method::POST, &[("origin", "http://evil.example")], false);
    check(Method::POST, &[("origin", "null")], false);
    check(Method::GET, &[("origin", "http://evil.example")], false);
    check(Method::POST, &[("sec-fetch-site", "same-origin")], true);
    check(Method::POST, &[("sec-fetch-site", "none")], true);
    check(Method::POST, &[("sec-fetch-site", "same-site")], false);
    check(Method::POST, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], false);
    check(Method::GET, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], false);
    check(Method::GET, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true);
}

#[test]
fn tokens_give_roles() {
    let guard = guard(Some("op"), Some("view"), "0.0.0.0:8081");
    for (given, expected) in [
        ("Bearer op", Some(Role::Operator)),
        ("Bearer view", Some(Role::Viewer)),
        ("bearer op", Some(Role::Operator)),
        ("BEARER view", Some(Role::Viewer)),
        ("Bearer o", None),
        ("Bearer opp", None),
        ("Bearer ", None),
        ("op", None),
        ("Basic op", None),
    ] {
        let caller = guard.caller(&headers(&[("authorization", given)]));
        assert_eq!(caller.map(|caller| caller.role), expected, "{given}");
    }
    assert_eq!(guard.caller(&HeaderMap::new()), None);
}

#[test]
fn without_tokens_everybody_here_is_the_operator() {
    let guard = guard(None, None, "127.0.0.1:8081");
    let caller = guard.caller(&HeaderMap::new()).expect("open");
    assert_eq!(caller.role, Role::Operator);
    assert!(caller.wrote(caller.form_token()) && !caller.wrote(None) && !caller.wrote(Some("x")));
    assert!(matches!(guard.log_in([127, 0, 0, 1].into(), b"", Channel::Plain), Err(LoginRefusal::NotNeeded)));
}

#[test]
fn a_session_ends_with_its_token() {
    let guard = guard(Some("op"), Some("view"), "127.0.0.1:8081");
    let peer = IpAddr::from([127, 0, 0, 1]);
    let opened = guard.log_in(peer, b"view", Channel::Plain).expect("a session");
    let cookie = cookie_of(&opened);
    let found = |lines: &[(&str, &str)]| guard.caller(&headers(lines)).map(|caller| caller.role);
    assert_eq!(found(&[("cookie", &cookie)]), Some(Role::Viewer));
    assert_eq!(found(&[("cookie", &cookie), ("authorization", "Bearer wrong")]), None);
    guard.replace(access(Some("other"), Some("view")));
    assert_eq!(found(&[("cookie", &cookie)]), Some(Role::Viewer), "its own token stayed");
    guard.replace(access(Some("other"), Some("changed")));
    assert_eq!(found(&[("cookie", &cookie)]), None);
    guard.replace(access(Some("other"), None));
    assert_eq!(found(&[("cookie", &cookie)]), None);
}

#[test]
fn guessing_is_slow() {
    let guard = guard(Some("op"), None, "127.0.0.1:8081");
    let peer = IpAddr::from([10, 0, 0, 1]);
    let tries = (0..50).map(|_| guard.log_in(peer, b"wrong", Channel::Plain));
    let refused = tries.filter(|tried| matches!(tried, Err(LoginRefusal::TooOften(_)))).count();
    assert_eq!(refused, 40);
    assert!(matches!(guard.log_in(peer, b"op", Channel::Plain), Err(LoginRefusal::TooOften(_))), "nor by luck");
    assert!(guard.log_in([10, 0, 0, 2].into(), b"op", Channel::Plain).is_ok());
}

#[test]
fn other_machines_need_a_token_after_a_reload_too() {
    for (address, operator, expected) in
        [("0.0.0.0:1", None, true), ("0.0.0.0:1", Some("t"), false), ("127.0.0.1:1", None, false)]
    {
        let guard = guard(Some("t"), None, address);
        assert_eq!(guard.would_be_open(&access(operator, Some("v"))), expected, "{address} {operator:?}");
    }
}

#[test]
fn targets_are_encoded() {
    assert_eq!(form_encoded("/events?type=a*&x=1"), "/events%3Ftype%3Da%2A%26x%3D1");
}

#[test]
fn a_consumer_is_nobody_else() {
    for guard in [guard(Some("op"), Some("view"), "0.0.0.0:8081"), guard(None, None, "127.0.0.1:8081")] {
        let shown = |token: &str| headers(&[("authorization", &format!("Bearer {token}"))]);
        let billing = Consumer { handler: "billing".to_owned() };
        assert_eq!(guard.consumer(&shown("consumer")), Some(billing));
        assert_eq!(guard.caller(&shown("consumer")), None, "neither an operator nor a viewer");
        for other in ["op", "view", "consume", ""] {
            assert_eq!(guard.consumer(&shown(other)), None, "{other}");
        }
        assert_eq!(guard.consumer(&HeaderMap::new()), None);
    }
}

#[test]
fn behind_a_proxy_nobody_is_local() {
    let check = |peer: &str, lines: &[(&str, &str)], trusted: usize, expected: bool| {
        let found = is_local(peer.parse().expect("an address"), &headers(lines), trusted);
        assert_eq!(found, expected, "{peer} {lines:?} {trusted}");
    };
    check("127.0.0.1", &[], 0, true);
    check("::1", &[], 1, true);
    check("192.0.2.1", &[], 0, false);
    check("127.0.0.1", &[("x-forwarded-for", "203.0.113.9")], 0, false);
    check("127.0.0.1", &[("x-forwarded-for", "203.0.113.9")], 1, false);
    check("127.0.0.1", &[("x-forwarded-for", "127.0.0.1")], 1, true);
    check("127.0.0.1", &[("x-forwarded-for", "127.0.0.1")], 0, false);
    check("127.0.0.1", &[("x-forwarded-for", "nonsense")], 1, false);
    check("127.0.0.1", &[("via", "1.1 proxy")], 1, false);
    check("192.0.2.1", &[("x-forwarded-for", "127.0.0.1")], 1, false);
}

#[test]
fn without_tokens_nothing_that_a_proxy_forwards_is_let_in() {
    for (operator, expected) in [(None, true), (Some("op"), false)] {
        let guard = guard(operator, None, "127.0.0.1:8081");
        for name in ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-host"] {
            let mut request = Request::default();
            *request.headers_mut() = headers(&[("host", "127.0.0.1:8081"), (name, "x")]);
            assert_eq!(refuse_site(&guard, &request).is_some(), expected, "{name}");
        }
    }
}

#[test]
fn what_a_caller_says_stands_apart_from_what_is_known() {
    let guard = guard(Some("op"), None, "127.0.0.1:8081");
    let caller = guard.caller(&headers(&[("authorization", "Bearer op")])).expect("an operator");
    let teller = Teller::new(&caller, "203.0.113.9".parse().expect("an address"));
    assert_eq!(teller.says(None), "operator (admin_token) from 203.0.113.9");
    let forged = teller.says(Some("bob\" from 192.0.2.1"));
    assert_eq!(forged, r#"operator (admin_token) from 203.0.113.9 as "bob\" from 192.0.2.1""#);
}
