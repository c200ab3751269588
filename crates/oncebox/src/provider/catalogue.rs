//! The catalogue: providers as data, embedded and read once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Description, Problem};

/// One provider of the catalogue.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its description.
    pub(crate) description: Description,
}

/// All entries by slug.
pub(crate) fn entries() -> &'static BTreeMap<String, Entry> {
    static ENTRIES: LazyLock<BTreeMap<String, Entry>> =
        LazyLock::new(|| read(TEXT).unwrap_or_else(|problem| panic!("the embedded catalogue is wrong: {problem:?}")));
    &ENTRIES
}

const TEXT: &str = include_str!("catalogue.toml");

fn read(text: &str) -> Result<BTreeMap<String, Entry>, Problem> {
    let whole = |message: String| Problem { key: String::new(), message, cure: String::new() };
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| whole(error.to_string()))?;
    let mut entries = BTreeMap::new();
    for (slug, keys) in &table {
        let keys = keys.as_table().ok_or_else(|| whole(format!("{slug} is no table")))?;
        let mut description = Description::default();
        for (key, value) in keys {
            description
                .set(key, value)
                .map_err(|problem| Problem { key: format!("{slug}.{}", problem.key), ..problem })?;
        }
        entries.insert(slug.clone(), Entry { description });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_catalogue_reads() {
        let entries = read(TEXT).unwrap();
        for slug in ["custom", "github", "shopify", "slack", "standard-webhooks", "stripe", "svix", "twilio"] {
            assert!(entries.contains_key(slug), "{slug}");
        }
    }
}
