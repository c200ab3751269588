//! Handlers and destinations, right and wrong.

use super::*;

#[test]
fn handlers() {
    let handler = |rest: &str| format!("[[handler]]\nname = 'h'\n{rest}");
    for (rest, expected) in [
        ("", "1:1: handler.h: has none of sql, http and pull; keep exactly one"),
        ("pull = true\nsql = 'x'", "1:1: handler.h: has more than one of sql, http and pull; keep exactly one"),
        ("pull = false", "3:1: handler.h.pull: can only be true; write pull = true, or remove it"),
        ("sql = ' '", "3:1: handler.h.sql: is blank; write a statement, or use http or pull"),
        (
            "sql = 'commit'",
            "3:1: handler.h.sql: COMMIT cannot be used: the effect is one transaction with its mark; correct the statement",
        ),
        (
            "sql = 'select :evnt_id'",
            "3:1: handler.h.sql: :evnt_id in line 1, column 8 of the SQL cannot be bound; did you mean :event_id?",
        ),
        (
            "http = { url = 'http://[fe80::1]/' }",
            "3:10: handler.h.http.url: leads to a link-local or cloud-metadata address, which is never called; write another host, or allow = [\"fe80::1\"] beside it if that is meant",
        ),
        ("pull = true\nsources = []", "4:1: handler.h.sources: is empty; name a source, or remove the key to take all"),
        (
            "pull = true\ntypes = ['[a]']",
            "4:10: handler.h.types[0]: is not a pattern of plain characters, * and ?; write a pattern of plain characters, * and ? such as \"invoice.*\"",
        ),
        ("http = { url = 'ftp://x' }", "3:10: handler.h.http.url: is neither http nor https; write https://…"),
        (
            "http = { url = 'http://u:hunter2@x' }",
            "3:10: handler.h.http.url: holds a user name or password; send it as a header instead",
        ),
        (
            "http = { url = 'http://x', timeout = '5s' }\nlease = '5s'",
            "3:28: handler.h.http.timeout: is not shorter than the handler's lease; write a shorter timeout or a longer lease",
        ),
        (
            "pull = true\nretry = { attempts = 0 }",
            "4:11: handler.h.retry.attempts: is out of range; write a value from 1 to 1000",
        ),
        (
            "pull = true\nretry = { base = '2h', cap = '1h' }",
            "4:11: handler.h.retry.base: is longer than cap; write a shorter base or a longer cap",
        ),
        (
            "pull = true\norder = { key = 'id', rule = 'serial' }",
            "4:11: handler.h.order.key: is not a JSON pointer; write a JSON pointer such as \"/data/object/id\"",
        ),
        (
            "pull = true\norder = { key = '/id', rule = 'latest' }",
            "4:1: handler.h.order: version is missing; write version = \"/created\"",
        ),
        (
            "pull = true\norder = { key = '/id' }",
            "4:1: handler.h.order: rule is missing; write rule = \"latest\" or rule = \"serial\"",
        ),
        (
            "sql = 'select 1'\nonce_per = { fields = [] }",
            "4:14: handler.h.once_per.fields: is empty; name at least one field",
        ),
    ] {
        check(&handler(rest), expected);
    }
    let config = good(&handler("http = { url = 'http://x' }\nlease = '1s'"));
    let plain = |config: &Config| config.warnings.iter().any(|warning| warning.contains("as plain text"));
    let warned = |url: &str| plain(&good(&handler(&format!("http = {{ url = '{url}' }}"))));
    let quiet = ["https://x", "http://localhost:3000", "http://127.0.0.1:3000", "http://[::1]:3000"];
    assert!(plain(&config) && !quiet.into_iter().any(warned));
    assert!(matches!(&config.handlers[0].kind, HandlerKind::Http(http) if http.timeout.as_millis() == 500));
    good(&handler("http = { url = 'http://169.254.169.254/', allow = ['169.254.0.0/16'] }"));
    good(&handler("sql = \"insert into t values (:event_id); delete from u where id = :key\""));
}

#[test]
fn a_pointer_deeper_than_bodies_are_read_is_refused_at_its_place() {
    let deep = "/a".repeat(17);
    check(
        &format!("[[handler]]\nname = 'h'\npull = true\norder = {{ key = '{deep}', rule = 'serial' }}"),
        "4:11: handler.h.order.key: is not a JSON pointer; write a JSON pointer such as \"/data/object/id\"",
    );
}

#[test]
fn destinations() {
    let destination = |rest: &str| format!("[[destination]]\nname = 'crm'\nurl = 'https://crm.example.com/'\n{rest}");
    for (rest, expected) in [
        ("rate = '50'", "4:1: destination.crm.rate: is not a rate; write a rate such as \"50/s\" or \"100/m\""),
        ("retry_on = [200]", "4:13: destination.crm.retry_on[0]: is out of range; write a value from 400 to 599"),
        (
            "allow = ['all']",
            "4:10: destination.crm.allow[0]: is not an address range; write an address range such as \"169.254.0.0/16\"",
        ),
        ("order = 'kye'", "4:1: destination.crm.order: \"kye\" is not a word for it; did you mean key?"),
        (
            "headers = { host = 'x' }",
            "4:13: destination.crm.headers.host: is a header that we set ourselves; remove it",
        ),
        (
            "headers = { a = \"hunter\\n2\" }",
            "4:13: destination.crm.headers.a: holds a line break, which no header can carry; write the value on one line",
        ),
    ] {
        check(&destination(rest), expected);
    }
}

#[test]
fn a_pull_handler_takes_no_rule_that_nobody_judges() {
    let handler = |kind: &str, rule: &str| format!("{SOURCE}[[handler]]\nname = 'h'\n{kind}\n{rule}\n");
    let latest = "order = { key = '/id', version = '/v', rule = 'latest' }";
    let serial = "order = { key = '/id', rule = 'serial' }";
    let wait_for = "wait_for = { type = 't', key = '/a', on = '/b' }";
    let once_per = "once_per = { fields = ['/a'] }";
    for rule in [latest, wait_for, once_per] {
        let told = lines(&handler("pull = true", rule));
        assert!(told.len() == 1 && told[0].contains("is not judged for a pull handler"), "{rule}: {told:?}");
        good(&handler("sql = 'select 1'", rule));
    }
    good(&handler("pull = true", serial));
}
