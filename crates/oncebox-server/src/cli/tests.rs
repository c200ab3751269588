//! The command line as people type it.

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

fn check(line: &str, expected: Result<(), ErrorKind>) {
    let result = Cli::try_parse_from(line.split_whitespace());
    assert_eq!(result.map(|_| ()).map_err(|error| error.kind()), expected, "{line}");
}

#[test]
fn the_definition_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn lines() {
    for line in [
        "oncebox dev",
        "oncebox dev --listen localhost:9000 --admin-listen [::1]:9001 --database sqlite:x.db",
        "oncebox serve --config x.toml --listen 0.0.0.0:80",
        "oncebox check --config x.toml",
        "oncebox migrate --database postgres://h/d",
        "oncebox send stripe --to http://x/ --secret s --type t --id i --copies 5 --concurrency 2 --count 3 --tamper --age 10m --set a=b --json",
        "oncebox events --source s --type a.* --state held --since 1h --until 2026-11-15T12:00:00Z --text x --limit 10 --json",
        "oncebox event stripe/evt_1 --admin-url http://127.0.0.1:8081",
        "oncebox explain --config x.toml --source s f.jsonl",
        "oncebox explain --provider p --secret a --secret b --set k=v --json -",
        "oncebox status --database sqlite:x.db --log debug",
        "oncebox tail --source s --type a.* --state accepted --json",
        "oncebox dead-letters --handler h --limit 10",
        "oncebox held --source s",
        "oncebox replay stripe/evt_1 --yes",
        "oncebox replay --source s --type a.* --state dead --handler h --since 1h --until 10m --dry-run --action-id a --json",
        "oncebox release KEY -y --database sqlite:x.db",
        "oncebox discard --handler h",
        "oncebox forget --source s",
        "oncebox reconcile --source s --against select_1 --handler h --requeue --action-id a --yes",
        "oncebox pause h",
        "oncebox resume h --admin-url http://127.0.0.1:8081",
        "oncebox actions --json",
        "oncebox retention --json",
        "oncebox retention run --database sqlite:x.db",
        "oncebox retention confirm",
        "oncebox alert test --config x.toml --json",
        "oncebox bench --connections 8 --seconds 1 --body-size 2KiB --rounds 2 --json",
        "oncebox bench --to http://x --secret s --duplicates 0.5",
        "oncebox bench fill --events 10M --payloads 1k --database sqlite:x.db --seed 7 --add --json",
        "oncebox bench growth --rows 20k --small-rows 2k --rounds 5 --database sqlite:x.db",
        "oncebox check --database",
        "oncebox check --config x.toml --database sqlite:x.db --full --json",
        "oncebox check --database --sample 100",
        "oncebox backup --to b.db --force --database sqlite:x.db",
        "oncebox erase --key stripe/evt_1 --yes",
        "oncebox erase --source s --pointer /a/b --value -1 --since 90d --until 1d --dry-run --action-id a --json",
    ] {
        check(line, Ok(()));
    }
}

#[test]
fn wrong_lines() {
    for (line, kind) in [
        ("oncebox", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        ("oncebox --version", ErrorKind::DisplayVersion),
        ("oncebox chekc", ErrorKind::InvalidSubcommand),
        ("oncebox dev --listen nowhere", ErrorKind::ValueValidation),
        ("oncebox send", ErrorKind::MissingRequiredArgument),
        ("oncebox send stripe --copies 0", ErrorKind::ValueValidation),
        ("oncebox explain --source s --provider p f", ErrorKind::ArgumentConflict),
        ("oncebox events --state odd", ErrorKind::InvalidValue),
        ("oncebox reconcile --source s", ErrorKind::MissingRequiredArgument),
        ("oncebox reconcile --source s --against q --action-id a", ErrorKind::MissingRequiredArgument),
        ("oncebox pause", ErrorKind::MissingRequiredArgument),
        ("oncebox tail --state dead", ErrorKind::InvalidValue),
        ("oncebox replay --since yesterday", ErrorKind::ValueValidation),
        ("oncebox events --limit 1001", ErrorKind::ValueValidation),
        ("oncebox bench --duplicates 1.5", ErrorKind::ValueValidation),
        ("oncebox bench --to http://x --database sqlite:x", ErrorKind::ArgumentConflict),
        ("oncebox bench --relay --duplicates 0.5", ErrorKind::ArgumentConflict),
        ("oncebox bench --secret s", ErrorKind::MissingRequiredArgument),
        ("oncebox bench fill", ErrorKind::MissingRequiredArgument),
        ("oncebox bench fill --events 1x", ErrorKind::ValueValidation),
        ("oncebox bench --handling fill --events 1", ErrorKind::ArgumentConflict),
        ("oncebox check --full", ErrorKind::MissingRequiredArgument),
        ("oncebox check --database --full --sample 3", ErrorKind::ArgumentConflict),
        ("oncebox backup", ErrorKind::MissingRequiredArgument),
        ("oncebox erase", ErrorKind::MissingRequiredArgument),
        ("oncebox erase --source s --pointer /a", ErrorKind::MissingRequiredArgument),
        ("oncebox erase --key k --source s --pointer /a --value v", ErrorKind::ArgumentConflict),
    ] {
        check(line, Err(kind));
    }
}

#[test]
fn a_secret_is_never_repeated() {
    for line in ["oncebox migrate --database mysql://u:hunter2@h/d", "oncebox explain --provider p --set hunter2 f"] {
        let error = Cli::try_parse_from(line.split_whitespace()).expect_err(line);
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
    let line = "oncebox serve --database postgres://u:hunter2@h/d --admin-token hunter2";
    let cli = Cli::try_parse_from(line.split_whitespace()).expect(line);
    assert!(!format!("{cli:?}").contains("hunter2"));
}
