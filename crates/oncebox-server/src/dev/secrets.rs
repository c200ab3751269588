//! Secrets for development: made once, kept beside the database, found again by `send`.
//!
//! They protect nothing but a loopback listener, yet they are kept like real ones: a file that only its owner reads,
//! replaced as a whole so that nobody ever sees half of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use data_encoding::{BASE64, HEXLOWER};
use oncebox_verify::{Description, Secret, SecretForm};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING as P256, EcdsaKeyPair, Ed25519KeyPair};

use crate::config::secrets::public_development_key;
use crate::config::store::StoreUrl;
use crate::http::token::random;

const HEAD: &str = "# Made by `oncebox dev` for this machine alone; delete the file to have new ones made.\n";

/// The name of the key that secrets from handshakes are kept with.
pub(crate) const STORE_KEY: &str = "store_secret_key";

/// One secret per provider, and what else `dev` needs.
#[derive(Clone, Debug)]
pub(crate) struct DevSecrets {
    pub(crate) path: PathBuf,
    secrets: BTreeMap<String, Secret>,
}

impl DevSecrets {
    /// The secrets beside this database; those that are missing are made and kept.
    pub(crate) fn load_or_create(store: &StoreUrl, slugs: &[&str]) -> io::Result<Self> {
        let none = || Self { path: path_beside(store), secrets: BTreeMap::new() };
        let mut found = Self::find(store)?.unwrap_or_else(none);
        let missing: Vec<&str> = slugs.iter().copied().filter(|slug| found.get(slug).is_none()).collect();
        if missing.is_empty() && found.path.exists() {
            return Ok(found);
        }
        for slug in missing {
            found.secrets.insert(slug.to_owned(), Secret::new(make(slug)?));
        }
        found.save().map_err(|error| found.cannot_write(&error))?;
        Ok(found)
    }

