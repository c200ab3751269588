//! Pretended vendors that sign with a private key: their keys, certificates, and a TLS server that serves them.
//!
//! The files are in `fixtures/`; one authority issued all certificates, so that a client told to trust it takes the
//! server for the vendor.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use data_encoding::{BASE64, BASE64URL_NOPAD};
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair as _, RsaKeyPair, RsaPublicKeyComponents};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// The authority that issued every certificate here.
pub const AUTHORITY: &str = include_str!("../fixtures/authority.pem");
/// What the vendors sign with, as PKCS#8.
pub const RSA_KEY: &str = include_str!("../fixtures/vendor_rsa.pem");
/// What the vendors that use elliptic curves sign with, as PKCS#8.
pub const P256_KEY: &str = include_str!("../fixtures/vendor_p256.pem");
/// Certifies [`RSA_KEY`] for `sns.amazonaws.com`.
pub const SNS_CERTIFICATE: &str = include_str!("../fixtures/sns.pem");
/// Certifies [`RSA_KEY`] for `sns-signing.eu-central-1.amazonaws.com`, issued by [`BETWEEN`], whose address it names.
pub const SNS_LEAF: &str = include_str!("../fixtures/sns_leaf.pem");
/// What [`BETWEEN_AUTHORITY`] issued, in DER as authorities serve it.
pub const BETWEEN: &[u8] = include_bytes!("../fixtures/between.der");
/// The authority behind [`BETWEEN`].
pub const BETWEEN_AUTHORITY: &str = include_str!("../fixtures/between_authority.pem");
/// Certifies [`RSA_KEY`] for `messageverificationcerts.paypal.com`.
pub const PAYPAL_CERTIFICATE: &str = include_str!("../fixtures/paypal.pem");
/// Certified [`RSA_KEY`] in 2019 only.
pub const EXPIRED_CERTIFICATE: &str = include_str!("../fixtures/sns_expired.pem");
pub(crate) const TLS_CERTIFICATE: &str = include_str!("../fixtures/tls.pem");
pub(crate) const TLS_KEY: &str = include_str!("../fixtures/tls_key.pem");

/// The private key for elliptic curves, or for RSA.
pub fn key_for(elliptic: bool) -> &'static str {
    if elliptic { P256_KEY } else { RSA_KEY }
}

/// The public half of [`RSA_KEY`] as a JSON Web Key.
pub fn rsa_jwk(kid: &str) -> Value {
    let pair = rsa();
    let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
    json!({ "kty": "RSA", "kid": kid, "use": "sig", "n": BASE64URL_NOPAD.encode(&n), "e": BASE64URL_NOPAD.encode(&e) })
}

/// The public half of [`P256_KEY`] as a JSON Web Key.
pub fn p256_jwk(kid: &str) -> Value {
    let pair = p256();
    let point = pair.public_key().as_ref();
    let number = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": number(&point[1..33]), "y": number(&point[33..]) })
}

/// Signs with [`RSA_KEY`], PKCS#1 v1.5 and SHA-256.
pub fn rsa_sha256(message: &[u8]) -> Vec<u8> {
    let pair = rsa();
    let mut signature = vec![0; pair.public().modulus_len()];
    let signed = pair.sign(&signature::RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature);
    signed.expect("the key can sign");
    signature
}

/// Signs with [`P256_KEY`] as JWTs do.
pub fn es256(message: &[u8]) -> Vec<u8> {
    p256().sign(&SystemRandom::new(), message).expect("the key can sign").as_ref().to_vec()
}

