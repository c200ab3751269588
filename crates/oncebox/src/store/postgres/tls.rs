//! Encrypted connections to Postgres, with the meaning that libpq gives to `sslmode` and `sslrootcert`.
//!
//! `prefer` (the default) and `require` encrypt without asking who is there, as psql does; `verify-full` and
//! `verify-ca` also check the certificate against the system's authorities, or those in the file `sslrootcert`, and the
//! host's name. Who names such a file wants the check, so it is made with `require` too.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::authorities;
use crate::store::StoreError;

/// What the server must prove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) enum Proof {
    /// Nothing: encrypt only.
    None,
    /// Its name, by a certificate of one of the system's authorities.
    BySystem,
    /// Its name, by a certificate of one of the authorities in this file.
    ByFile(PathBuf),
}

/// Splits from a URL what our driver does not know: modes that mean `require` with a proof, and the file.
pub(in crate::store) fn read_mode(url: &str) -> (String, Proof) {
    let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), Proof::None) };
    let (mut proof, mut options) = (Proof::None, Vec::new());
    for option in query.split('&') {
        match option.split_once('=') {
            Some(("sslmode", "verify-full" | "verify-ca")) => {
                options.push("sslmode=require");
                if proof == Proof::None {
                    proof = Proof::BySystem;
                }
            }
            Some(("sslrootcert", "system")) => proof = Proof::BySystem,
            Some(("sslrootcert", file)) => {
                proof = Proof::ByFile(percent_decode_str(file).decode_utf8_lossy().into_owned().into())
            }
            _ => options.push(option),
        }
    }
    let asks = options.iter().any(|option| option.starts_with("sslmode="));
    if proof != Proof::None && !asks {
        options.push("sslmode=require");
    }
    (format!("{base}?{}", options.join("&")), proof)
}

pub(in crate::store) fn connector(proof: &Proof) -> Result<MakeRustlsConnect, StoreError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::Refused(error.into()))?;
    let roots = match proof {
        Proof::None => None,
        Proof::BySystem => Some(authorities::of_system()),
        Proof::ByFile(file) => Some(authorities_in(file)?),
    };
    let config = match roots {
        Some(roots) => builder.with_root_certificates(roots).with_no_client_auth(),
        None => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(EncryptOnly(provider))).with_no_client_auth()
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn authorities_in(file: &Path) -> Result<RootCertStore, StoreError> {
    let unusable = |why: &str| StoreError::Refused(format!("sslrootcert: {} {why}", file.display()).into());
    let found = CertificateDer::pem_file_iter(file).map_err(|error| unusable(&format!("cannot be read: {error}")))?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.filter_map(Result::ok));
    if roots.is_empty() {
        return Err(unusable("holds no certificate in PEM form"));
    }
    Ok(roots)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_and_files_are_split_from_the_url() {
        let file = |path: &str| Proof::ByFile(path.into());
        for (url, driver_reads, proof) in [
            ("postgres://h/d", "postgres://h/d", Proof::None),
            ("postgres://h/d?sslmode=require&a=b", "postgres://h/d?sslmode=require&a=b", Proof::None),
            ("postgres://h/d?a=b&sslmode=verify-full", "postgres://h/d?a=b&sslmode=require", Proof::BySystem),
            ("postgres://h/d?sslmode=verify-ca", "postgres://h/d?sslmode=require", Proof::BySystem),
            ("postgres://h/d?sslrootcert=system", "postgres://h/d?sslmode=require", Proof::BySystem),
            (
                "postgres://h/d?sslrootcert=/a+b%20c.pem&sslmode=verify-full",
                "postgres://h/d?sslmode=require",
                file("/a+b c.pem"),
            ),
            ("postgres://h/d?sslmode=require&sslrootcert=ca.pem", "postgres://h/d?sslmode=require", file("ca.pem")),
            ("postgres://h/d?sslrootcert=/ca=a%3Db%26c.pem", "postgres://h/d?sslmode=require", file("/ca=a=b&c.pem")),
            // A password that looks like an option is not one.
            ("postgres://u:sslmode=verify-full@h/d", "postgres://u:sslmode=verify-full@h/d", Proof::None),
        ] {
            assert_eq!(read_mode(url), (driver_reads.to_owned(), proof), "{url}");
        }
    }
}
