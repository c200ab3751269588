//! Opens connections: resolves, checks every address, connects to one that was checked, and speaks TLS where asked.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{CallError, Policy, Settings};
use crate::authorities;

const ADDRESSES_MAX: usize = 8;
/// How long one address may take before the next is tried.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub(super) struct Connector(Arc<Inner>);

struct Inner {
    policy: Policy,
    hosts: HashMap<String, SocketAddr>,
    tls: TlsConnector,
}

impl Connector {
    pub(super) fn new(settings: Settings) -> Result<Self, rustls::Error> {
        let mut roots = authorities::of_system();
        for authority in settings.authorities {
            roots.add(authority)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Self(Arc::new(Inner { policy: settings.policy, hosts: settings.hosts, tls })))
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connector").field(&self.0.policy).finish()
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = CallError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, CallError>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), CallError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let inner = self.0.clone();
        Box::pin(async move { inner.connect(&uri).await.map(TokioIo::new) })
    }
}

impl Inner {
    async fn connect(&self, uri: &Uri) -> Result<Stream, CallError> {
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let addresses = self.addresses(host, port).await?;
        let stream = open(&addresses).await?;
        // Small requests should leave at once; a socket that cannot be told so still works.
        let _ = stream.set_nodelay(true);
        if !is_tls {
            return Ok(Box::new(stream));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|_invalid| CallError::Unresolved)?;
        match self.tls.connect(name, stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) if is_distrust(&error) => Err(CallError::Untrusted),
            Err(_broken) => Err(CallError::Broken),
        }
    }

    /// The addresses of a host, all of them allowed: one that is not makes the name suspect as a whole.
    async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, CallError> {
        if let Some(known) = self.hosts.get(host) {
            return Ok(vec![*known]);
        }
        let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
            Ok(literal) => vec![SocketAddr::new(literal, port)],
            Err(_name) => match tokio::net::lookup_host((host, port)).await {
                Ok(found) => found.collect(),
                Err(_unknown) => return Err(CallError::Unresolved),
            },
        };
        if found.is_empty() {
            return Err(CallError::Unresolved);
        }
        if !found.iter().all(|address| self.policy.admits(address.ip())) {
            return Err(CallError::Blocked);
        }
        Ok(found)
    }
}

async fn open(addresses: &[SocketAddr]) -> Result<TcpStream, CallError> {
    for address in addresses.iter().take(ADDRESSES_MAX) {
        if let Ok(Ok(stream)) = tokio::time::timeout(CONNECT_DEADLINE, TcpStream::connect(address)).await {
            return Ok(stream);
        }
    }
    Err(CallError::Unreachable)
}

fn is_distrust(error: &io::Error) -> bool {
    let below = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    matches!(below, Some(rustls::Error::InvalidCertificate(_)))
}

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection, encrypted or not.
pub(super) type Stream = Box<dyn Duplex>;

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
