//! Secrets and tokens: how they are written, and what is said about those that are not.

use super::*;

#[test]
fn secrets() {
    let form = "write { env = \"NAME\" }, { file = \"path\" } or { value = \"…\" }";
    for (secret, expected) in [
        ("'hunter2'", format!("is not written as a secret; {form}")),
        ("{}", format!("needs exactly one of env, file and value; {form}")),
        ("{ env = 'A', value = 'hunter2' }", format!("needs exactly one of env, file and value; {form}")),
        ("{ env = 'BLANK' }", "environment variable BLANK is blank; set it".to_owned()),
        (
            "{ env = 'hunter2=' }",
            "environment variable named here is not set; set it, or use { file = \"…\" }".to_owned(),
        ),
        ("{ file = 'none' }", "file \"none\" does not exist; create it".to_owned()),
        ("{ file = 'blank' }", "file \"blank\" is blank; put the secret into it".to_owned()),
        ("{ value = ' ' }", "is blank; write the value, or remove the key".to_owned()),
    ] {
        check(&format!("[store]\nsecret_key = {secret}"), &format!("2:1: store.secret_key: {expected}"));
    }
    let config = good("[server]\nadmin_token = { file = 'good' }\nviewer_token = { env = 'A_LONG_NAME' }");
    assert_eq!(config.server.admin_token.map(|token| token.expose().to_vec()), Some(b"from a file, 16 long".to_vec()));
    assert_eq!(config.server.viewer_token.map(|token| token.expose().to_vec()), Some(b"value-of-A_LONG_NAME".to_vec()));
}

#[test]
fn a_blank_token_counts_as_none() {
    let config = good(&format!("{SOURCE}[server]\nadmin_token = {{ env = 'BLANK' }}\nviewer_token = {{ value = '' }}"));
    assert!(config.server.admin_token.is_none() && config.server.viewer_token.is_none());
    assert_eq!(
        config.warnings,
        [
            "server.admin_token: environment variable BLANK is blank: there is no such token",
            "server.viewer_token: is blank: there is no such token",
        ]
    );
    let open = lines("[server]\nadmin_listen = '0.0.0.0:81'\nadmin_token = { env = 'BLANK' }");
    assert!(
        open.len() == 1 && open[0].contains("0.0.0.0:81 is reachable from other machines and needs a token"),
        "{open:?}"
    );
}

#[test]
fn a_source_without_a_good_name_is_judged_all_the_same() {
    let missing = "secrets: there is no secret; add secrets = [{ env = \"NAME\" }]";
    for (name, path) in [("", "source[0]"), ("name = 'No Name'\n", "source[0]"), ("name = 'Stripe'\n", "source.Stripe")]
    {
        let found = lines(&format!("[[source]]\n{name}provider = 'stripe'\n"));
        assert!(found.len() == 2 && found.iter().any(|line| line.ends_with(&format!("{path}.{missing}"))), "{found:?}");
    }
}

#[test]
fn secrets_are_counted_as_they_are_written() {
    let found = lines(
        "[[source]]\nname = 'a'\nprovider = 'svix'\n\
         secrets = [{ env = 'UNSET' }, { value = 'whsec_not base64' }, { value = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' }]",
    );
    let told = |what: &str| found.iter().any(|line| line.contains(what));
    assert!(told("source.a.secrets[0]: environment variable UNSET is not set"), "{found:?}");
    assert!(told("source.a.secrets[1]: the secret does not have the form"), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_short_token_is_refused() {
    let source = "[[source]]\nname = 'a'\nprovider = 'mailchimp'\n";
    let handler = "[[handler]]\nname = 'h'\npull = true\n";
    for (before, key) in
        [("[server]\n", "admin_token"), ("[server]\n", "viewer_token"), (source, "path_token"), (handler, "token")]
    {
        let text = |token: &str| format!("{before}{key} = {{ value = '{token}' }}");
        let problems = lines(&text("0123456789abcde"));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(
            problems[0].contains(key) && problems[0].contains("has fewer than 16 characters; make one with"),
            "{problems:?}"
        );
        good(&text("0123456789abcdef"));
    }
    let wrong = lines("[[handler]]\nname = 'h'\nsql = 'select 1'\ntoken = { value = '0123456789abcdef' }");
    assert!(wrong.len() == 1 && wrong[0].contains("is for consumers"), "{wrong:?}");
}

#[test]
fn each_handler_has_a_token_of_its_own() {
    let (first, second) = ("{ value = '0123456789abcdef' }", "{ value = 'fedcba9876543210' }");
    let text = |admin: &str, one: &str, other: &str| {
        format!(
            "{SOURCE}[server]\nadmin_token = {admin}\n[[handler]]\nname = 'a'\npull = true\ntoken = {one}\n\
             [[handler]]\nname = 'b'\npull = true\ntoken = {other}\n"
        )
    };
    for (text, path) in [(text(first, first, second), "handler.a"), (text("{ value = '' }", first, first), "handler.b")]
    {
        let found = lines(&text);
        let expected =
            format!("{path}.token: is the token of somebody else, too; give each handler a token of its own");
        assert!(found.len() == 1 && found[0].ends_with(&expected), "{found:?}");
    }
    assert_eq!(good(&text("{ value = 'another token of 16' }", first, second)).warnings, [""; 0]);
    let warnings = good(&text("{ value = '' }", first, second)).warnings;
    let told = warnings.iter().filter(|one| one.contains("without server.admin_token"));
    assert_eq!(told.count(), 2, "{warnings:?}");
}

#[test]
fn a_token_in_the_url_in_place_of_a_signature_takes_a_word() {
    let source = "[[source]]\nname = 'a'\nprovider = 'stripe'\npath_token = { value = '0123456789abcdef' }\n";
    let problems = lines(source);
    assert!(problems.len() == 1 && problems[0].contains("add secrets, or verify = \"path_token\""), "{problems:?}");
    let config = good(&format!("{source}verify = 'path_token'"));
    assert!(
        config.warnings.iter().any(|one| one.contains("takes the token in its URL for a signature")),
        "{:?}",
        config.warnings
    );
    // Both are checked.
    assert!(good(&format!("{source}secrets = [{{ value = 's' }}]")).warnings.is_empty());
    // Nothing else could be.
    good("[[source]]\nname = 'a'\nprovider = 'mailchimp'\npath_token = { value = '0123456789abcdef' }");
    let alone =
        lines("[[source]]\nname = 'a'\nprovider = 'stripe'\nsecrets = [{ value = 's' }]\nverify = 'path_token'");
    assert!(alone.iter().any(|one| one.contains("means the token in the URL alone")), "{alone:?}");
}

#[test]
fn the_development_key_is_nobodys_secret() {
    let key = crate::config::secrets::public_development_key();
    let settings = "topic_arn = 'arn:aws:sns:eu-central-1:1:a'";
    check(
        &format!("[[source]]\nname = 'a'\nprovider = 'aws-sns'\n{settings}\nsecrets = [{{ value = '{key}' }}]"),
        "5:12: source.a.secrets[0]: is the development key, which everybody can read; give the vendor's certificate or public key",
    );
}
