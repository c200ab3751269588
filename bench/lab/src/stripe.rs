//! Stripe's events: what the load sends and what the other servers check. Written for the benches alone, so that nobody
//! runs on another's code.

use data_encoding::HEXLOWER;
use ring::hmac;

/// The secret of every contender.
pub const SECRET: &str = "whsec_contest_0123456789abcdef0123";
/// How old a signature may be.
const TOLERANCE_SECONDS: i64 = 300;
/// Stands in the template where the id goes.
const PLACEHOLDER: &str = "00000000000000000000000000000000";

/// The seconds since 1970.
pub fn now() -> i64 {
    let passed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(passed.as_secs()).unwrap_or(i64::MAX)
}

/// The key that signs and checks.
pub fn key() -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes())
}

fn message(at: i64, body: &[u8]) -> Vec<u8> {
    let mut message = at.to_string().into_bytes();
    message.push(b'.');
    message.extend_from_slice(body);
    message
}

/// Whether a `stripe-signature` header fits the body and the time.
pub fn is_signed(key: &hmac::Key, header: &str, body: &[u8], now: i64) -> bool {
    let value = |name: &str| header.split(',').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='));
    let Some(at) = value("t").and_then(|at| at.parse::<i64>().ok()) else { return false };
    let Some(tag) = value("v1").and_then(|tag| HEXLOWER.decode(tag.as_bytes()).ok()) else { return false };
    (now - at).abs() <= TOLERANCE_SECONDS && hmac::verify(key, &message(at, body), &tag).is_ok()
}

/// Makes requests, each with an id of its own, or with one that was sent before.
#[derive(Debug)]
pub(crate) struct Requests {
    key: hmac::Key,
    path: String,
    body: Vec<u8>,
    places: Vec<usize>,
    prefix: u64,
    count: u64,
    repeats: u64,
    wire: Vec<u8>,
}

impl Requests {
    /// `prefix` keeps the ids of connections apart.
    pub(crate) fn new(path: &str, prefix: u64, body_size: usize) -> Self {
        let body = |filler: &str| {
            serde_json::json!({
                "id": format!("evt_{PLACEHOLDER}"), "object": "event", "type": "invoice.paid", "created": now(),
                "data": { "object": { "id": format!("in_{PLACEHOLDER}"), "amount_paid": 4200, "filler": filler } },
            })
            .to_string()
        };
        let bare = body("").len();
        let body = body(&letters(body_size.saturating_sub(bare))).into_bytes();
        let places = (0..body.len()).filter(|at| body[*at..].starts_with(PLACEHOLDER.as_bytes())).collect();
        let (path, wire) = (path.to_owned(), Vec::with_capacity(body_size + 512));
        Self { key: key(), path, body, places, prefix, count: 0, repeats: 0, wire }
    }

    /// The next new one as it goes over the wire.
    pub(crate) fn next(&mut self) -> &[u8] {
        self.count += 1;
        self.write(self.count)
    }

    /// The same event as before, the ids in turn, signed anew; a new one where none was sent yet.
    pub(crate) fn repeat(&mut self) -> &[u8] {
        if self.count == 0 {
            return self.next();
        }
        self.repeats += 1;
        self.write(1 + self.repeats % self.count)
    }

    fn write(&mut self, number: u64) -> &[u8] {
        let id = format!("{:016x}{number:016x}", self.prefix);
        for at in &self.places {
            self.body[*at..*at + id.len()].copy_from_slice(id.as_bytes());
        }
        let at = now();
        let tag = HEXLOWER.encode(hmac::sign(&self.key, &message(at, &self.body)).as_ref());
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: contest\r\ncontent-type: application/json\r\n\
             stripe-signature: t={at},v1={tag}\r\ncontent-length: {}\r\n\r\n",
            self.path,
            self.body.len()
        );
        self.wire.clear();
        self.wire.extend_from_slice(head.as_bytes());
        self.wire.extend_from_slice(&self.body);
        &self.wire
    }
}

/// Letters without a pattern: a database that compresses large values must not gain by a body that no sender has.
fn letters(count: usize) -> String {
    let mut state: u32 = 1;
    let mut letter = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // The upper bits are the better ones.
        char::from(b'a' + (state >> 24) as u8 % 26)
    };
    (0..count).map(|_| letter()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_signed_differ_and_have_their_size() {
        let mut requests = Requests::new("/in/stripe", 7, 1024);
        let mut seen = std::collections::HashSet::new();
        for _ in 0..10 {
            let wire = String::from_utf8(requests.next().to_vec()).expect("text");
            let (head, body) = wire.split_once("\r\n\r\n").expect("a head");
            let header = head.lines().find_map(|line| line.strip_prefix("stripe-signature: ")).expect("a signature");
            assert!(is_signed(&key(), header, body.as_bytes(), now()));
            assert!(!is_signed(&key(), header, body.as_bytes(), now() + 1_000));
            assert!(!is_signed(&key(), header, b"{}", now()));
            assert_eq!(body.len(), 1024);
            assert!(seen.insert(body.to_owned()));
        }
        assert!(!is_signed(&key(), "v1=00", b"{}", now()));
    }

    #[test]
    fn a_repeat_has_the_bytes_of_before() {
        let mut requests = Requests::new("/in/stripe", 7, 1024);
        let body = |wire: &[u8]| wire[wire.len() - 1024..].to_vec();
        let sent = [body(requests.repeat()), body(requests.next()), body(requests.next())];
        let mut again: Vec<_> = (0..6).map(|_| body(requests.repeat())).collect();
        again.sort();
        again.dedup();
        assert_eq!(again, sent);
    }
}
