//! Figures that are kept beside the program, one file for each part, so that a long contest may be run in pieces.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::install;
use crate::part::ledger::Ledgers;
use crate::part::queue::Queues;
use crate::part::turns::Turns;
use crate::surroundings::Surroundings;

/// What was measured, as far as it was.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) receiving: Option<One<Turns>>,
    pub(crate) growth: Option<One<Turns>>,
    pub(crate) handling: Option<One<Queues>>,
    pub(crate) relay: Option<One<Queues>>,
    pub(crate) ledger: Option<One<Ledgers>>,
}

/// The figures of one part, and what they were measured with.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct One<T> {
    pub(crate) surroundings: Surroundings,
    pub(crate) figures: T,
}

impl Kept {
    /// Reads what is there.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let folder = install::folder()?;
        Ok(Self {
            receiving: read(&folder, "receiving")?,
            growth: read(&folder, "growth")?,
            handling: read(&folder, "handling")?,
            relay: read(&folder, "relay")?,
            ledger: read(&folder, "ledger")?,
        })
    }
}

impl<T: Serialize> One<T> {
    /// Writes it over what was there.
    pub(crate) fn keep(&self, part: &str) -> anyhow::Result<()> {
        let file = install::folder()?.join(format!("{part}.json"));
        fs::write(&file, serde_json::to_vec_pretty(self)?).with_context(|| format!("cannot write {}", file.display()))
    }
}

fn read<T: DeserializeOwned>(folder: &Path, part: &str) -> anyhow::Result<Option<One<T>>> {
    let file = folder.join(format!("{part}.json"));
    let Ok(bytes) = fs::read(&file) else { return Ok(None) };
    let one = serde_json::from_slice(&bytes);
    one.with_context(|| format!("{} is of another version: measure again or remove it", file.display())).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_was_not_measured_is_none() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(read::<Turns>(folder.path(), "growth").expect("no file").is_none());
        fs::write(folder.path().join("growth.json"), "{}").expect("a file");
        let error = read::<Turns>(folder.path(), "growth").expect_err("no figures").to_string();
        assert!(error.contains("growth.json is of another version"), "{error}");
    }
}
