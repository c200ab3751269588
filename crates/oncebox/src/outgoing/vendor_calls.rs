//! Fetches vendors' keys and visits their confirmations, each under the policy that fits who named the address.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use http::header::CACHE_CONTROL;
use http::{HeaderMap, StatusCode};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

use super::connect::system_authorities;
use super::{Answer, Call, Outgoing, Policy, Settings, Target};
use crate::clock::Clock;
use crate::errands::{Errand, ErrandError, Errands, Fetched};
use crate::verdict::{KeyWanted, NamedBy, Visit};

/// How long a vendor may take: shorter than what senders wait for us.
const DEADLINE: Duration = Duration::from_secs(5);

/// Goes to vendors over HTTP.
#[derive(Debug)]
pub struct VendorCalls {
    operator: Outgoing,
    public: Outgoing,
    roots: RootCertStore,
    clock: Clock,
}

impl VendorCalls {
    /// With the system's authorities and resolver.
    pub fn new(clock: Clock) -> Result<Self, rustls::Error> {
        Self::with_vendors(clock, Vec::new(), HashMap::new())
    }

    /// With authorities to trust besides, and hosts whose address is known: how tests play a vendor.
    pub fn with_vendors(
        clock: Clock,
        authorities: Vec<CertificateDer<'static>>,
        hosts: HashMap<String, SocketAddr>,
    ) -> Result<Self, rustls::Error> {
        let mut roots = system_authorities();
        for authority in &authorities {
            roots.add(authority.clone())?;
        }
        let client =
            |policy| Outgoing::new(Settings { policy, authorities: authorities.clone(), hosts: hosts.clone() });
        let operator = client(Policy::Operator { allow: Vec::new() })?;
        let public = client(Policy::Public)?;
        Ok(Self { operator, public, roots, clock })
    }

    async fn get(&self, url: &str, named_by: NamedBy) -> Result<Answer, ErrandError> {
        let target = Target::parse(url).map_err(|error| ErrandError(error.to_string()))?;
        let client = match named_by {
            NamedBy::Operator => &self.operator,
            NamedBy::Request => &self.public,
        };
        let host = target.host().to_owned();
        let sent = client.send(Call::get(target, DEADLINE)).await;
        let answer = sent.map_err(|error| ErrandError(format!("{host}: {error}")))?;
        match answer.status {
            status if status.is_success() => Ok(answer),
            status => Err(ErrandError(format!("{host} answered {}", status.as_u16()))),
        }
    }

    async fn fetch_key(&self, wanted: &KeyWanted) -> Result<Fetched, ErrandError> {
        let answer = self.get(&wanted.url, wanted.named_by).await?;
        if !answer.is_whole || answer.status != StatusCode::OK {
            return Err(ErrandError("the answer is too long or broke off".to_owned()));
        }
        if let Some(domain) = wanted.proof
            && !self.is_proved(&answer.body, domain)
        {
            return Err(ErrandError(format!("the certificate is not one of {domain} by the web's authorities")));
        }
        Ok(Fetched { max_age: max_age(&answer.headers), text: answer.body })
    }

    /// True when the first certificate leads to a known authority and is for a name in the domain.
    fn is_proved(&self, text: &[u8], domain: &str) -> bool {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        let Ok(chain) = chain else { return false };
        let Some((leaf, between)) = chain.split_first() else { return false };
        let Ok(leaf) = EndEntityCert::try_from(leaf) else { return false };
        let seconds = u64::try_from(self.clock.now().div_euclid(1000)).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let leads = leaf.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &self.roots.roots,
            between,
            now,
            KeyUsage::server_auth(),
            None,
            None,
        );
        let below = format!(".{domain}");
        let is_own = |name: &str| name == domain || name.ends_with(&below);
        leads.is_ok() && leaf.valid_dns_names().any(is_own)
    }
}

impl Errands for VendorCalls {
    fn fetch<'a>(&'a self, wanted: &'a KeyWanted) -> Errand<'a, Fetched> {
        Box::pin(self.fetch_key(wanted))
    }

    fn visit<'a>(&'a self, visit: &'a Visit) -> Errand<'a, ()> {
        Box::pin(async { self.get(&visit.url, NamedBy::Request).await.map(drop) })
    }
}

fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let age = lines.flat_map(|line| line.split(',')).find_map(|word| word.trim().strip_prefix("max-age="));
    age.and_then(|digits| digits.parse().ok()).map(Duration::from_secs)
}
