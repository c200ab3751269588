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
        "oncebox replay --handler h --waiting",
        "oncebox replay --destination d --waiting --yes",
        "oncebox backfill --handler h --since 30d --until 2026-11-15 --source s --type a.* --yes",
        "oncebox release KEY -y --database sqlite:x.db",
        "oncebox discard --handler h",
        "oncebox forget --source s",
        "oncebox reconcile --source s --against select_1 --handler h --requeue --action-id a --yes",
        "oncebox reconcile --source s --ids - --requeue",
        "oncebox pause h",
        "oncebox resume h --admin-url http://127.0.0.1:8081",
        "oncebox actions --json",
        "oncebox retention --json",
        "oncebox retention run --database sqlite:x.db",
        "oncebox retention confirm",
        "oncebox alert test --config x.toml --json",
        "oncebox bench --connections 8 --seconds 1 --body-size 2KiB --rounds 2 --json",
        "oncebox bench --to http://x --secret s --duplicates 0.5",
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
        ("oncebox reconcile --source s --against q --ids f", ErrorKind::ArgumentConflict),
        ("oncebox backfill --handler h", ErrorKind::MissingRequiredArgument),
        ("oncebox backfill --since 1d", ErrorKind::MissingRequiredArgument),
        // What a command would refuse is not offered.
        ("oncebox release --destination d", ErrorKind::UnknownArgument),
        ("oncebox forget --message m", ErrorKind::UnknownArgument),
        ("oncebox forget --handler h", ErrorKind::UnknownArgument),
        ("oncebox held --handler h", ErrorKind::UnknownArgument),
        ("oncebox pause", ErrorKind::MissingRequiredArgument),
        ("oncebox tail --state dead", ErrorKind::InvalidValue),
        ("oncebox replay --since yesterday", ErrorKind::ValueValidation),
        ("oncebox events --limit 1001", ErrorKind::ValueValidation),
        ("oncebox bench --duplicates 1.5", ErrorKind::ValueValidation),
        ("oncebox bench --to http://x --database sqlite:x", ErrorKind::ArgumentConflict),
        ("oncebox bench --secret s", ErrorKind::MissingRequiredArgument),
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

#[test]
fn every_command_that_we_print_is_one() {
    let mut lines = Vec::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("a file").path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md")).chain([root.join("README.md")]);
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page").replace("\\\n", " ");
        let text = text.replace("\"$RESTORED_URL\"", "postgres://h/d");
        let name = page.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let shown = text.lines().filter_map(of_line).chain(text.split('`').filter(|part| part.starts_with("oncebox ")));
        lines.extend(shown.map(|line| (name.clone(), line.to_owned())));
    }
    for command in Cli::command().get_subcommands_mut() {
        let help = command.render_long_help().to_string();
        lines.extend(
            help.lines().filter_map(of_line).map(|line| (format!("{} --help", command.get_name()), line.to_owned())),
        );
    }
    let (mut wrong, mut times) = (Vec::new(), 0);
    for (place, line) in &lines {
        let words = words(line);
        // A command that is only named, and one with a gap to be filled in.
        if let [_, name] = words.as_slice() {
            assert!(Cli::command().find_subcommand(name).is_some(), "{place}: {line}");
            continue;
        }
        if words.iter().any(|word| word == "…") {
            continue;
        }
        times += words.iter().filter(|word| matches!(word.as_str(), "--since" | "--until" | "--age")).count();
        match Cli::try_parse_from(&words) {
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {}
            Err(error) => wrong.push(format!("{place}: {line}\n  {words:?}\n  {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(lines.len() > 80 && times > 12, "{} lines with {times} times were found", lines.len());
}

/// The command of a line in a block of commands, without what is said about it.
fn of_line(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let begin = line.split_whitespace().position(|word| !word.contains('=') || word.starts_with('-'))?;
    let rest = line.split_whitespace().nth(begin).and_then(|word| line.find(word).map(|at| &line[at..]))?;
    let rest = rest.strip_prefix("target/release/").unwrap_or(rest);
    (rest.starts_with("oncebox ") && !rest.starts_with("oncebox =")).then(|| rest.split("  ").next().unwrap_or(rest))
}

/// The words of a command as a shell would pass them, up to a comment, a pipe or a redirection.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '#' | '|' | '>' | '<' | '&' | ';') if word.is_none() => break,
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn help_is_not_wrapped_twice() {
    // As wide as help is printed where nobody says how wide the terminal is.
    const COLUMNS: usize = 100;
    for command in Cli::command().get_subcommands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        // A sample of a request has no place to break.
        for line in help.lines().filter(|line| !line.starts_with("  {")) {
            assert!(line.chars().count() <= COLUMNS, "{} --help: {line}", command.get_name());
        }
    }
}
