//! The source that captured requests are judged by.
//!
//! A configured source is what it is. One from `--provider` has no name and perhaps no public URL, and for vendors that
//! sign the URL both matter; then the captured URL itself says them.

use oncebox_verify::{Secret, Source, SourceSpec};

use crate::cli::operator::ExplainArgs;
use crate::config::Config;
use crate::config::outside::Overrides;
use crate::config::server::BODY_BYTES_DEFAULT;
use crate::dev::provider_args;
use crate::usage::wrong_usage;

#[derive(Debug)]
pub(super) struct Judge {
    by: By,
    /// The body limit of sources that set none, in bytes.
    pub(super) body_bytes_max: usize,
}

/// Gives the source for each captured URL.
#[derive(Debug)]
enum By {
    /// One source for all.
    Fixed(Box<Source>),
    /// The vendor signs the URL: name and public URL come from the captured one.
    ByUrl(Box<ByUrl>),
}

#[derive(Debug)]
struct ByUrl {
    spec: SourceSpec,
    current: Option<(Place, Source)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// The URL without its query, where it is a full one.
    whole: Option<String>,
    name: Option<String>,
}

impl Judge {
    /// From `--config` and `--source`, or from `--provider` and what belongs to it.
    pub(super) fn from_args(args: &ExplainArgs) -> anyhow::Result<Self> {
        match (&args.source, &args.provider) {
            (Some(name), _) => configured(args, name),
            (None, Some(provider)) => {
                let spec = provider_args::spec(
                    provider,
                    provider,
                    [&args.secrets[..], &args.secret_files, &args.secret_envs].concat(),
                    &args.settings,
                )?;
                Self::from_spec(spec)
            }
            (None, None) => Err(wrong_usage(
                "say what to judge by: --source NAME for a source of the config, or --provider NAME and --secret SECRET \
                 without one",
            )),
        }
    }

    /// A source that no config names.
    pub(super) fn from_spec(spec: SourceSpec) -> anyhow::Result<Self> {
        let mut without_url = spec.clone();
        without_url.settings.remove("public_url");
        let signs_url = match Source::build(without_url) {
            Ok(_) => false,
            Err(wrong) => wrong.problems.iter().any(|problem| problem.key == "public_url"),
        };
        if signs_url {
            // Everything else that is wrong is told now, not at the first line.
            let mut tried = spec.clone();
            tried.settings.entry("public_url".to_owned()).or_insert_with(|| Secret::new("https://example.com"));
            build(tried)?;
            return Ok(Self::new(By::ByUrl(Box::new(ByUrl { spec, current: None }))));
        }
        Ok(Self::new(By::Fixed(Box::new(build(spec)?))))
    }

    fn new(by: By) -> Self {
        Self { by, body_bytes_max: BODY_BYTES_DEFAULT }
    }

    /// The source for a captured URL, and the token that stands behind its name.
    pub(super) fn source_for<'a>(&'a mut self, url: &'a str) -> anyhow::Result<(&'a Source, Option<&'a str>)> {
        let source = match &mut self.by {
            By::Fixed(source) => source,
            By::ByUrl(by_url) => by_url.source_for(url)?,
        };
        Ok((source, token(url, source.name())))
    }
}

impl ByUrl {
    fn source_for(&mut self, url: &str) -> anyhow::Result<&Source> {
        let place = Place::of(url);
        if self.current.as_ref().is_none_or(|(current, _)| *current != place) {
            let mut spec = self.spec.clone();
            if let Some(name) = &place.name {
                spec.name.clone_from(name);
            }
            if let (Some(whole), false) = (&place.whole, spec.settings.contains_key("public_url")) {
                spec.settings.insert("public_url".to_owned(), Secret::new(whole.as_str()));
            }
            self.current = None;
            return Ok(&self.current.insert((place, build(spec)?)).1);
        }
        self.current.as_ref().map(|(_, source)| source).ok_or_else(|| wrong_usage("there is no source"))
    }
}

impl Place {
    fn of(url: &str) -> Self {
        let path = url.split(['?', '#']).next().unwrap_or_default();
        let after = path.split_once("/in/").map(|(_, after)| after);
        let name = after.and_then(|rest| rest.split('/').next()).filter(|name| !name.is_empty());
        let whole = path.contains("://").then(|| path.to_owned());
        Self { whole, name: name.map(str::to_owned) }
    }
}

/// What stands behind `/in/{name}/`, as the public listener reads it.
fn token<'a>(url: &'a str, name: &str) -> Option<&'a str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let (_, rest) = path.split_once("/in/")?;
    rest.strip_prefix(name)?.strip_prefix('/').filter(|token| !token.is_empty() && !token.contains('/'))
}

fn configured(args: &ExplainArgs, name: &str) -> anyhow::Result<Judge> {
    let config = Config::load(&args.config, &Overrides::default())?;
    let names: Vec<&str> = config.sources.iter().map(|source| source.spec().name.as_str()).collect();
    let refuse = || {
        let file = args.config.display();
        wrong_usage(format!("{file} has no source {name:?}; its sources are: {}", names.join(", ")))
    };
    let source = config.sources.iter().find(|source| source.spec().name == name).ok_or_else(refuse)?;
    let by = By::Fixed(Box::new(build(source.spec().clone())?));
    Ok(Judge { by, body_bytes_max: config.server.body_limit })
}

fn build(spec: SourceSpec) -> anyhow::Result<Source> {
    let provider = spec.provider.clone();
    Source::build(spec).map_err(|wrong| provider_args::refuse(&provider, &wrong.problems))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_itself_and_a_name() {
        for (url, whole, name) in [
            ("/in/sms", None, Some("sms")),
            ("/in/sms/tok?x=/in/y", None, Some("sms")),
            ("https://a.example/hooks/in/sms?x=1", Some("https://a.example/hooks/in/sms"), Some("sms")),
            ("https://a.example/other", Some("https://a.example/other"), None),
            ("/", None, None),
            ("", None, None),
        ] {
            let place = Place::of(url);
            assert_eq!((place.whole.as_deref(), place.name.as_deref()), (whole, name), "{url}");
        }
    }

    #[test]
    fn tokens() {
        for (url, expected) in [
            ("/in/pay/tok", Some("tok")),
            ("https://a/in/pay/tok?x", Some("tok")),
            ("/in/pay", None),
            ("/in/pay/", None),
            ("/in/payment/tok", None),
            ("/hook", None),
        ] {
            assert_eq!(token(url, "pay"), expected, "{url}");
        }
    }
}
