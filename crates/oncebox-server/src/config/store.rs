//! `[store]`: which database, and how its commits are shared.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use oncebox::gateway::sealed;
use oncebox::gateway::store::{Dialect, Durability};
use oncebox_verify::Secret;
use toml::de::DeValue;

use super::reader::{Item, Table};

const BATCH_EVENTS_MAX: usize = 4096;
const WRITERS_MAX: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct StoreConfig {
    pub(crate) url: StoreUrl,
    /// `unsafe = true`: accept a database that does not flush. Otherwise `survive`.
    pub(crate) durability: Durability,
    /// How many events may share one commit.
    pub(crate) batch: usize,
    /// How many commits may run at once; always 1 on SQLite.
    pub(crate) writers: usize,
    /// Encrypts secrets that a handshake brings.
    pub(crate) secret_key: Option<Secret>,
    /// Whether what is deleted is overwritten, on SQLite.
    pub(crate) secure_delete: bool,
}

/// Which database. Printing one never shows its password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StoreUrl {
    Sqlite(PathBuf),
    /// A server, by its whole connection URL.
    Postgres(String),
}

impl StoreConfig {
    pub(crate) fn read(mut table: Table<'_>) -> Self {
        let overridden = table.scope.outside.overrides.database.clone();
        let url_item = table.take("url");
        let written = url_item.as_ref().and_then(read_url);
        let url = overridden.or(written).unwrap_or_else(|| StoreUrl::Sqlite("oncebox.db".into()));
        let accept_unflushed = table.flag("unsafe").unwrap_or(false);
        let survive_item = table.peek("survive");
        let words = [("restart", Durability::Restart), ("failover", Durability::Failover)];
        let survive = table.word("survive", &words).unwrap_or(Durability::Restart);
        if let (Some(item), Durability::Failover) = (&survive_item, survive) {
            if matches!(url, StoreUrl::Sqlite(_)) {
                item.problem("an SQLite file has no standby", "use Postgres, or write \"restart\"");
            }
            if accept_unflushed {
                item.problem("does not go with unsafe = true", "remove one of them");
            }
        }
        let batch = table.count("batch", 1..=BATCH_EVENTS_MAX).unwrap_or(512);
        let writers_item = table.take("writers");
        let writers = writers_item.as_ref().and_then(|item| item.count(1..=WRITERS_MAX)).unwrap_or(1);
        if let (StoreUrl::Sqlite(_), Some(item), 2..) = (&url, &writers_item, writers) {
            item.problem("SQLite has one writer", "write 1, or use Postgres");
        }
        let secret_key = table.secret("secret_key");
        if secret_key.as_ref().is_some_and(|key| !sealed::is_strong(key)) {
            // Not refused: what came under it is still to be opened. Nothing new is kept with it.
            table.scope.report.warn(
                "store.secret_key is weak: whoever gets the database can guess it, and no further secret is kept with it; \
                 make one with `openssl rand -base64 32`, then arm its sources again",
            );
        }
        let secure_item = table.peek("secure_delete");
        let secure_delete = table.flag("secure_delete").unwrap_or(false);
        if let (StoreUrl::Postgres(_), Some(item), true) = (&url, secure_item, secure_delete) {
            item.problem("is for SQLite alone", "remove it; on Postgres VACUUM frees what was deleted");
        }
        if accept_unflushed {
            table.scope.report.warn("store.unsafe is set: acknowledged events may be lost in a power cut");
        }
        if url.is_unproved() {
            table.scope.report.warn(
                "store.url: PostgreSQL on another machine is not asked who it is: add sslmode=verify-full, with \
                 sslrootcert=FILE for an authority of your own",
            );
        }
        table.finish();
        let durability = if accept_unflushed { Durability::Unsafe } else { survive };
        Self { url, durability, batch, writers, secret_key, secure_delete }
    }
}

