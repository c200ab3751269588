//! `oncebox explain` over hundreds of captures of every provider, good and spoilt: verdict, ids and types.

use std::fs;

use serde_json::Value;
use testkit::oracle::generate::{Line, lines};
use testkit::oracle::{Case, Expected, Place, QUERY_FIELD, cases};
use testkit::program::run;

const BIN: &str = env!("CARGO_BIN_EXE_oncebox");
const LINES: usize = 300;

#[test]
fn every_provider_over_hundreds_of_captures() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut failures = Vec::new();
    // A path token and a description are parts of a config, not of a command line.
    for case in cases().iter().filter(|case| case.place != Place::Path && case.description.is_empty()) {
        let lines = lines(case, LINES);
        let file = folder.path().join("captures.jsonl");
        let known = oncebox_verify::Description::named(case.slug);
        let field = known.as_ref().and_then(|known| known.credential_query()).unwrap_or_default();
        let text: Vec<String> = lines.iter().map(|line| line.json.replace(QUERY_FIELD, field)).collect();
        fs::write(&file, text.join("\n")).expect("written");
        failures.extend(explain(case, &lines, folder.path()).err());
    }
    assert!(failures.is_empty(), "{} providers disagree:\n{}", failures.len(), failures.join("\n"));
}

fn explain(case: &Case, lines: &[Line], folder: &std::path::Path) -> Result<(), String> {
    // With `=`, because a key in PEM begins like an option.
    let mut args = vec![
        "explain".to_owned(),
        "--json".into(),
        "--provider".into(),
        case.slug.into(),
        format!("--secret={}", case.secret),
    ];
    for (name, value) in &case.settings {
        args.extend(["--set".to_owned(), format!("{name}={value}")]);
    }
    args.push("captures.jsonl".to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = run(BIN, &args, &[], folder);
    if output.status == Some(2) {
        return Err(format!("{}: {}", case.name(), output.stderr.lines().next().unwrap_or_default()));
    }
    let verdicts: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    if verdicts.len() != lines.len() {
        return Err(format!("{}: {} answers for {} lines", case.name(), verdicts.len(), lines.len()));
    }
    for (position, (line, verdict)) in lines.iter().zip(&verdicts).enumerate() {
        if !agrees(line, verdict) {
            return Err(format!(
                "{} line {}, {}: {verdict}, not {:?}",
                case.name(),
                position + 1,
                line.how,
                line.expected
            ));
        }
    }
    Ok(())
}

fn agrees(line: &Line, verdict: &Value) -> bool {
    let word = verdict["verdict"].as_str().unwrap_or_default();
    let Some(expected) = &line.expected else { return word == "reject" };
    let found = verdict["events"].as_array().map_or(&[][..], Vec::as_slice);
    word == "accept"
        && found.len() == expected.len()
        && expected.iter().zip(found).all(|(expected, found)| event_agrees(expected, found))
}

fn event_agrees(expected: &Expected, found: &Value) -> bool {
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    expected.id.matches(&text("id")) && (expected.types.is_empty() || expected.types.contains(&text("type")))
}
