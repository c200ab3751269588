//! Which certificate authorities the machine trusts.

use rustls::RootCertStore;

/// The system's own list.
pub(crate) fn of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("a certificate authority of the system cannot be read: {error}");
    }
    roots.add_parsable_certificates(found.certs);
    roots
}
