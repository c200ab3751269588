//! Calls to vendors for keys and confirmations; and how a test rig plays a vendor for the real program.
//!
//! Only a build with fault points reads the variable, because whoever sets it decides whom the program believes.

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::{Context as _, bail};
use oncebox::Clock;
use oncebox::gateway::fault::Faults;
use oncebox::gateway::outgoing::VendorCalls;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// A file with an authority to trust, then hosts with the address to call instead: `ca.pem,api.example.com=127.0.0.1:1`.
const VARIABLE: &str = "ONCEBOX_TEST_VENDORS";

pub(crate) fn calls(clock: Clock) -> anyhow::Result<VendorCalls> {
    let calls = match std::env::var(VARIABLE) {
        Err(_) => VendorCalls::new(clock),
        Ok(_) if !Faults::BUILT_IN => bail!("this build believes real vendors only; unset {VARIABLE}"),
        Ok(text) => {
            let (authority, hosts) = read(&text).with_context(|| format!("{VARIABLE} cannot be read"))?;
            VendorCalls::with_vendors(clock, vec![authority], hosts)
        }
    };
    calls.context("cannot set up TLS for calls to vendors")
}

fn read(text: &str) -> anyhow::Result<(CertificateDer<'static>, HashMap<String, SocketAddr>)> {
    let mut words = text.split(',');
    let authority = CertificateDer::from_pem_file(words.next().unwrap_or_default())?;
    let mut hosts = HashMap::new();
    for word in words {
        let (host, address) = word.split_once('=').context("a host has no address")?;
        hosts.insert(host.to_owned(), address.parse()?);
    }
    Ok((authority, hosts))
}
