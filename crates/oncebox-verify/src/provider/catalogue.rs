//! The catalogue: providers as data, embedded and read once.
//!
//! Entries go through the same door as an operator's own keys, so whatever the catalogue says can be overridden or
//! written by hand for a sender that it does not know.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::{Description, Problem};

pub(crate) fn entries() -> &'static BTreeMap<String, Description> {
    static ENTRIES: LazyLock<BTreeMap<String, Description>> =
        LazyLock::new(|| read_all().unwrap_or_else(|problem| panic!("the embedded catalogue is wrong: {problem:?}")));
    &ENTRIES
}

/// All slugs of the catalogue, sorted, `custom` included.
pub fn provider_names() -> Vec<&'static str> {
    entries().keys().map(String::as_str).collect()
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
    let whole = |message: String| Problem::new("", message, "");
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
    use crate::provider::scheme::mac::Mac;
    use crate::provider::scheme::place::{Composite, Part};

    #[test]
    fn the_embedded_catalogue_reads() {
        let entries = read_all().unwrap();
        for slug in ["custom", "github", "shopify", "slack", "standard-webhooks", "stripe", "svix", "twilio"] {
            assert!(entries.contains_key(slug), "{slug}");
        }
    }

    /// True when the body or an id outside it is left open by the signature.
    fn leaves_id_open(entry: &Description) -> bool {
        let mut places = entry.id.iter().flat_map(Composite::parts).flat_map(Part::places);
        !entry.body_covered() || !entry.id_signed && places.any(|place| !place.is_in_body())
    }

    /// Whoever sees a request may choose what is not signed. Something signed must be compared with what came before, or
    /// the entry says why nothing can; where the request carries the secret itself there is nothing to compare.
    #[test]
    fn what_no_signature_covers_has_a_referee_or_a_reason() {
        let is_without = |entry: &Description| {
            let sends_secret = entry.mac.map_or(entry.scheme.is_none(), |mac| mac.is_token() || mac == Mac::Nothing);
            let compares_bytes = entry.body_covered() && !entry.body_varies;
            leaves_id_open(entry)
                && !(sends_secret || compares_bytes || entry.names_delivery() || !entry.open.is_empty())
        };
        let entries = read_all().unwrap();
        let without: Vec<&String> =
            entries.iter().filter(|(_, entry)| is_without(entry)).map(|(slug, _)| slug).collect();
        assert!(without.is_empty(), "{without:?}");
        for slug in ["paypal", "mailgun", "monday", "google-pubsub", "dropbox-sign", "github", "zendesk", "shopify"] {
            assert!(leaves_id_open(&entries[slug]), "{slug}");
        }
        for slug in ["stripe", "svix", "twitch-eventsub", "contentful"] {
            assert!(!leaves_id_open(&entries[slug]), "{slug}");
        }
    }
}
