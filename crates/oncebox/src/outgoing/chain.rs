//! Whether a fetched certificate is the vendor's: the name it bears, and a chain that ends at a known authority.

use std::time::Duration;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use url::Url;
use webpki::{EndEntityCert, KeyUsage};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::ext::pkix::AuthorityInfoAccessSyntax;
use x509_cert::ext::pkix::name::GeneralName;

use crate::clock::UnixMillis;
use oncebox_verify::Proof;

/// Where a certificate's issuer is, as RFC 5280 calls it.
const ISSUER: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.2");
/// Authorities that serve issuers' certificates to everybody; what comes from there proves itself by its signature.
const ISSUER_DOMAINS: [&str; 2] = [".amazontrust.com", ".digicert.com"];

/// A certificate and those that stand between it and an authority.
#[derive(Debug)]
pub(super) struct Chain {
    leaf: CertificateDer<'static>,
    between: Vec<CertificateDer<'static>>,
}

impl Chain {
    /// Reads PEM; none when there is no certificate in it.
    pub(super) fn read(text: &[u8]) -> Option<Self> {
        let mut all: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(text).collect::<Result<_, _>>().ok()?;
        if all.is_empty() {
            return None;
        }
        let leaf = all.remove(0);
        Some(Self { leaf, between: all })
    }

    /// Adds a certificate in DER that may stand between.
    pub(super) fn add(&mut self, der: Vec<u8>) {
        self.between.push(der.into());
    }

    pub(super) fn is_for(&self, proof: &Proof) -> bool {
        EndEntityCert::try_from(&self.leaf).is_ok_and(|leaf| leaf.valid_dns_names().any(|name| proof.takes(name)))
    }

    /// True when the certificates are good now and the last one was issued by a known authority.
    pub(super) fn leads_to(&self, roots: &RootCertStore, now: UnixMillis) -> bool {
        let Ok(leaf) = EndEntityCert::try_from(&self.leaf) else { return false };
        let seconds = u64::try_from(now.div_euclid(1000)).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let (usage, algorithms) = (KeyUsage::server_auth(), webpki::ALL_VERIFICATION_ALGS);
        leaf.verify_for_usage(algorithms, &roots.roots, &self.between, now, usage, None, None).is_ok()
    }

    /// Where the certificate says its issuer's is, if that is at an authority we know.
    pub(super) fn issuer_address(&self) -> Option<String> {
        let leaf = Certificate::from_der(&self.leaf).ok()?;
        let (_, access) = leaf.tbs_certificate.get::<AuthorityInfoAccessSyntax>().ok()??;
        access.0.iter().filter(|one| one.access_method == ISSUER).find_map(|one| match &one.access_location {
            GeneralName::UniformResourceIdentifier(url) => issuer(url.as_str()),
            _ => None,
        })
    }
}

/// The address in its one spelling, if it is an authority's: authorities serve these without TLS, so that nobody needs a
/// certificate to get one.
fn issuer(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let host = url.host_str()?;
    let is_known = ISSUER_DOMAINS.iter().any(|domain| host.ends_with(domain));
    let is_plain = matches!(url.scheme(), "http" | "https") && url.port().is_none();
    (is_known && is_plain && url.username().is_empty() && url.password().is_none()).then(|| url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_are_asked_for_at_authorities_only() {
        for (text, expected) in [
            ("http://crt.r2m01.amazontrust.com/r2m01.cer", true),
            ("http://cacerts.digicert.com/a.crt", true),
            ("http://crt.r2m01.amazontrust.com:8080/r2m01.cer", false),
            ("http://amazontrust.com.evil.example/r2m01.cer", false),
            ("http://evilamazontrust.com/r2m01.cer", false),
            ("http://user@crt.r2m01.amazontrust.com/r2m01.cer", false),
            ("ldap://crt.r2m01.amazontrust.com/r2m01.cer", false),
            ("http://169.254.169.254/", false),
            ("", false),
        ] {
            assert_eq!(issuer(text).is_some(), expected, "{text}");
        }
    }
}
