//! The hashes, signatures and time texts that vendors use, straight from `ring` and written out.

use std::cell::RefCell;

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P256_SHA256_FIXED_SIGNING, RSA_PKCS1_SHA256};
use ring::signature::{EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, RsaKeyPair};
use ring::{digest, hmac};

thread_local! {
    /// Messages, while somebody listens.
    static SIGNED: RefCell<Option<Vec<Vec<u8>>>> = const { RefCell::new(None) };
}

/// What some work comes to, and the messages of which it made HMACs, so that the benchmark can repeat them.
pub fn listening<T>(work: impl FnOnce() -> T) -> (T, Vec<Vec<u8>>) {
    SIGNED.set(Some(Vec::new()));
    let made = work();
    (made, SIGNED.take().unwrap_or_default())
}

/// HMAC over parts laid end to end.
pub fn mac(algorithm: hmac::Algorithm, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    SIGNED.with_borrow_mut(|heard| heard.iter_mut().for_each(|messages| messages.push(parts.concat())));
    let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    for part in parts {
        context.update(part);
    }
    context.sign().as_ref().to_vec()
}

/// HMAC-SHA256 in hex.
pub fn hex256(key: &str, parts: &[&[u8]]) -> String {
    HEXLOWER.encode(&mac(hmac::HMAC_SHA256, key.as_bytes(), parts))
}

/// HMAC-SHA256 in base64.
pub fn base256(key: &str, parts: &[&[u8]]) -> String {
    BASE64.encode(&mac(hmac::HMAC_SHA256, key.as_bytes(), parts))
}

/// HMAC-SHA1 in hex.
pub fn hex1(key: &str, parts: &[&[u8]]) -> String {
    HEXLOWER.encode(&mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes(), parts))
}

/// HMAC-SHA1 in base64.
pub fn base1(key: &str, parts: &[&[u8]]) -> String {
    BASE64.encode(&mac(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes(), parts))
}

/// SHA-256.
pub fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

/// SHA-1.
pub fn sha1(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref().to_vec()
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Base64 with padding.
pub fn base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

/// Base64 for URLs, without padding.
pub fn base64url(bytes: &[u8]) -> String {
    BASE64URL_NOPAD.encode(bytes)
}

/// The bytes of a PEM block.
pub fn pem(text: &str) -> Vec<u8> {
    let inner: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    BASE64.decode(inner.as_bytes()).expect("a key of this folder is PEM")
}

/// RSA-SHA256 under a PKCS#8 key.
pub fn rsa256(key: &str, message: &[u8]) -> Vec<u8> {
    let pair = RsaKeyPair::from_pkcs8(&pem(key)).expect("an RSA key of this folder");
    let mut signature = vec![0; pair.public().modulus_len()];
    pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).expect("RSA signs");
    signature
}

/// ECDSA over P-256 with SHA-256 as DER.
pub fn p256_der(key: &str, message: &[u8]) -> Vec<u8> {
    p256(&ECDSA_P256_SHA256_ASN1_SIGNING, key, message)
}

/// ECDSA over P-256 with SHA-256 as the two numbers side by side.
pub fn p256_fixed(key: &str, message: &[u8]) -> Vec<u8> {
    p256(&ECDSA_P256_SHA256_FIXED_SIGNING, key, message)
}

/// The Ed25519 pair whose seed is the SHA-256 of a text.
pub fn ed25519(seed: &str) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&sha256(seed.as_bytes())).expect("32 bytes are a seed")
}

/// CRC-32 as of zip and PayPal.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 })
    })
}

/// A form value, percent-encoded.
pub fn form_encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
    let encode = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// A form.
pub fn form<T: AsRef<str>>(fields: &[(&str, T)]) -> Vec<u8> {
    let pairs = fields.iter().map(|(name, value)| format!("{}={}", form_encode(name), form_encode(value.as_ref())));
    pairs.collect::<Vec<_>>().join("&").into_bytes()
}

/// Unix seconds as RFC 3339 in UTC, with the fraction given as text.
pub fn rfc3339(seconds: i64, fraction: &str) -> String {
    let (days, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01, in eras of 400 years: leap days then fall on the end of a year.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

fn p256(algorithm: &'static EcdsaSigningAlgorithm, key: &str, message: &[u8]) -> Vec<u8> {
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, &pem(key), &random).expect("a P-256 key of this folder");
    pair.sign(&random, message).expect("ECDSA signs").as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(rfc3339(1_800_000_000, ".000"), "2027-01-15T08:00:00.000Z");
        assert_eq!(rfc3339(951_782_400, ""), "2000-02-29T00:00:00Z");
        assert_eq!(hex256("key", &[b"The quick brown fox ", b"jumps over the lazy dog"]), FOX);
        assert_eq!(form(&[("a b", "c&d/é")]), b"a+b=c%26d%2F%C3%A9");
    }

    const FOX: &str = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
}
