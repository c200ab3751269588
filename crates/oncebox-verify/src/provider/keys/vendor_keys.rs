//! Where a scheme with public keys finds the key of a request: among what the operator gave, else in the ring.
//!
//! Keys that the operator gives are trusted as they are, and then nothing is ever fetched: that is how `explain` works
//! offline. Otherwise the operator's `cert_url` counts, else the address that catalogue or request name.

use crate::UnixMillis;
use crate::provider::Compiling;
use crate::provider::keys::public_key::{Keys, PrivateKey, PublicKey};
use crate::provider::keys::{Algorithm, Keyring};
use crate::provider::scheme::Refused;
use crate::verdict::{KeyWanted, NamedBy, Reason};

#[derive(Debug, Default)]
pub(crate) struct VendorKeys {
    given: Vec<(usize, PublicKey)>,
    /// What signs, where the operator gave a private key.
    pub(crate) signer: Option<PrivateKey>,
    /// Where keys are fetched from, whatever a request says.
    pub(crate) url: Option<String>,
    pub(crate) ring: Keyring,
}

impl VendorKeys {
    /// Reads secrets and the settings `public_key`, `kid` and `cert_url`.
    pub(crate) fn compile(compiling: &mut Compiling<'_>, algorithm: Algorithm, is_fetched: bool) -> Self {
        let spec = compiling.spec;
        let mut own = Self { url: compiling.text("cert_url"), ..Self::default() };
        let kid = compiling.text("kid");
        let names = (0..).map(|position| format!("secrets[{position}]"));
        let secrets = names.zip(&spec.secrets).enumerate().map(|(index, (name, secret))| (index + 1, name, secret));
        let setting = spec.settings.get("public_key").map(|key| (1, "public_key".to_owned(), key));
        for (position, name, secret) in secrets.chain(setting) {
            let keys = Keys::parse(secret.expose()).filter(|keys| keys.public.iter().any(|key| key.is_for(algorithm)));
            let Some(keys) = keys else {
                let cure = "give a certificate or public key in PEM, a JWK or JWKS, or base64 of one of them";
                compiling.problem(&name, "this is no public key of the kind this provider uses", cure);
                continue;
            };
            let usable = keys.public.into_iter().filter(|key| key.is_for(algorithm));
            own.given.extend(usable.map(|key| (position, key.trusted().named(kid.clone()))));
            own.signer = own.signer.or(keys.private);
        }
        if let Some(what) = own.url.as_deref().and_then(unfit_for_keys) {
            compiling.problem("cert_url", what, "write https://…");
        }
        if spec.secrets.is_empty() && own.given.is_empty() && !is_fetched && own.url.is_none() {
            let cure = "add secrets = [{ file = \"key.pem\" }], or cert_url where it can be fetched";
            compiling.problem("secrets", "there is no key to verify with", cure);
        }
        own
    }

    /// The keys that may have signed, each with the position of its secret, 0 for fetched ones.
    pub(crate) fn find(
        &self,
        named: Option<KeyWanted>,
        kid: Option<&str>,
        now: UnixMillis,
    ) -> Result<Vec<(usize, PublicKey)>, Refused> {
        let fits = |key: &PublicKey| kid.is_none() || key.kid.is_none() || key.kid.as_deref() == kid;
        if !self.given.is_empty() {
            let found: Vec<_> = self.given.iter().filter(|(_, key)| fits(key)).cloned().collect();
            return if found.is_empty() { Err(Reason::UnknownKey.into()) } else { Ok(found) };
        }
        let own = self.url.clone().map(|url| KeyWanted { url, named_by: NamedBy::Operator, proof: None });
        let wanted = own.or(named).ok_or(Reason::UnknownKey)?;
        let Some((keys, may_ask_again)) = self.ring.look(&wanted.url, now) else {
            return Err(Refused::NeedsKey(wanted));
        };
        let found: Vec<_> = keys.iter().filter(|key| fits(key)).map(|key| (0, key.clone())).collect();
        match (found.is_empty(), may_ask_again) {
            (false, _) => Ok(found),
            (true, true) => Err(Refused::NeedsKey(wanted)),
            (true, false) => Err(Reason::UnknownKey.into()),
        }
    }

    /// True when keys were given, so that a request's own address means nothing.
    pub(crate) fn are_settled(&self) -> bool {
        !self.given.is_empty() || self.url.is_some()
    }

    pub(crate) fn first_kid(&self) -> Option<&str> {
        self.given.first().and_then(|(_, key)| key.kid.as_deref())
    }
}

pub(crate) fn first_match(
    keys: &[(usize, PublicKey)],
    algorithm: Algorithm,
    message: &[u8],
    signature: &[u8],
    now: UnixMillis,
) -> Result<usize, Reason> {
    let matched = keys.iter().find(|(_, key)| key.verify(algorithm, message, signature));
    match matched {
        Some((position, key)) if key.is_valid_at(now) => Ok(*position),
        Some(_) => Err(Reason::ExpiredKey),
        None => Err(Reason::Mismatch),
    }
}

/// What is wrong with an address that keys are fetched from.
pub(crate) fn unfit_for_keys(text: &str) -> Option<&'static str> {
    let url = url::Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(url) = url else { return Some("this is no URL") };
    let is_here = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    (url.scheme() == "http" && !is_here).then_some("whoever is on the way could send other keys")
}
