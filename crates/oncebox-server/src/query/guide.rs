//! A catalogue entry in words: for the terminal, and as Markdown for `docs/providers.md`.

use oncebox_verify::{Description, Facts};

use crate::config::units::show_duration;

const HEAD: &str = "\
# Providers

What each sender of the catalogue signs, what makes two of its requests one event, and what to click. This page is
written by `oncebox providers --markdown`; a test compares it with the catalogue. `oncebox send NAME` sends a signed
sample of any of them to a running `oncebox dev`.

How sure we are stands at each entry, as three letters for authentication, id and retries: **S** read in the vendor's
source, **D** official documentation, **T** a third party's page, **M** from memory: check it before you rely on it.

Every key of an entry can be overridden in the source's table; [custom.md](custom.md) explains them.
";

pub(crate) fn whole() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(
        "\n| provider | vendor | an event is | retries for | answer within | sure |\n|---|---|---|---|---|---|\n",
    );
    let described = |name: &'static str| Description::named(name).map(|description| (name, description));
    let all: Vec<(&str, Description)> = oncebox_verify::provider_names().into_iter().filter_map(described).collect();
    for (name, description) in &all {
        let facts = description.facts();
        let cells = [
            format!("[`{name}`](#{name})"),
            facts.title.to_owned(),
            facts.identity.clone(),
            duration(facts.retry_window),
            duration(facts.deadline),
            facts.confidence.to_owned(),
        ];
        page.push_str(&format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | ")));
    }
    for (name, description) in &all {
        let facts = description.facts();
        page.push_str(&format!("\n## {name}\n\n**{}.** {}\n\n", facts.title, facts.setup));
        for (label, text) in lines(&facts) {
            page.push_str(&format!("- {label}: {text}\n"));
        }
    }
    page
}

pub(crate) fn entry_for_people(name: &str, description: &Description) -> String {
    let facts = description.facts();
    let mut text = format!("{name}: {}\n\n{}\n\n", facts.title, facts.setup);
    let lines = lines_in_words(&facts);
    let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or_default();
    for (label, line) in &lines {
        text.push_str(&format!("{label:width$}  {line}\n"));
    }
    text.push_str(&format!(
        "\nIn oncebox.toml:\n\n{}",
        config(name, name, description, description.needs_path_token())
    ));
    text
}

/// What to write into the config for a source of this name.
pub(crate) fn config(name: &str, provider: &str, description: &Description, has_path_token: bool) -> String {
    let mut text = format!("[[source]]\nname = \"{name}\"\nprovider = \"{provider}\"");
    let variable = name.to_uppercase().replace(['-', '.'], "_");
    if has_path_token {
        text.push_str(&format!("\npath_token = {{ env = \"{variable}_TOKEN\" }}"));
    }
    if !description.brings_secret() && !description.needs_path_token() {
        text.push_str(&format!("\nsecrets = [{{ env = \"{variable}_SECRET\" }}]"));
    }
    if provider == "custom" {
        text.push_str("\n# and how it signs: docs/custom.md");
    }
    for setting in description.facts().settings {
        text.push_str(&format!("\n{setting} = \"…\""));
    }
    if description.brings_secret() {
        text.push_str(&format!(
            "\n\n[store]\nsecret_key = {{ env = \"ONCEBOX_SECRET_KEY\" }}   # what the secret is kept encrypted with\n\n\
             There is no secret to copy: it comes with the first request, and is taken only after\n\n  oncebox arm {name} --wait"
        ));
    }
    text
}

/// What people want to know, as labels and texts.
pub(crate) fn lines(facts: &Facts<'_>) -> Vec<(&'static str, String)> {
    let where_so = |is_so: bool, text: &str| if is_so { text.to_owned() } else { String::new() };
    let covered = where_so(facts.not_covered.is_empty(), "nothing of body, id, type and time");
    let lines = [
        ("secret", facts.secret_hint.to_owned()),
        ("settings", facts.settings.join(", ")),
        ("signature", facts.signature.clone()),
        ("an event is", facts.identity.clone()),
        ("its type", facts.event_type.clone()),
        ("batches", where_so(facts.batch, "one request may carry many events; each is stored on its own")),
        ("retries", where_so(facts.body_varies, "may change the body, so the id alone decides")),
        ("order", facts.order.clone().unwrap_or_default()),
        ("not covered", covered + &facts.not_covered.join("; ")),
        ("still open", facts.open.to_owned()),
        ("handshakes", facts.handshakes.join("; ")),
        ("retries for", duration(facts.retry_window)),
        ("answer within", duration(facts.deadline)),
        ("sure", facts.confidence.to_owned()),
        ("docs", facts.docs.to_owned()),
    ];
    // Only `custom` does not say what an event is, and that is to be seen.
    lines.into_iter().filter(|(label, text)| !text.is_empty() || *label == "an event is").collect()
}

/// The same for readers who were not told what the letters mean.
pub(crate) fn lines_in_words(facts: &Facts<'_>) -> Vec<(&'static str, String)> {
    let line = |(label, text): (&'static str, String)| match label {
        "sure" => ("known from", sure(&text)),
        _ => (label, text),
    };
    lines(facts).into_iter().map(line).collect()
}

/// How sure we are, for three letters.
fn sure(letters: &str) -> String {
    let from = |letter: &str| match letter {
        "S" => "the vendor's source",
        "D" => "the vendor's documentation",
        "T" => "a third party's page",
        _ => "memory",
    };
    let about = ["authentication", "id", "retries"].into_iter().zip(letters.split('/'));
    let sentence = about.map(|(what, letter)| format!("{what}: {}", from(letter))).collect::<Vec<_>>().join("; ");
    let warning = if letters.contains('M') { " (check what is from memory before you rely on it)" } else { "" };
    format!("{sentence}{warning}")
}

/// How long, in the words of list and page.
pub(crate) fn duration(duration: Option<std::time::Duration>) -> String {
    match duration {
        None => "not known".to_owned(),
        Some(duration) if duration.is_zero() => "does not".to_owned(),
        Some(duration) => show_duration(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_explained() {
        let page = include_str!("../../../../docs/custom.md");
        let missing: Vec<_> = Description::KEYS.iter().filter(|key| !page.contains(&format!("`{key}`"))).collect();
        assert!(missing.is_empty(), "docs/custom.md does not mention {missing:?}");
    }

    #[test]
    fn a_secret_that_arrives_is_armed_for_and_not_configured() {
        for (name, configured) in [("asana", false), ("notion", false), ("stripe", true)] {
            let text = entry_for_people(name, &Description::named(name).expect("a provider"));
            assert_eq!(text.contains("secrets = ["), configured, "{text}");
            assert_eq!(text.contains(&format!("oncebox arm {name} --wait")), !configured, "{text}");
        }
    }

    #[test]
    fn the_page_is_as_new_as_the_catalogue() {
        let page = include_str!("../../../../docs/providers.md");
        assert!(
            page == whole(),
            "docs/providers.md is stale: run `cargo run -- providers --markdown > docs/providers.md`"
        );
    }
}