    /// The secrets beside this database, if `dev` ever ran there.
    pub(crate) fn find(store: &StoreUrl) -> io::Result<Option<Self>> {
        let path = path_beside(store);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let sentence = format!("{} cannot be read: {error}; let this user read it", path.display());
                return Err(io::Error::new(error.kind(), sentence));
            }
        };
        match parse(&text) {
            Some(secrets) => Ok(Some(Self { path, secrets })),
            None => {
                let sentence = format!("{} is not a list of secrets; delete it to have new ones made", path.display());
                Err(io::Error::new(ErrorKind::InvalidData, sentence))
            }
        }
    }

    pub(crate) fn verify_token(&self, slug: &str) -> Option<&Secret> {
        self.get(&verify_token_name(slug))
    }

    /// The secret of a provider, or another by its name.
    pub(crate) fn get(&self, slug: &str) -> Option<&Secret> {
        self.secrets.get(slug)
    }

    fn cannot_write(&self, error: &io::Error) -> io::Error {
        let sentence = format!(
            "{} cannot be written: {error}; run it in a folder you can write to, or give --database sqlite:PATH in one",
            self.path.display()
        );
        io::Error::new(error.kind(), sentence)
    }

    fn save(&self) -> io::Result<()> {
        let mut text = HEAD.to_owned();
        for (slug, secret) in &self.secrets {
            // Both sides are our own: slugs are bare keys, secrets need no escapes (see `is_plain`).
            let _ = writeln!(text, "{slug} = \"{}\"", String::from_utf8_lossy(secret.expose()));
        }
        let temporary = suffixed(&self.path, &format!(".{}.new", HEXLOWER.encode(&random::<8>()?)));
        let written = write_private(&temporary, &text).and_then(|()| fs::rename(&temporary, &self.path));
        if written.is_err() {
            // The first error is the one to report; a left-over temporary file harms nobody.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

pub(crate) fn verify_token_name(slug: &str) -> String {
    format!("{slug}_verify_token")
}

/// A secret in the form that the provider hands out; where that is a public key, the private one that samples need.
fn make(slug: &str) -> io::Result<String> {
    let no_randomness = |ring::error::Unspecified| io::Error::other("the system has no randomness");
    let system = SystemRandom::new();
    let form = Description::named(slug).and_then(|description| description.secret_form());
    Ok(match form.unwrap_or(SecretForm::Text) {
        SecretForm::Text if slug == "stripe" => format!("whsec_{}", HEXLOWER.encode(&random::<24>()?)),
        SecretForm::Text | SecretForm::Hex | SecretForm::PathToken => HEXLOWER.encode(&random::<20>()?),
        SecretForm::Base64 => BASE64.encode(&random::<24>()?),
        SecretForm::Whsec => format!("whsec_{}", BASE64.encode(&random::<24>()?)),
        SecretForm::UserPassword => format!("oncebox:{}", HEXLOWER.encode(&random::<20>()?)),
        SecretForm::Ed25519 => BASE64.encode(Ed25519KeyPair::generate_pkcs8(&system).map_err(no_randomness)?.as_ref()),
        SecretForm::P256 => {
            BASE64.encode(EcdsaKeyPair::generate_pkcs8(&P256, &system).map_err(no_randomness)?.as_ref())
        }
        // Ring makes no RSA keys, so all machines share one.
        SecretForm::Rsa => public_development_key(),
    })
}

fn parse(text: &str) -> Option<BTreeMap<String, Secret>> {
    let table: toml::Table = text.parse().ok()?;
    let entry = |(slug, value): (String, toml::Value)| {
        let secret = value.as_str().filter(|secret| is_plain(secret) && is_slug(&slug))?;
        Some((slug.clone(), Secret::new(secret)))
    };
    table.into_iter().map(entry).collect()
}

fn is_plain(secret: &str) -> bool {
    !secret.is_empty() && secret.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
}

fn is_slug(slug: &str) -> bool {
    !slug.is_empty() && slug.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

fn path_beside(store: &StoreUrl) -> PathBuf {
    match store {
        StoreUrl::Sqlite(path) => suffixed(path, ".dev-secrets.toml"),
        StoreUrl::Postgres(_) => PathBuf::from("oncebox.dev-secrets.toml"),
    }
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn fresh() -> (tempfile::TempDir, StoreUrl) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = StoreUrl::Sqlite(folder.path().join("oncebox.db"));
        (folder, store)
    }

    fn shown(secrets: &DevSecrets, slug: &str) -> String {
        String::from_utf8_lossy(secrets.get(slug).expect(slug).expose()).into_owned()
    }

    #[test]
    fn made_once_found_again_and_extended() {
        let (folder, store) = fresh();
        assert!(DevSecrets::find(&store).expect("no file").is_none());
        let first = DevSecrets::load_or_create(&store, &["stripe", "github"]).expect("made");
        assert_eq!(first.path, folder.path().join("oncebox.db.dev-secrets.toml"));
        let more = DevSecrets::load_or_create(&store, &["github", "svix"]).expect("extended");
        let found = DevSecrets::find(&store).expect("readable").expect("there");
        for slug in ["stripe", "github"] {
            assert_eq!(shown(&first, slug), shown(&more, slug));
            assert_eq!(shown(&first, slug), shown(&found, slug));
        }
        assert_eq!(shown(&more, "svix"), shown(&found, "svix"));
        assert_ne!(shown(&first, "stripe"), shown(&first, "github"));
        let mode = fs::metadata(first.path).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_named() {
        let (folder, _) = fresh();
        let store = StoreUrl::Sqlite(folder.path().join("missing").join("oncebox.db"));
        let error = DevSecrets::load_or_create(&store, &["stripe"]).expect_err("no such folder").to_string();
        assert!(error.contains("missing/oncebox.db.dev-secrets.toml cannot be written"), "{error}");
        assert!(error.contains("or give --database"), "{error}");
    }

    #[test]
    fn forms() {
        for (slug, prefix, length) in [
            ("stripe", "whsec_", 54),
            ("svix", "whsec_", 38),
            ("standard-webhooks", "whsec_", 38),
            ("github", "", 40),
            ("basic-auth", "oncebox:", 48),
            ("plaid", "MI", 184),
            ("airtable", "", 32),
            ("telnyx", "", 112),
        ] {
            let secret = make(slug).expect("randomness");
            assert!(secret.starts_with(prefix) && secret.len() == length && is_plain(&secret), "{slug}");
        }
    }

    #[test]
    fn private_keys_play_the_vendor() {
        for slug in ["aws-sns", "plaid"] {
            let mut spec = oncebox_verify::SourceSpec::named(slug, slug).expect("a provider");
            spec.secrets = vec![Secret::new(make(slug).expect("a key"))];
            spec.settings.insert("topic_arn".to_owned(), Secret::new("arn:aws:sns:eu-central-1:1:a"));
            let source = oncebox_verify::Source::build(spec).expect("a source");
            let sample = oncebox_verify::Sample { id: "a", event_type: None, filler_bytes: 0 };
            let draft = oncebox_verify::sample(&source, &sample, 1_790_000_000_000);
            assert!(source.sign(draft, 1_790_000_000_000).is_ok(), "{slug}");
        }
    }

    #[test]
    fn a_damaged_file_is_refused_without_quoting_it() {
        let (folder, store) = fresh();
        for text in ["stripe = hunter2", "stripe = 1", "stripe = ''", "stripe = 'hunter2\"'"] {
            fs::write(folder.path().join("oncebox.db.dev-secrets.toml"), text).expect("written");
            let error = DevSecrets::load_or_create(&store, &["stripe"]).expect_err(text);
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
