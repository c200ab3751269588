//! The catalogue: providers as data, embedded and read once.
//!
//! Entries go through the same door as an operator's own keys, so whatever the catalogue says can be overridden or
//! written by hand for a sender that it does not know.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Description, Problem};

/// All entries by slug.
pub(crate) fn entries() -> &'static BTreeMap<String, Description> {
    static ENTRIES: LazyLock<BTreeMap<String, Description>> =
        LazyLock::new(|| read_all().unwrap_or_else(|problem| panic!("the embedded catalogue is wrong: {problem:?}")));
    &ENTRIES
}

/// Grouped by how they sign; `generic.toml` explains the keys.
const TEXTS: &[&str] = &[
    include_str!("catalogue/generic.toml"),
    include_str!("catalogue/hmac_body.toml"),
    include_str!("catalogue/hmac_body_base64.toml"),
    include_str!("catalogue/hmac_time.toml"),
    include_str!("catalogue/public_key.toml"),
    include_str!("catalogue/standard_webhooks.toml"),
    include_str!("catalogue/tokens.toml"),
    include_str!("catalogue/forms.toml"),
    include_str!("catalogue/jwt.toml"),
    include_str!("catalogue/certificates.toml"),
];

fn read_all() -> Result<BTreeMap<String, Description>, Problem> {
    let mut all = BTreeMap::new();
    for text in TEXTS {
        all.extend(read(text)?);
    }
    Ok(all)
}

fn read(text: &str) -> Result<BTreeMap<String, Description>, Problem> {
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
        entries.insert(slug.clone(), description);
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_catalogue_reads() {
        let entries = read_all().unwrap();
        for slug in ["custom", "github", "shopify", "slack", "standard-webhooks", "stripe", "svix", "twilio"] {
            assert!(entries.contains_key(slug), "{slug}");
        }
    }
}
