//! PayPal: transmission id, time, our webhook id and a checksum of the body, signed by a certificate named in a header.
//!
//! The checksum is a CRC-32, which anybody can meet with other bytes: what is signed proves that PayPal sent something
//! to this webhook, not which bytes. So the transmission id, which is signed, may bring one event: whoever saw a request
//! can send other bytes under it, but they are held. The certificate must be PayPal's by the web's authorities, unless
//! the operator gave it.

use data_encoding::BASE64;
use http::{HeaderMap, HeaderName};

use crate::UnixMillis;
use crate::provider::keys::{Algorithm, Keyring, Pin, VendorKeys, first_match};
use crate::provider::scheme::{Encoding, Refused, Unit, Verified, Verifier, Window};
use crate::provider::vendor::builtin;
use crate::provider::{Compiling, SignError};
use crate::request::Request;
use crate::verdict::{KeyWanted, NamedBy, Proof, Reason, Rejection};

const ID: HeaderName = HeaderName::from_static("paypal-transmission-id");
const TIME: HeaderName = HeaderName::from_static("paypal-transmission-time");
const SIGNATURE: HeaderName = HeaderName::from_static("paypal-transmission-sig");
const CERTIFICATE: HeaderName = HeaderName::from_static("paypal-cert-url");
const ALGORITHM: HeaderName = HeaderName::from_static("paypal-auth-algo");
const ALGORITHM_WORD: &str = "SHA256withRSA";

const HOSTS: [&str; 2] = ["api.paypal.com", "api.sandbox.paypal.com"];
/// How old a transmission may be: PayPal tries for three days, and whether a retry is signed anew is not known.
const PAST_SECONDS: i64 = 3 * 86_400 + 6 * 3600;
const FUTURE_SECONDS: i64 = 300;
const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut value, mut bit) = (index as u32, 0);
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

/// The checksum of zip and Ethernet.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| CRC_TABLE[usize::from(crc.to_le_bytes()[0] ^ byte)] ^ (crc >> 8))
}
/// Whose name the certificate must bear.
const DOMAIN: &str = "paypal.com";

#[derive(Debug)]
pub(crate) struct PayPal {
    keys: VendorKeys,
    webhook_id: String,
    window: Window,
}

impl PayPal {
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Box<dyn Verifier>> {
        let keys = VendorKeys::compile(compiling, Algorithm::RsaSha256, true);
        compiling.need("webhook_id")?;
        let window = compiling.window(PAST_SECONDS, FUTURE_SECONDS);
        Some(Box::new(Self { keys, webhook_id: compiling.text("webhook_id")?, window }))
    }

    /// The signed text, and the time in it.
    fn signed(&self, request: &Request) -> Result<(String, UnixMillis), Reason> {
        let (id, time) = (builtin::line(&request.headers, &ID)?, builtin::line(&request.headers, &TIME)?);
        let at = Unit::Rfc3339.parse(time).ok_or(Reason::BadTimestamp)?;
        if id.contains('|') {
            return Err(Reason::MalformedSignature);
        }
        Ok((format!("{id}|{time}|{}|{}", self.webhook_id, crc32(&request.body)), at))
    }

    fn named(&self, headers: &HeaderMap) -> Result<Option<KeyWanted>, Reason> {
        if self.keys.are_settled() {
            return Ok(None);
        }
        let certificates = Pin { hosts: HOSTS.map(str::to_owned).to_vec(), path: Some(is_certificate) };
        let url = certificates.admit(builtin::line(headers, &CERTIFICATE)?);
        let url = url.ok_or(Reason::ForeignKey)?;
        Ok(Some(KeyWanted { url, named_by: NamedBy::Request, proof: Some(Proof::Below(DOMAIN)) }))
    }
}

impl Verifier for PayPal {
    fn verify(&self, request: &Request, now: UnixMillis) -> Result<Verified, Refused> {
        let signature = builtin::signature(&request.headers, &SIGNATURE, Encoding::Base64)?;
        if builtin::line(&request.headers, &ALGORITHM)? != ALGORITHM_WORD {
            return Err(Reason::MalformedSignature.into());
        }
        let (signed, time) = self.signed(request)?;
        let keys = self.keys.find(self.named(&request.headers)?, None, now)?;
        let secret = first_match(&keys, Algorithm::RsaSha256, signed.as_bytes(), &signature, now)?;
        Unit::Rfc3339.check(time, now, self.window)?;
        let delivery = builtin::line(&request.headers, &ID)?.as_bytes().into();
        Ok(Verified { secret, delivery: Some(delivery), ..Verified::by_key(0) })
    }

    fn judge_head(&self, head: &Request, _now: UnixMillis) -> Result<(), Rejection> {
        builtin::signature(&head.headers, &SIGNATURE, Encoding::Base64)?;
        [ALGORITHM, ID, TIME].iter().try_for_each(|name| builtin::line(&head.headers, name).map(drop))?;
        Ok(())
    }

    fn sign(&self, mut request: Request, now: UnixMillis) -> Result<Request, SignError> {
        let signer = self.keys.signer.as_ref().ok_or(SignError::PrivateKey)?;
        let id = crate::digest::sha256(&request.body);
        let headers = &mut request.headers;
        builtin::insert(headers, ID, &data_encoding::HEXLOWER.encode(&id[..16]))?;
        builtin::insert(headers, TIME, &Unit::Rfc3339.format(now))?;
        builtin::insert(headers, ALGORITHM, ALGORITHM_WORD)?;
        builtin::insert(headers, CERTIFICATE, "https://api.paypal.com/v1/notifications/certs/CERT-sample")?;
        let (signed, _) = self.signed(&request).map_err(|_unreadable| SignError::Incomplete)?;
        let signature = signer.sign(Algorithm::RsaSha256, signed.as_bytes()).ok_or(SignError::PrivateKey)?;
        builtin::insert(&mut request.headers, SIGNATURE, &BASE64.encode(&signature))?;
        Ok(request)
    }

    fn keyring(&self) -> Option<&Keyring> {
        Some(&self.keys.ring)
    }
}

/// `/v1/notifications/certs/CERT-` and up to 64 letters, digits and hyphens: real ones have three groups of hex digits.
fn is_certificate(path: &str) -> bool {
    let name = path.strip_prefix("/v1/notifications/certs/CERT-").unwrap_or_default();
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_the_shape_of_a_certificates_path() {
        let start = "/v1/notifications/certs/CERT-";
        for (name, expected) in [
            ("360caa42-fca2a594-1d93a270", true),
            ("", false),
            ("a/b", false),
            ("a.pem", false),
            (&"a".repeat(64), true),
            (&"a".repeat(65), false),
        ] {
            assert_eq!(super::is_certificate(&format!("{start}{name}")), expected, "{name}");
        }
        assert!(!super::is_certificate("/v1/oauth2/CERT-a"));
    }

    #[test]
    fn checksums() {
        for (text, expected) in [("", 0), ("123456789", 0xcbf4_3926), ("{}", 2_745_614_147)] {
            assert_eq!(super::crc32(text.as_bytes()), expected, "{text}");
        }
    }
}
