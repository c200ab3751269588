//! The config of `oncebox dev`: every provider of the catalogue as a source, one handler that logs, loopback only.

pub(crate) mod provider_args;
pub(crate) mod secrets;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use oncebox::gateway::delivery::routing::Route;
use oncebox_verify::{Description, Secret, Source, SourceSpec};

use crate::config::Config;
use crate::config::handler::{HandlerConfig, HandlerKind};
use crate::config::outside::{Outside, Overrides};
use crate::config::source::SourceConfig;
use crate::config::store::StoreUrl;
use crate::dev::secrets::{DevSecrets, STORE_KEY, verify_token_name};

/// The slugs that become sources: all but `custom`, which describes nothing by itself.
pub(crate) fn dev_slugs() -> Vec<&'static str> {
    oncebox_verify::provider_names().into_iter().filter(|slug| *slug != "custom").collect()
}

/// The names of all secrets that `dev` needs: one per source, the verify tokens, the store's key.
pub(crate) fn secret_names() -> Vec<String> {
    let slugs = dev_slugs();
    let tokens = slugs.iter().filter(|slug| wants_verify_token(slug)).map(|slug| verify_token_name(slug));
    let names = slugs.iter().map(|slug| (*slug).to_owned());
    names.chain(tokens).chain([STORE_KEY.to_owned()]).collect()
}

/// True for a provider whose first request must bring a token that was agreed on.
pub(crate) fn wants_verify_token(slug: &str) -> bool {
    Description::named(slug).is_some_and(|description| description.facts().settings.contains(&"verify_token"))
}

/// Builds the config; the refusal is a sentence for people.
///
/// A provider that a made-up secret cannot serve (it needs the vendor's public key, say) is left out with a warning.
pub(crate) fn dev_config(
    listen: SocketAddr,
    admin_listen: SocketAddr,
    store: &StoreUrl,
    secrets: &DevSecrets,
) -> Result<Config, String> {
    for (option, address) in [("--listen", listen), ("--admin-listen", admin_listen)] {
        if !address.ip().is_loopback() {
            return Err(format!(
                "{option} {address} is reachable from other machines, and dev has secrets for this one only; \
                 use 127.0.0.1, or write an oncebox.toml and run `oncebox serve`"
            ));
        }
    }
    if listen == admin_listen && listen.port() != 0 {
        return Err(format!("--listen and --admin-listen are both {listen}; give one of them another port"));
    }
    let mut config = defaults(listen, admin_listen, store)?;
    config.store.secret_key = secrets.get(STORE_KEY).cloned();
    let public_url = format!("http://{listen}");
    for slug in dev_slugs() {
        let Some(spec) = spec(slug, &public_url, secrets) else { continue };
        match Source::build(spec) {
            Ok(source) => config.sources.push(SourceConfig {
                source: Arc::new(source),
                retention: config.retention.window,
                allow_from: Vec::new(),
            }),
            Err(wrong) => {
                let first = wrong.problems.first().map(|problem| problem.message.as_str()).unwrap_or_default();
                config.warnings.push(format!("{slug} is left out: {first}"));
            }
        }
    }
    config.server.public_url = Some(public_url);
    config.server.dev_option = Some(secrets_option(store));
    let all = Route { handler: "log".into(), sources: Vec::new(), types: Vec::new(), serial: None };
    config.handlers.push(HandlerConfig::new(all, HandlerKind::Log));
    Ok(config)
}

/// The option by which `send` finds the secrets beside this database; nothing where it looks there anyway.
pub(crate) fn secrets_option(database: &StoreUrl) -> String {
    if *database == StoreUrl::Sqlite("oncebox.db".into()) {
        return String::new();
    }
    // `send` only looks for the secrets beside the database, so a URL without its password does.
    let word = database.without_secrets().map(|url| shell_word(&url));
    format!(" --database {}", word.as_deref().unwrap_or("\"$ONCEBOX_DATABASE\""))
}

/// A word that a shell takes as it is.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./:@%+,=".contains(&b));
    if is_plain { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// What an empty file would mean, without the warning that it names no source.
fn defaults(listen: SocketAddr, admin_listen: SocketAddr, store: &StoreUrl) -> Result<Config, String> {
    let overrides = Overrides {
        listen: Some(listen),
        admin_listen: Some(admin_listen),
        database: Some(store.clone()),
        admin_token: None,
    };
    let outside = Outside { env: &|_| None, file: &|_| Err(ErrorKind::NotFound.into()), overrides: &overrides };
    let mut config = Config::parse("", "dev", &outside).map_err(|problems| problems.to_string())?;
    config.warnings.clear();
    Ok(config)
}

fn spec(slug: &str, public_url: &str, secrets: &DevSecrets) -> Option<SourceSpec> {
    let mut spec = SourceSpec::named(slug, slug)?;
    spec.settings = agreed(slug);
    spec.settings.insert("public_url".to_owned(), Secret::new(public_url));
    if let Some(token) = secrets.verify_token(slug) {
        spec.settings.insert("verify_token".to_owned(), token.clone());
    }
    (spec.secrets, spec.path_token) = by_form(&spec.description, secrets.get(slug)?.clone());
    Some(spec)
}

/// What the operator would have agreed on with the vendor, beside the secret.
pub(crate) fn agreed(slug: &str) -> BTreeMap<String, Secret> {
    let settings = oncebox_verify::sample_settings(slug).iter();
    settings.map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
}

/// A development secret as secrets, or as the token in the URL where the sender signs nothing.
pub(crate) fn by_form(description: &Description, secret: Secret) -> (Vec<Secret>, Option<Secret>) {
    if description.needs_path_token() { (Vec::new(), Some(secret)) } else { (vec![secret], None) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listen: &str, admin_listen: &str, expected: Result<(), &str>) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = StoreUrl::Sqlite(folder.path().join("oncebox.db"));
        let secrets = DevSecrets::load_or_create(&store, &dev_slugs()).expect("secrets");
        let (listen, admin_listen) = (listen.parse().expect("an address"), admin_listen.parse().expect("an address"));
        match (dev_config(listen, admin_listen, &store, &secrets), expected) {
            (Ok(config), Ok(())) => {
                assert_eq!((config.server.listen, &config.store.url), (listen, &store));
                assert_eq!(config.handlers.len(), 1);
                assert_eq!(config.sources.len() + config.warnings.len(), dev_slugs().len());
                assert!(config.sources.iter().all(|source| source.spec().name != "custom"));
            }
            (Err(sentence), Err(start)) => assert!(sentence.starts_with(start), "{sentence}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn loopback_only() {
        check("127.0.0.1:8080", "[::1]:8081", Ok(()));
        check("0.0.0.0:8080", "127.0.0.1:8081", Err("--listen 0.0.0.0:8080 is reachable"));
        check("127.0.0.1:8080", "192.168.1.5:8081", Err("--admin-listen 192.168.1.5:8081 is reachable"));
        check("127.0.0.1:8080", "127.0.0.1:8080", Err("--listen and --admin-listen are both"));
        check("127.0.0.1:0", "127.0.0.1:0", Ok(()));
    }
}