impl StoreUrl {
    /// Reads `sqlite:path`, `sqlite:///abs` or `postgres://…`; the refusal says what is wrong and the cure, and never
    /// quotes the URL, which may hold a password.
    pub(crate) fn parse(text: &str) -> Result<Self, (&'static str, &'static str)> {
        if let Some(rest) = text.strip_prefix("sqlite:") {
            return sqlite_path(rest).map(|path| Self::Sqlite(path.into()));
        }
        let after = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        match after {
            Some("") => Err(("names no host", "write \"postgres://user:password@host/database\"")),
            Some(rest) if rest.chars().any(|c| c.is_whitespace() || c.is_control()) => {
                Err(("holds white space", "write it percent-encoded, such as %20"))
            }
            Some(_) => Ok(Self::Postgres(text.to_owned())),
            None => Err((
                "is not a database that we know",
                "write \"sqlite:oncebox.db\" or \"postgres://user:password@host/database\"",
            )),
        }
    }

    /// Whose SQL the handlers are written in.
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// True when it is on another machine and whoever answers there is believed.
    fn is_unproved(&self) -> bool {
        let Self::Postgres(url) = self else { return false };
        let (place, options) = url.split_once('?').unwrap_or((url, ""));
        let place = place.split_once("://").map_or(place, |(_, rest)| rest);
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        let hosts = place.split('/').next().unwrap_or_default().split(',');
        // What these name is where it connects, whatever stands before.
        let named = options
            .split('&')
            .filter_map(|option| option.strip_prefix("host=").or_else(|| option.strip_prefix("hostaddr=")));
        let asks = options.split('&').any(|option| {
            option.starts_with("sslrootcert=") || matches!(option, "sslmode=verify-full" | "sslmode=verify-ca")
        });
        !asks && hosts.chain(named.flat_map(|hosts| hosts.split(','))).any(|host| !is_here(host))
    }

    /// True when what is shown of it is not the whole.
    pub(crate) fn has_password(&self) -> bool {
        match self {
            Self::Sqlite(_) => false,
            Self::Postgres(url) => without_password(url) != *url,
        }
    }

