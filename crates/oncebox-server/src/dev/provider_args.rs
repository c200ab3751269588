//! A source from the command line: `PROVIDER`, `--secret`, `--set name=value`.
//!
//! A setting goes where the config would put it: among the provider's settings, or into its description. A value for
//! the description is read as TOML where it is TOML, else taken as text, so that `--set mac=hmac-sha256` needs no
//! quotes.

use oncebox_verify::{Description, Problem, SETTINGS, Secret, SourceSpec};

use crate::cli::values::Setting;
use crate::config::units::parse_duration;
use crate::usage::wrong_usage;

/// Describes a source of this name; every refusal says what to write instead.
pub(crate) fn spec(
    name: &str,
    provider: &str,
    secrets: Vec<Secret>,
    settings: &[Setting],
) -> anyhow::Result<SourceSpec> {
    let Some(mut spec) = SourceSpec::named(name, provider) else {
        let names = oncebox_verify::provider_names().join(", ");
        return Err(wrong_usage(format!("there is no provider {provider:?}; the providers are: {names}")));
    };
    spec.secrets = secrets;
    for setting in settings {
        apply(&mut spec, setting)?;
    }
    Ok(spec)
}

/// Every problem of a source that could not be built, as one refusal.
pub(crate) fn refuse(provider: &str, problems: &[Problem]) -> anyhow::Error {
    let lines: Vec<String> = problems.iter().map(on_the_command_line).collect();
    wrong_usage(format!("{provider}: {}", lines.join("\n")))
}

/// The library speaks of the config's keys; here the same things are options.
fn on_the_command_line(problem: &Problem) -> String {
    let Problem { key, message, cure } = problem;
    match key.as_str() {
        "secrets" => format!("{message}; give it with --secret"),
        key if key.starts_with("secrets[") => format!("--secret: {message}; {cure}"),
        "public_url" => {
            format!("--set {key}: {message}; give it with --set {key}=https://hooks.example.com, as the vendor sees it")
        }
        key if SETTINGS.contains(&key) => format!("--set {key}: {message}; give it with --set {key}=VALUE"),
        key => format!("--set {key}: {message}; {cure}"),
    }
}

fn apply(spec: &mut SourceSpec, setting: &Setting) -> anyhow::Result<()> {
    let name = setting.name.as_str();
    let text = || String::from_utf8_lossy(setting.value.expose()).into_owned();
    if SETTINGS.contains(&name) {
        spec.settings.insert(name.to_owned(), setting.value.clone());
        return Ok(());
    }
    match name {
        "tolerance" => {
            let wrong = || wrong_usage("--set tolerance: write a duration such as 5m");
            spec.tolerance = Some(parse_duration(&text()).ok_or_else(wrong)?);
        }
        "path_token" => spec.path_token = Some(setting.value.clone()),
        _ if Description::KEYS.contains(&name) => {
            let set = spec.description.set(name, &toml_or_text(&text()));
            set.map_err(|problem| {
                wrong_usage(format!("--set {}: {}; {}", problem.key, problem.message, problem.cure))
            })?;
        }
        _ => {
            let known = [SETTINGS, &["tolerance", "path_token"], Description::KEYS].concat().join(", ");
            return Err(wrong_usage(format!("--set does not know {name:?}; it takes {known}")));
        }
    }
    Ok(())
}

fn toml_or_text(text: &str) -> toml::Value {
    let parsed: Option<toml::Table> = format!("value = {text}").parse().ok();
    let value = parsed.and_then(|mut table| if table.len() == 1 { table.remove("value") } else { None });
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use oncebox_verify::Source;

    use super::*;

    fn check(provider: &str, settings: &[(&str, &str)], refusal: Option<&str>) {
        let set = |(name, value): &(&str, &str)| Setting { name: (*name).to_owned(), value: Secret::new(*value) };
        let settings: Vec<Setting> = settings.iter().map(set).collect();
        let built = spec("hook", provider, vec![Secret::new("s3cret")], &settings)
            .and_then(|spec| Source::build(spec).map_err(|wrong| refuse(provider, &wrong.problems)));
        match (built, refusal) {
            (Ok(_), None) => {}
            (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{error}"),
            (found, _) => panic!("{provider} {settings:?}: {found:?}"),
        }
    }

    #[test]
    fn settings_go_where_the_config_puts_them() {
        check("stripe", &[("tolerance", "10m")], None);
        check("twilio", &[("public_url", "https://a.example")], None);
        check("twilio", &[], Some("public_url: this provider signs the URL"));
        check("nobody", &[], Some("the providers are: "));
        check("stripe", &[("colour", "red")], Some("--set does not know \"colour\""));
        check("stripe", &[("tolerance", "5")], Some("write a duration"));
        check("custom", &[("mac", "hmac-sha999")], Some("--set mac"));
        let described = [
            ("mac", "hmac-sha256"),
            ("msg", "{body}"),
            ("sig", "{ header = [\"x-signature\"] }"),
            ("id", "json:/id"),
            ("id_signed", "true"),
        ];
        check("custom", &described, None);
    }

    #[test]
    fn values_are_toml_or_text() {
        for (text, expected) in [
            ("true", toml::Value::Boolean(true)),
            ("\"a\"", toml::Value::String("a".into())),
            ("hmac-sha256", toml::Value::String("hmac-sha256".into())),
            ("json:/id", toml::Value::String("json:/id".into())),
            ("{body}", toml::Value::String("{body}".into())),
            ("1\nmore = 2", toml::Value::String("1\nmore = 2".into())),
        ] {
            assert_eq!(toml_or_text(text), expected, "{text}");
        }
    }
}