/// A JWT with this header and these claims, signed by `sign`.
pub fn jwt(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(header), part(claims));
    let signature = BASE64URL_NOPAD.encode(&sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// The topic of [`sns`].
pub const TOPIC: &str = "arn:aws:sns:eu-central-1:123456789012:orders";
/// Where [`sns`] says its certificate is.
pub const CERTIFICATE_URL: &str =
    "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem";
/// Its path.
pub const CERTIFICATE_PATH: &str = "/SimpleNotificationService-7ff5318490ec183fbaddaa2a969abfda.pem";

/// An SNS notification of 2024-11-15T19:46:40Z with these fields changed, signed by [`RSA_KEY`] as version 2 is.
pub fn sns(changes: &[(&str, Value)]) -> Value {
    let mut message = json!({ "Type": "Notification", "MessageId": "m-1", "TopicArn": TOPIC, "Subject": "hi",
        "Message": "{\"a\":1}\nline", "Timestamp": "2024-11-15T19:46:40.000Z", "SignatureVersion": "2",
        "SigningCertURL": CERTIFICATE_URL });
    for (name, value) in changes {
        message[*name] = value.clone();
    }
    let names: &[&str] = if message["Type"] == "Notification" {
        &["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
    } else {
        &["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    };
    let line = |name: &&str| message[*name].as_str().map(|value| format!("{name}\n{value}\n"));
    let text: String = names.iter().filter_map(line).collect();
    message["Signature"] = BASE64.encode(&rsa_sha256(text.as_bytes())).into();
    message
}

/// The confirmation of a subscription, with this URL to visit.
pub fn sns_confirmation(url: &str) -> Value {
    sns(&[("Type", "SubscriptionConfirmation".into()), ("SubscribeURL", url.into()), ("Token", "t".into())])
}

fn rsa() -> RsaKeyPair {
    let key = PrivateKeyDer::from_pem_slice(RSA_KEY.as_bytes()).expect("the fixture is a key");
    RsaKeyPair::from_pkcs8(key.secret_der()).expect("the fixture is an RSA key")
}

fn p256() -> EcdsaKeyPair {
    let key = PrivateKeyDer::from_pem_slice(P256_KEY.as_bytes()).expect("the fixture is a key");
    let kind = &signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    EcdsaKeyPair::from_pkcs8(kind, key.secret_der(), &SystemRandom::new()).expect("the fixture is a P-256 key")
}

/// A server that poses as the vendors: TLS or plain, fixed answers by path, every request counted.
#[derive(Clone, Debug)]
pub struct VendorServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    answers: Arc<Mutex<HashMap<String, Vec<u8>>>>,
}

impl VendorServer {
    /// Starts one with the certificate of the pretended hosts.
    pub async fn tls() -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let certificate = CertificateDer::from_pem_slice(TLS_CERTIFICATE.as_bytes()).expect("the fixture reads");
        let key = PrivateKeyDer::from_pem_slice(TLS_KEY.as_bytes()).expect("the fixture reads");
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the defaults are safe")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .expect("certificate and key belong together");
        Self::start(Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    /// Starts one without TLS.
    pub async fn plain() -> Self {
        Self::start(None).await
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers this path with a status line's rest and a body, such as `200 OK\r\n\r\nhello`.
    pub fn answer(&self, path: &str, rest: impl Into<String>) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), rest.into().into_bytes());
    }

    /// Answers this path with 200 and these bytes.
    pub fn serve_bytes(&self, path: &str, body: &[u8]) {
        let head = format!("200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        let answer = [head.as_bytes(), body].concat();
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), answer);
    }

    /// Answers this path with 200 and this body.
    pub fn serve(&self, path: &str, body: &str) {
        self.answer(path, format!("200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    }

    /// The request lines so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port can be found");
        let address = listener.local_addr().expect("a bound socket has an address");
        let server = Self { address, requests: Arc::default(), answers: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, tls) = (serving.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => server.exchange(stream).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                server.exchange(stream).await;
                            }
                        }
                    }
                });
            }
        });
        server
    }

    async fn exchange(&self, mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
        let (mut head, mut byte) = (Vec::new(), [0; 1]);
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte).await {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let line = String::from_utf8_lossy(&head).lines().next().unwrap_or_default().to_owned();
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        let rest = self.answers.lock().unwrap_or_else(PoisonError::into_inner).get(&path).cloned();
        let rest = rest.unwrap_or_else(|| b"404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec());
        // Said as well as done: a client that keeps a connection which is about to close loses its next request.
        let status = rest.windows(2).position(|two| two == b"\r\n").map_or(0, |at| at + 2);
        let (status, rest) = rest.split_at(status);
        let closing: &[u8] = if status.is_empty() { b"" } else { b"connection: close\r\n" };
        // A client that stopped reading is what some tests are about.
        let _ = stream.write_all(&[b"HTTP/1.1 ".as_slice(), status, closing, rest].concat()).await;
        let _ = stream.shutdown().await;
    }
}
