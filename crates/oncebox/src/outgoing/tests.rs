//! The client against a local server: what is refused, what is cut, what is never followed.

use rustls::pki_types::pem::PemObject as _;
use testkit::vendor::{self, VendorServer};

use super::*;

const SOON: Duration = Duration::from_secs(5);

fn client(policy: Policy, hosts: &[(&str, SocketAddr)], trusted: bool) -> Outgoing {
    let authority = CertificateDer::from_pem_slice(vendor::AUTHORITY.as_bytes()).unwrap();
    let authorities = if trusted { vec![authority] } else { Vec::new() };
    let hosts = hosts.iter().map(|(host, address)| ((*host).to_owned(), *address)).collect();
    Outgoing::new(Settings { policy, authorities, hosts }).unwrap()
}

fn operator() -> Policy {
    Policy::Operator { allow: Vec::new() }
}

async fn get(client: &Outgoing, url: &str) -> Result<(u16, String, bool), CallError> {
    let answer = client.send(Call::get(Target::parse(url).unwrap(), SOON)).await?;
    Ok((answer.status.as_u16(), String::from_utf8_lossy(&answer.body).into_owned(), answer.is_whole))
}

#[tokio::test]
async fn no_spelling_of_a_private_address_is_connected_to() {
    let server = VendorServer::plain().await;
    let port = server.address().port();
    let public = client(Policy::Public, &[], false);
    for host in ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "localhost", "0"] {
        assert_eq!(get(&public, &format!("http://{host}:{port}/")).await, Err(CallError::Blocked), "{host}");
    }
    assert_eq!(server.requests(), Vec::<String>::new());
    let own = client(operator(), &[], false);
    for host in ["169.254.169.254", "[fe80::1]", "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]"] {
        assert_eq!(get(&own, &format!("http://{host}/")).await, Err(CallError::Blocked), "{host}");
    }
    assert_eq!(get(&own, &format!("http://127.1:{port}/")).await.map(|answer| answer.0), Ok(404));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let server = VendorServer::plain().await;
    let base = format!("http://{}", server.address());
    server.answer("/old", format!("302 Found\r\nlocation: {base}/new\r\ncontent-length: 0\r\n\r\n"));
    let own = client(operator(), &[], false);
    assert_eq!(get(&own, &format!("{base}/old")).await.map(|answer| answer.0), Ok(302));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn answers_are_bounded() {
    let server = VendorServer::plain().await;
    let base = format!("http://{}", server.address());
    let own = client(operator(), &[], false);
    server.serve("/large", &"x".repeat(ANSWER_BYTES_MAX + 1));
    let (status, body, is_whole) = get(&own, &format!("{base}/large")).await.unwrap();
    assert_eq!((status, body.len(), is_whole), (200, ANSWER_BYTES_MAX, false));
    server.serve("/just", &"x".repeat(ANSWER_BYTES_MAX));
    assert!(get(&own, &format!("{base}/just")).await.unwrap().2);
    server.answer("/headers", format!("200 OK\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1)));
    assert_eq!(get(&own, &format!("{base}/headers")).await, Err(CallError::Broken));
    server.answer("/short", "200 OK\r\ncontent-length: 9\r\n\r\nshort");
    assert_eq!(get(&own, &format!("{base}/short")).await, Ok((200, "short".to_owned(), false)));
}

#[tokio::test]
async fn a_long_answer_may_be_read_to_its_end() {
    let server = VendorServer::plain().await;
    let base = format!("http://{}", server.address());
    server.serve("/large", &"x".repeat(3 * ANSWER_BYTES_MAX));
    server.answer("/short", "200 OK\r\ncontent-length: 9\r\n\r\nshort");
    let read = async |path: &str| {
        let call = Call::get(Target::parse(&format!("{base}{path}")).unwrap(), SOON);
        let mut opened = client(operator(), &[], false).open(call).await?;
        let mut length = 0;
        while let Some(chunk) = opened.chunk().await? {
            length += chunk.len();
        }
        Ok((opened.status.as_u16(), length))
    };
    assert_eq!(read("/large").await, Ok((200, 3 * ANSWER_BYTES_MAX)));
    assert_eq!(read("/short").await, Err(CallError::Broken));
}

#[tokio::test]
async fn certificates_are_verified() {
    let server = VendorServer::tls().await;
    server.serve("/", "hello");
    let host = "sns.eu-central-1.amazonaws.com";
    let hosts = [(host, server.address()), ("other.example", server.address())];
    let trusting = client(Policy::Public, &hosts, true);
    assert_eq!(get(&trusting, &format!("https://{host}/")).await, Ok((200, "hello".to_owned(), true)));
    assert_eq!(get(&trusting, "https://other.example/").await, Err(CallError::Untrusted));
    let doubting = client(Policy::Public, &hosts, false);
    assert_eq!(get(&doubting, &format!("https://{host}/")).await, Err(CallError::Untrusted));
}

#[tokio::test]
async fn silence_ends_with_the_deadline() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = Target::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let call = Call::get(target, Duration::from_millis(50));
    assert_eq!(client(operator(), &[], false).send(call).await.map(|_| ()), Err(CallError::TooSlow));
    let nobody = Target::parse(&format!("http://127.0.0.1:{}/", testkit::free_port())).unwrap();
    let refused = client(operator(), &[], false).send(Call::get(nobody, SOON)).await;
    assert_eq!(refused.map(|_| ()), Err(CallError::Unreachable));
}

#[tokio::test]
async fn an_empty_body_has_its_length_said() {
    let receiver = testkit::receiver::Receiver::start();
    let own = client(operator(), &[], false);
    for (method, expected) in [(Method::POST, Some("0")), (Method::GET, None)] {
        let call = Call { method, ..Call::get(Target::parse(&receiver.url()).unwrap(), SOON) };
        own.send(call).await.unwrap();
        assert_eq!(receiver.calls().last().unwrap().header("content-length"), expected);
    }
}