    /// The URL with neither password nor parameters; none where it is not sure which part is which.
    pub(crate) fn without_secrets(&self) -> Option<String> {
        let url = match self {
            Self::Sqlite(_) => return Some(self.to_string()),
            Self::Postgres(url) => url,
        };
        let (scheme, rest) = url.split_once("://")?;
        let (credentials, place) = rest.rsplit_once('@').map_or((None, rest), |(before, after)| (Some(before), after));
        let place = place.split('?').next().unwrap_or_default();
        let port = place.split('/').next().and_then(|host| host.rsplit_once(':')).map_or("", |(_, port)| port);
        let is_clear = credentials.is_none_or(|text| !text.contains(['/', '?', '@']));
        if !is_clear || !port.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let user = credentials.and_then(|text| text.split(':').next()).map(|user| format!("{user}@"));
        Some(format!("{scheme}://{}{place}", user.unwrap_or_default()))
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The URL may hold a password, so it may be written like a secret too.
fn read_url(item: &Item<'_>) -> Option<StoreUrl> {
    let secret = matches!(item.value.get_ref(), DeValue::Table(_)).then(|| item.secret());
    let text = match secret {
        Some(secret) => Cow::Owned(String::from_utf8_lossy(secret?.expose()).into_owned()),
        None => Cow::Borrowed(item.text()?),
    };
    StoreUrl::parse(&text).map_err(|(what, cure)| item.problem(what, cure)).ok()
}

fn sqlite_path(rest: &str) -> Result<&str, (&'static str, &'static str)> {
    let path = match rest.strip_prefix("//") {
        Some(absolute) if absolute.starts_with('/') => absolute,
        Some(_) => {
            return Err(("names a host", "write \"sqlite:relative.db\" or \"sqlite:///absolute/path.db\""));
        }
        None => rest,
    };
    match path {
        "" => Err(("names no file", "write \"sqlite:oncebox.db\"")),
        ":memory:" => Err(("would forget everything at exit", "write a file, \"sqlite:oncebox.db\"")),
        path if path.contains(['?', '\0']) => Err(("has parameters", "write the path alone")),
        path => Ok(path),
    }
}

/// Whether a host of a database URL, with its port, is this machine: a loopback address or a socket's folder.
fn is_here(host: &str) -> bool {
    let name = if host.starts_with('[') {
        host.split(']').next().unwrap_or_default().trim_start_matches('[')
    } else {
        host.split(':').next().unwrap_or_default()
    };
    let is_folder = name.is_empty() || name.starts_with('/') || name.to_ascii_lowercase().starts_with("%2f");
    is_folder || name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Whatever stands before the last `@` may be a password, and so may a parameter.
fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", ""));
    // Parameters first: one of them may be a password, with an @ in it.
    let rest = rest.split('?').next().unwrap_or_default();
    let Some((credentials, place)) = rest.rsplit_once('@') else {
        let place = rest;
        let port = place.split('/').next().and_then(|host| host.rsplit_once(':')).map_or("", |(_, port)| port);
        let safe = port.bytes().all(|b| b.is_ascii_digit());
        return format!("{scheme}://{}", if safe { place } else { "***" });
    };
    let (user, password) = credentials.split_once(':').map_or((credentials, ""), |(user, _)| (user, ":***"));
    let user = if user.contains(['/', '@']) { "***" } else { user };
    format!("{scheme}://{user}{password}@{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let file = |path: &str| Some(StoreUrl::Sqlite(path.into()));
        let server = |url: &str| Some(StoreUrl::Postgres(url.into()));
        for (text, expected) in [
            ("sqlite:oncebox.db", file("oncebox.db")),
            ("sqlite:/var/lib/o.db", file("/var/lib/o.db")),
            ("sqlite:///var/lib/o.db", file("/var/lib/o.db")),
            ("postgres://u:p@h/d", server("postgres://u:p@h/d")),
            ("postgresql://h/d", server("postgresql://h/d")),
            ("sqlite:", None),
            ("sqlite://host/x.db", None),
            ("sqlite::memory:", None),
            ("sqlite:x.db?mode=ro", None),
            ("postgres://", None),
            ("postgres://h/a b", None),
            ("mysql://u:p@h/d", None),
            ("oncebox.db", None),
            ("", None),
        ] {
            assert_eq!(StoreUrl::parse(text).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_server_on_another_machine_is_to_prove_who_it_is() {
        for (url, expected) in [
            ("postgres://u:p@db.internal/d", true),
            ("postgres://u@10.0.0.1:5432/d?sslmode=require", true),
            ("postgres://u@localhost,h2/d", true),
            ("postgres://u@h/d?sslmode=verify-full", false),
            ("postgres://u@h/d?a=b&sslrootcert=/ca.pem", false),
            ("postgres://u:p@127.0.0.1:5432/d", false),
            ("postgres://u@[::1]:5432/d", false),
            ("postgres://u@localhost,127.0.0.2/d", false),
            ("postgres://u@%2Frun%2Fpostgresql/d", false),
            ("postgres:///d?host=/run", false),
            ("postgres:///x?host=db.example.com", true),
            ("postgres://u@127.0.0.1/x?hostaddr=203.0.113.9", true),
            ("postgres:///x?host=/run/postgresql", false),
        ] {
            assert_eq!(StoreUrl::Postgres(url.into()).is_unproved(), expected, "{url}");
        }
        assert!(!StoreUrl::Sqlite("o.db".into()).is_unproved());
    }

    #[test]
    fn a_url_to_type_has_no_secrets() {
        for (url, expected) in [
            ("postgres://u:hunter2@h:5432/d", Some("postgres://u@h:5432/d")),
            ("postgres://u@h/d?password=hunter2", Some("postgres://u@h/d")),
            ("postgres://[::1]:5432/d", Some("postgres://[::1]:5432/d")),
            ("postgres://u:hunter2@x@h/d", None),
            ("postgres://h/d?password=hunter2@x", None),
            ("postgres://u:hunter2", None),
        ] {
            assert_eq!(StoreUrl::Postgres(url.into()).without_secrets().as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for (url, shown) in [
            ("postgres://u:hunter2@h:5432/d", "postgres://u:***@h:5432/d"),
            ("postgres://u:hunter2@x@h/d", "postgres://u:***@h/d"),
            ("postgres://u:hunter2?@h/d", "postgres://***"),
            ("postgres://u@h/d?password=hunter2", "postgres://u@h/d"),
            ("postgres://h/d?password=hunter2@x", "postgres://h/d"),
            ("postgres://h/d?password=hunter2", "postgres://h/d"),
            ("postgres://u:hunter2", "postgres://***"),
            ("postgres://h:5432/d", "postgres://h:5432/d"),
        ] {
            assert_eq!(StoreUrl::Postgres(url.into()).to_string(), shown);
            assert_eq!(format!("{:?}", StoreUrl::Postgres(url.into())), shown);
        }
    }
}
