//! HTTP as no decent client sends it: smuggling, floods, slow and broken clients, monstrous JSON.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use testkit::http::{self, Connection};
use testkit::sender::{self, Signed};
use testkit::{TestDatabase, contract};

use crate::world::{TWILIO, TWILIO_URL, World, custom, stripe};

/// Long enough for an answer, short enough for a case in a table.
const READ: Duration = Duration::from_secs(5);
const ENDLESS_CLIENTS: usize = 8;

contract! {
    async fn a_smuggled_request_is_never_acted_on(db: TestDatabase) {
        let world = World::start(db);
        // The outer request is forged, so whatever is stored can only come from the smuggled one.
        let smuggled = custom(r#"{"id":"smuggled"}"#).raw("custom", world.addr());
        let length = smuggled.len();
        world.expect_nothing_stored(|| {
            // Both may be refused, or read by the chunks alone: then it is a forged request like any other.
            for (name, head) in [
                ("length and chunks", "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_owned()),
                ("chunks and length", format!("transfer-encoding: chunked\r\ncontent-length: {}\r\n\r\n0\r\n\r\n", length + 5)),
            ] {
                let statuses = statuses(&smuggle(&world, &head, &smuggled));
                assert!(matches!(statuses[..], [400 | 401]), "{name}: {statuses:?}");
            }
            for (name, head) in [
                ("two lengths", format!("content-length: 0\r\ncontent-length: {length}\r\n\r\n")),
                ("two lengths, other order", format!("content-length: {length}\r\ncontent-length: 0\r\n\r\n")),
                ("two equal lengths", "content-length: 0\r\ncontent-length: 0\r\n\r\n".to_owned()),
                ("list of lengths", "content-length: 0, 5\r\n\r\n".to_owned()),
                ("list of equal lengths", "content-length: 0, 0\r\n\r\n".to_owned()),
                ("xchunked", "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n".to_owned()),
                ("chunked twice", "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n".to_owned()),
                ("space before the colon", "transfer-encoding : chunked\r\n\r\n0\r\n\r\n".to_owned()),
                ("plus", "content-length: +0\r\n\r\n".to_owned()),
                ("hex", "content-length: 0x0\r\n\r\n".to_owned()),
                ("negative", "content-length: -1\r\n\r\n".to_owned()),
                ("length overflow", "content-length: 18446744073709551616\r\n\r\n".to_owned()),
                ("bare line feed", "content-length: 0\n\r\n".to_owned()),
                ("bare line feed hides a header", "x: y\ncontent-length: 0\r\n\r\n".to_owned()),
                ("bare line feed ends the head", "content-length: 0\r\n\n".to_owned()),
                ("folded header", "x: y\r\n content-length: 0\r\n\r\n".to_owned()),
                ("folded length", "content-length:\r\n 0\r\n\r\n".to_owned()),
                ("chunk size overflow", "transfer-encoding: chunked\r\n\r\n10000000000000000\r\n".to_owned()),
                ("chunk size negative", "transfer-encoding: chunked\r\n\r\n-1\r\n".to_owned()),
                ("chunk size not hex", "transfer-encoding: chunked\r\n\r\n0x0\r\n\r\n".to_owned()),
                ("chunk without end", "transfer-encoding: chunked\r\n\r\n1\r\nAB\r\n0\r\n\r\n".to_owned()),
                ("NUL in a header", "x: a\0b\r\ncontent-length: 0\r\n\r\n".to_owned()),
            ] {
                // One answer, then the end.
                assert_eq!(statuses(&smuggle(&world, &head, &smuggled)), [400], "{name}");
            }
        });
        still_serves(&world, "after");
    }

    async fn pipelined_requests_are_read_at_any_split(db: TestDatabase) {
        let world = World::start(db);
        let first = custom(r#"{"id":"first"}"#).raw("custom", world.addr());
        let second = |id: usize| custom(format!("{{\"id\":\"{id}\",\n\r\n\"n\":\n1}}")).raw("custom", world.addr());
        let cuts: Vec<usize> = (0..=second(100).len()).collect();
        thread::scope(|scope| {
            for cuts in cuts.chunks(cuts.len().div_ceil(8)) {
                let (world, first, second) = (&world, &first, &second);
                scope.spawn(move || {
                    for cut in cuts {
                        let second = second(100 + cut);
                        let (early, late) = second.split_at(*cut);
                        let mut connection = Connection::open(world.addr()).expect("it listens");
                        connection.send(&[first, early].concat()).expect("sent");
                        assert_eq!(connection.read_answer().expect("a first answer").status, 200, "cut at {cut}");
                        connection.send(late).expect("sent");
                        let answer = connection.read_answer().expect("a second answer");
                        assert_eq!(answer.status, 200, "cut at {cut}: {}", answer.text());
                    }
                });
            }
        });
        let expected = i64::try_from(cuts.len()).expect("it fits") + 1;
        assert_eq!(world.row_counts()["events"], expected);
    }

    async fn a_later_head_is_read_as_strictly_as_the_first(db: TestDatabase) {
        let world = World::start(db);
        let signed = custom(r#"{"id":"smuggled"}"#);
        let loose = String::from_utf8(signed.raw("custom", world.addr())).expect("text").replacen("\r\n", "\n", 1);
        let unsigned = http::encode(world.addr(), "POST", "/in/custom", &[], b"{\n}");
        let nobody = http::encode(world.addr(), "POST", "/in/nobody", &[], b"{\n}");
        let health = http::encode(world.addr(), "GET", "/healthz", &[], b"");
        world.expect_nothing_stored(|| {
            for (first, status) in [(&unsigned, 401), (&nobody, 404), (&health, 200)] {
                let answer = statuses(&raw(&world, &[first.as_slice(), loose.as_bytes()].concat()));
                assert!(answer == [status, 400] || answer == [status], "{answer:?} in one piece after {status}");
                let mut connection = Connection::open(world.addr()).expect("it listens");
                connection.send(first).expect("sent");
                assert_eq!(connection.read_answer().expect("an answer").status, status);
                // It may have been closed already.
                let _ = connection.send(loose.as_bytes());
                let second = connection.read_answer();
                assert!(second.as_ref().map_or(true, |answer| answer.status == 400), "{second:?} apart after {status}");
            }
        });
    }

    async fn a_head_has_limits(db: TestDatabase) {
        let world = World::start(db);
        let signed = custom(r#"{"id":"limits"}"#);
        let with = |headers: &str, target: &str| {
            let signature = &signed.headers[0].1;
            let text = format!("POST {target} HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\nx-signature: {signature}\r\n{headers}\r\n", signed.body.len());
            [text.as_bytes(), &signed.body].concat()
        };
        world.expect_nothing_stored(|| {
            let many: String = (0..98).map(|n| format!("x-{n}: y\r\n")).collect();
            assert_eq!(statuses(&raw(&world, &with(&many, "/in/custom"))), [431], "101 headers");
            let large = format!("x: {}\r\n", "y".repeat(64 * 1024));
            assert_eq!(statuses(&raw(&world, &with(&large, "/in/custom"))), [431], "64 kB of headers");
            for size in [8 * 1024, 16 * 1024, 70_000] {
                let long = format!("/in/custom?{}", "q".repeat(size));
                assert_eq!(statuses(&raw(&world, &with("", &long))), [414], "{size} bytes of target");
            }
            let endless = format!("POST /{}", "q".repeat(200_000));
            let answer = statuses(&raw(&world, endless.as_bytes()));
            assert!(answer.is_empty() || answer == [414], "{answer:?}");
            // HTTP/2 and TLS are not spoken here.
            for preface in [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"[..],
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\r\n\r\n\r\n\0\0\0\0", b"GET / HTTP/3.0\r\n\r\n"] {
                let answer = statuses(&raw(&world, preface));
                assert!(answer.is_empty() || answer[0] >= 400, "{preface:?}: {answer:?}");
            }
            let upgrade = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: upgrade, http2-settings, close\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n";
            assert_eq!(statuses(&raw(&world, upgrade)), [200], "an upgrade is ignored");
        });
        let few: String = (0..97).map(|n| format!("x-{n}: y\r\n")).collect();
        let wire = with(&format!("{}connection: close\r\n", &few[..few.len() - 9]), "/in/custom");
        assert_eq!(statuses(&raw(&world, &wire)), [200], "just below");
        // Neither decides anything.
        let spoofed = custom(r#"{"id":"spoofed"}"#).with_header("x-forwarded-for", "6.6.6.6").with_header("x-forwarded-host", "evil");
        let key = world.expect("custom", &spoofed, "accepted");
        let detail = http::get(world.program.admin_addr(), &format!("/api/v1/events/{key}"), &[]).json();
        assert_eq!(detail["payload"]["remote"], "127.0.0.1");
    }

    async fn the_url_that_is_signed_is_ours_and_not_the_requests(db: TestDatabase) {
        let world = World::start(db);
        let fields = [("MessageSid", "SM1"), ("MessageStatus", "delivered")];
        let send = |url: &str, host: &str| {
            let signed = sender::twilio(TWILIO, url, "tok-1", &fields)
                .with_header("x-forwarded-host", "evil.example").with_header("x-forwarded-proto", "https")
                .with_header("forwarded", "host=evil.example;proto=https").with_header("x-original-host", "evil.example");
            let mut connection = Connection::open(world.addr()).expect("it listens");
            connection.send(&signed.raw("twilio", host)).expect("sent");
            connection.read_answer().expect("an answer").status
        };
        world.expect_nothing_stored(|| {
            for host in ["evil.example", world.addr(), "hooks.example.com"] {
                for scheme in ["https", "http"] {
                    let url = format!("{scheme}://evil.example/in/twilio");
                    assert_eq!(send(&url, host), 401, "signed for {url}, sent to {host}");
                }
            }
            assert_eq!(send(&format!("http://{}/in/twilio", world.addr()), world.addr()), 401, "our own socket");
        });
        world.expect_stored(1, 1, || assert_eq!(send(TWILIO_URL, "evil.example"), 200, "whatever the name it was sent to"));
    }

    async fn a_body_without_end_is_cut_off_and_costs_no_memory(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("body_limit = \"1MiB\""));
        world.expect("custom", &custom(r#"{"id":"warm"}"#), "accepted");
        let before = world.memory_kib("VmRSS");
        let sent: Vec<usize> = world.expect_nothing_stored(|| thread::scope(|scope| {
            let clients: Vec<_> = (0..ENDLESS_CLIENTS).map(|_| scope.spawn(|| send_without_end(world.addr()))).collect();
            clients.into_iter().map(|client| client.join().expect("it is cut off")).collect()
        }));
        let grown = world.memory_kib("VmHWM").saturating_sub(before);
        println!("endless bodies: {sent:?} bytes were sent before the end, and memory grew by {grown} KiB at its peak");
        assert!(grown < 64 * 1024, "grew by {grown} KiB for {ENDLESS_CLIENTS} bodies of at most 1 MiB");
        still_serves(&world, "after");
    }

    async fn chunk_extensions_are_bounded(db: TestDatabase) {
        let world = World::start(db);
        let signed = custom(r#"{"id":"extended"}"#);
        let head = format!("POST /in/custom HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\nx-signature: {}\r\n\r\n", signed.headers[0].1);
        let chunk = |extension: &str| {
            [format!("{head}{:x};{extension}\r\n", signed.body.len()).as_bytes(), &signed.body, b"\r\n0\r\n\r\n"].concat()
        };
        world.expect_nothing_stored(|| {
            assert_eq!(statuses(&raw(&world, &chunk(&"e".repeat(1 << 20)))), [400], "1 MB of extension");
        });
        assert_eq!(statuses(&raw(&world, &chunk("name=value"))), [200], "a short one is allowed");
    }

    async fn monstrous_json_is_kept_byte_for_byte(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("body_limit = \"16MiB\""));
        let numbers = format!(r#"{{"id":"numbers","a":1e400,"b":1e200000,"c":{}}}"#, "9".repeat(400));
        for (name, body, states) in [
            ("deep", format!(r#"{{"id":"deep","a":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000)).into_bytes(), &["accepted", "held"][..]),
            ("deeper objects", [br#"{"a":"#.repeat(100_000), b"1".to_vec(), b"}".repeat(100_000)].concat(), &["held"]),
            ("brackets", vec![b'['; 10 << 20], &["held"]),
            ("numbers", numbers.into_bytes(), &["accepted", "held"]),
            ("a million keys", wide().into_bytes(), &["accepted"]),
            ("invalid UTF-8", b"{\"id\":\"x\",\"a\":\"\xff\xfe\"}".to_vec(), &["held"]),
            ("byte order mark", b"\xef\xbb\xbf{\"id\":\"x\"}".to_vec(), &["held"]),
            ("UTF-16", b"\xff\xfe{\0}\0".to_vec(), &["held"]),
            ("NULs", vec![0; 1000], &["held"]),
            ("escapes", br#"{"id":"esc","a":"\ud800\u0000"}"#.to_vec(), &["accepted"]),
            ("form", b"payload=%7B%22id%22%3A%22x%22%7D".to_vec(), &["held"]),
            ("multipart", b"--b\r\ncontent-disposition: form-data\r\n\r\n{}\r\n--b--".to_vec(), &["held"]),
            ("empty", Vec::new(), &["held"]),
        ] {
            let answer = world.expect_stored(1, 1, || world.post("large", &custom(body.clone())));
            assert_eq!(answer.status, 200, "{name}: {}", answer.text());
            let status = answer.json()["status"].as_str().unwrap_or_default().to_owned();
            assert!(states.contains(&status.as_str()), "{name}: {status}");
            let key = answer.header("oncebox-key").expect("a key").to_owned();
            assert!(world.body(&key) == body, "{name}: other bytes");
            assert_eq!(world.event(&key).state, status, "{name}");
        }
        still_serves(&world, "after");
        assert!(!world.program.log().contains("panicked"));
    }

    async fn content_types_do_not_matter(db: TestDatabase) {
        let world = World::start(db);
        for (n, kind) in ["", "application/xml", "multipart/form-data", "application/x-www-form-urlencoded", "x"].iter().enumerate() {
            let signed = custom(format!(r#"{{"id":"ct-{n}"}}"#));
            let signed = if kind.is_empty() { signed } else { signed.with_header("content-type", kind) };
            let key = world.expect_stored(1, 1, || world.expect("custom", &signed, "accepted"));
            assert_eq!(world.body(&key), signed.body, "{kind}");
        }
        // H14: an unsigned empty body is unverified like any other.
        world.expect_nothing_stored(|| world.expect_401("custom", &Signed { headers: Vec::new(), body: Vec::new() }));
    }

    async fn slow_clients_are_ended_by_deadlines(db: TestDatabase) {
        let world = World::start_with(db, |setup| setup.server("in_flight = 8"));
        let addr = world.addr();
        let signature = &custom("1").headers[0].1;
        let body = format!("POST /in/custom HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-signature: {signature}\r\ncontent-length: 9000\r\n\r\n");
        let body = body.as_bytes();
        let some: &[u8] = &[b'x'; 600];
        world.expect_nothing_stored(|| thread::scope(|scope| {
            let headers = scope.spawn(|| ended(addr, b"POST /in/custom HTTP/1.1\r\nhost: a\r\n", None));
            let dripping = scope.spawn(|| ended(addr, b"POST /in/custom HTTP/1.1\r\n", Some(b"x: y\r\n")));
            let idle = scope.spawn(|| ended(addr, b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n", None));
            let silent = scope.spawn(|| ended(addr, b"", None));
            let slow_body = scope.spawn(|| ended(addr, body, None));
            let dripping_body = scope.spawn(|| ended(addr, body, Some(b"x")));
            let steady_body = scope.spawn(|| ended(addr, body, Some(some)));
            let between = |what: &str, (after, answer): (Duration, Vec<u8>), from: u64, to: u64| {
                assert!((from..=to).contains(&after.as_secs()), "{what}: ended after {after:?}");
                statuses(&answer)
            };
            let cut = [Vec::new(), vec![408]];
            assert!(cut.contains(&between("slow headers", headers.join().expect("ends"), 9, 16)));
            assert!(cut.contains(&between("dripping headers", dripping.join().expect("ends"), 9, 16)));
            assert_eq!(between("idle", idle.join().expect("ends"), 9, 16), [200]);
            assert!(cut.contains(&between("silent", silent.join().expect("ends"), 9, 16)));
            assert_eq!(between("slow body", slow_body.join().expect("ends"), 4, 12), [408]);
            assert_eq!(between("dripping body", dripping_body.join().expect("ends"), 4, 12), [408]);
            // Whoever keeps the rate comes to the end: there it is a wrong signature.
            assert_eq!(between("steady body", steady_body.join().expect("ends"), 6, 30), [401]);
        }));
        still_serves(&world, "after");
    }
}

/// What comes back on a forged request with this for the rest of its head, behind which another request stands.
#[track_caller]
fn smuggle(world: &World, head: &str, smuggled: &[u8]) -> Vec<u8> {
    // With a signature of the right form, or nobody would look at the body.
    let outer = format!("POST /in/custom HTTP/1.1\r\nhost: a\r\nx-signature: {}\r\n{head}", "00".repeat(32));
    raw(world, &[outer.as_bytes(), smuggled].concat())
}

/// What comes back until the other side closes; a connection that stays open is a failure of the case.
#[track_caller]
fn raw(world: &World, bytes: &[u8]) -> Vec<u8> {
    let started = Instant::now();
    let answer = http::raw(world.addr(), bytes, 4 * READ);
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
    assert!(
        started.elapsed() < 4 * READ,
        "the connection stays open after {shown:?}: {}",
        String::from_utf8_lossy(&answer)
    );
    answer
}

/// An object of a million keys, the id the last of them.
fn wide() -> String {
    let keys: String = (0..1_000_000).map(|n| format!("\"k{n}\":1,")).collect();
    format!(r#"{{{keys}"id":"wide"}}"#)
}

/// The statuses of all answers in a stream of bytes. Every error among them has its words.
fn statuses(answer: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answer);
    let starts: Vec<usize> = text.match_indices("HTTP/1.1 ").map(|(at, _)| at).collect();
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    let answers = starts.iter().zip(ends).map(|(start, end)| &text[*start..end]);
    let read = |answer: &str| {
        let status: u16 = answer.get(9..12)?.parse().ok()?;
        let is_problem = answer.contains("content-type: application/problem+json\r\n")
            && answer.contains(&format!("\"status\":{status}"));
        assert!(status < 400 || is_problem, "{answer}");
        Some(status)
    };
    answers.filter_map(read).collect()
}

fn still_serves(world: &World, id: &str) {
    let mut connection = Connection::open(world.addr()).expect("it listens");
    connection.send(&stripe(id).raw("stripe", world.addr())).expect("sent");
    assert_eq!(connection.read_answer().expect("an answer").status, 200);
}

/// Sends chunk after chunk until the other side has had enough, and says how many bytes that was.
fn send_without_end(addr: &str) -> usize {
    let started = Instant::now();
    let mut connection = Connection::open(addr).expect("it listens");
    let signature = &custom("").headers[0].1;
    let head = format!(
        "POST /in/custom HTTP/1.1\r\nhost: a\r\nx-signature: {signature}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    connection.send(head.as_bytes()).expect("sent");
    let chunk = [b"10000\r\n", &[b'x'; 0x10000][..], b"\r\n"].concat();
    let send = |connection: &mut Connection, chunks: usize| (0..chunks).try_for_each(|_| connection.send(&chunk));
    // At the limit its mind is made up: the answer comes though the body goes on.
    let _ = send(&mut connection, 17);
    assert_eq!(connection.read_answer().expect("an answer").status, 413);
    let mut sent = 17 * chunk.len();
    while send(&mut connection, 1).is_ok() {
        sent += chunk.len();
        assert!(started.elapsed() < Duration::from_secs(60), "it reads on and on: {sent} bytes");
    }
    sent
}

/// Sends bytes, then perhaps more every half second, and says when the other side ended it and what it said.
fn ended(addr: &str, bytes: &[u8], drip: Option<&[u8]>) -> (Duration, Vec<u8>) {
    let started = Instant::now();
    let mut stream = TcpStream::connect(addr).expect("it listens");
    stream.write_all(bytes).expect("sent");
    stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout can be set");
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while started.elapsed() < Duration::from_secs(60) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                if drip.is_some_and(|drip| stream.write_all(drip).is_err()) {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    (started.elapsed(), answer)
}
