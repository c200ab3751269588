//! Files with secrets or personal data in them that other users of the machine can read.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::store::StoreUrl;

/// What a person should know about the modes of the config file and of the database.
pub(super) fn warnings(path: &Path, document: &DeTable<'_>, url: &StoreUrl) -> Vec<String> {
    let mut warnings = Vec::new();
    if holds_a_secret(document)
        && let Some(mode) = open_mode(path)
    {
        let file = path.display();
        warnings.push(format!(
            "{file} holds secrets (value = ...) and other users can read it (mode {mode:03o}): chmod 600 {file}"
        ));
    }
    if let StoreUrl::Sqlite(file) = url
        && let Some(mode) = open_mode(file)
    {
        let file = file.display();
        warnings.push(format!(
            "other users can read the database {file}, with every body in it (mode {mode:03o}): chmod 600 {file}*"
        ));
    }
    warnings
}

/// The mode of a file that others may read; none where they may not, or where there is no such file.
fn open_mode(path: &Path) -> Option<u32> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    (mode & 0o004 != 0).then_some(mode)
}

/// Whether a secret is written out anywhere: `{ value = "..." }`.
fn holds_a_secret(table: &DeTable<'_>) -> bool {
    table.iter().any(|(key, value)| key.get_ref() == "value" || within(value.get_ref()))
}

fn within(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Table(table) => holds_a_secret(table),
        DeValue::Array(array) => array.iter().any(|item| within(item.get_ref())),
        _ => false,
    }
}
