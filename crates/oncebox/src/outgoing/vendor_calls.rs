//! Fetches vendors' keys and visits their confirmations, each under the policy that fits who named the address.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use http::header::CACHE_CONTROL;
use http::{HeaderMap, StatusCode};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::chain::Chain;
use super::{Answer, Call, Outgoing, Policy, Settings, Target};
use crate::authorities;
use crate::clock::Clock;
use crate::vendor::client::{Fetched, VendorClient, VendorError, VendorFuture};
use oncebox_verify::{KeyWanted, NamedBy, Proof, Visit};

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
        let mut roots = authorities::of_system();
        for authority in &authorities {
            roots.add(authority.clone())?;
        }
        let client =
            |policy| Outgoing::new(Settings { policy, authorities: authorities.clone(), hosts: hosts.clone() });
        let operator = client(Policy::Operator { allow: Vec::new() })?;
        let public = client(Policy::Public)?;
        Ok(Self { operator, public, roots, clock })
    }

    async fn get(&self, url: &str, named_by: NamedBy) -> Result<Answer, VendorError> {
        let target = Target::parse(url).map_err(|error| VendorError(error.to_string()))?;
        let client = match named_by {
            NamedBy::Operator => &self.operator,
            NamedBy::Request => &self.public,
        };
        let host = target.host().to_owned();
        let sent = client.send(Call::get(target, DEADLINE)).await;
        let answer = sent.map_err(|error| VendorError(format!("{host}: {error}")))?;
        match answer.status {
            status if status.is_success() => Ok(answer),
            status => Err(VendorError(format!("{host} answered {}", status.as_u16()))),
        }
    }

    async fn fetch_key(&self, wanted: &KeyWanted) -> Result<Fetched, VendorError> {
        let answer = self.get(&wanted.url, wanted.named_by).await?;
        if !answer.is_whole || answer.status != StatusCode::OK {
            return Err(VendorError("the answer is too long or broke off".to_owned()));
        }
        if let Some(proof) = &wanted.proof {
            self.prove(&answer.body, proof).await?;
        }
        Ok(Fetched { max_age: max_age(&answer.headers), text: answer.body })
    }

    /// The first certificate must lead to a known authority and bear one of the vendor's names.
    async fn prove(&self, text: &[u8], proof: &Proof) -> Result<(), VendorError> {
        let vendor = proof.vendor();
        let refused = || VendorError(format!("the certificate is not one of {vendor} by the web's authorities"));
        let mut chain = Chain::read(text).ok_or_else(refused)?;
        let now = self.clock.now();
        if !chain.is_for(proof) {
            return Err(refused());
        }
        if chain.leads_to(&self.roots, now) {
            return Ok(());
        }
        // Amazon serves the certificate alone: its issuer's is at the address that it names itself.
        let issuer = chain.issuer_address().ok_or_else(refused)?;
        let answer = self.get(&issuer, NamedBy::Request).await?;
        chain.add(answer.body.to_vec());
        if chain.leads_to(&self.roots, now) { Ok(()) } else { Err(refused()) }
    }
}

impl VendorClient for VendorCalls {
    fn fetch<'a>(&'a self, wanted: &'a KeyWanted) -> VendorFuture<'a, Fetched> {
        Box::pin(self.fetch_key(wanted))
    }

    fn visit<'a>(&'a self, visit: &'a Visit) -> VendorFuture<'a, ()> {
        Box::pin(async { self.get(&visit.url, NamedBy::Request).await.map(drop) })
    }
}

fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let lines = headers.get_all(CACHE_CONTROL).iter().filter_map(|line| line.to_str().ok());
    let age = lines.flat_map(|line| line.split(',')).find_map(|word| word.trim().strip_prefix("max-age="));
    age.and_then(|digits| digits.parse().ok()).map(Duration::from_secs)
}
