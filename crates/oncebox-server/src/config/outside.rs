//! What a config draws from outside its own text: environment, secret files, command-line overrides.
//!
//! It is handed in, so that tests read neither the real environment nor real files.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::Path;

use oncebox_verify::Secret;

use super::store::StoreUrl;

/// A secret file beyond this is the wrong file.
const SECRET_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Where the config looks beyond its own text.
pub(crate) struct Outside<'a> {
    pub(crate) env: &'a dyn Fn(&str) -> Option<String>,
    pub(crate) file: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// What the command line or `ONCEBOX_…` says in place of the file.
    pub(crate) overrides: &'a Overrides,
}

impl std::fmt::Debug for Outside<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("overrides", self.overrides).finish_non_exhaustive()
    }
}

/// Values from the command line or the environment; they win over the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) admin_listen: Option<SocketAddr>,
    pub(crate) database: Option<StoreUrl>,
    /// In place of `server.admin_token`; a blank one counts as none.
    pub(crate) admin_token: Option<Secret>,
}

pub(crate) fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(crate) fn secret_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(SECRET_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SECRET_FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "larger than any secret"));
    }
    Ok(bytes)
}
