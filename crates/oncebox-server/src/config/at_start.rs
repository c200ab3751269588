//! What is read once, at the start of the server: a reload leaves it alone, and says so.

use super::Config;

/// Those settings by name, in a form that can be compared; secrets are not among them.
#[derive(Clone, Debug)]
pub(crate) struct AtStart([(&'static str, String); 13]);

impl AtStart {
    pub(crate) fn of(config: &Config) -> Self {
        let (server, store) = (&config.server, &config.store);
        Self([
            ("server.listen", server.listen.to_string()),
            ("server.admin_listen", server.admin_listen.to_string()),
            ("server.public_url", format!("{:?}", server.public_url)),
            ("server.in_flight", server.in_flight.to_string()),
            ("server.in_flight_bytes", server.in_flight_bytes.to_string()),
            ("server.connections", server.connections.to_string()),
            ("server.grace", format!("{:?}", server.grace)),
            ("server.workers", server.workers.to_string()),
            ("server.trusted_proxies", server.trusted_proxies.to_string()),
            ("store.url", store.url.to_string()),
            ("store.batch", store.batch.to_string()),
            ("store.writers", store.writers.to_string()),
            ("log.format", format!("{:?}", config.log)),
        ])
    }

    /// The names of those that differ in another config.
    pub(crate) fn changed(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.0.iter().zip(&other.0);
        pairs.filter(|(one, another)| one.1 != another.1).map(|(one, _)| one.0).collect()
    }
}
