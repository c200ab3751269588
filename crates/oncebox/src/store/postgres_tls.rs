//! Encrypted connections to Postgres, with the meaning that libpq gives to `sslmode`.
//!
//! `prefer` (the default) and `require` encrypt without asking who is there, as psql does; `verify-full` also checks
//! the certificate against the system's authorities and the host's name.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::StoreError;

/// Whether the server must prove its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// Encrypt only.
    None,
    /// Check certificate and name.
    Name,
}

/// Splits the modes that our driver does not know from a URL: they mean `require` with a proof.
pub(super) fn read_mode(url: &str) -> (String, Proof) {
    for mode in ["sslmode=verify-full", "sslmode=verify-ca"] {
        if url.contains(mode) {
            return (url.replacen(mode, "sslmode=require", 1), Proof::Name);
        }
    }
    (url.to_owned(), Proof::None)
}

/// How connections are encrypted.
pub(super) fn connector(proof: Proof) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Refused(error.into()))?;
    let config = match proof {
        Proof::Name => builder.with_root_certificates(system_authorities()).with_no_client_auth(),
        Proof::None => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(EncryptOnly(provider))).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn system_authorities() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!("a certificate authority of the system cannot be read: {error}");
    }
    roots.add_parsable_certificates(found.certs);
    roots
}

/// Takes any certificate, but checks that the server holds its key.
#[derive(Debug)]
struct EncryptOnly(Arc<CryptoProvider>);

impl ServerCertVerifier for EncryptOnly {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
