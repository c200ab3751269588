//! A small blocking HTTP/1.1 client with nothing between the test and the wire.
//!
//! Tests need to send what no decent client sends (two lengths, half a header, a body byte by byte), and to know
//! exactly what came back. Addresses are `host:port`; an `http://` in front and a slash behind are ignored.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::num::ParseIntError;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const ANSWER_DEADLINE: Duration = Duration::from_secs(30);
const THREAD_STACK_BYTES: usize = 256 * 1024;

/// An answer, read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The headers in order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, chunks joined.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; panics with the body where it is none.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in answer {}: {}", self.status, self.text()))
    }
}

/// Posts a body on a connection of its own; panics where there is no answer.
pub fn post(addr: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    request(addr, "POST", path, headers, body).unwrap_or_else(|error| panic!("POST {path} to {addr}: {error}"))
}

/// Gets a path on a connection of its own; panics where there is no answer.
pub fn get(addr: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    request(addr, "GET", path, headers, b"").unwrap_or_else(|error| panic!("GET {path} from {addr}: {error}"))
}

/// Sends any method on a connection of its own.
pub fn request(addr: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Answer> {
    let mut connection = Connection::open(addr)?;
    connection.send(&encode(addr, method, path, headers, body))?;
    connection.read_answer_to(method)
}

/// The bytes of a request, with `Host` and, unless given or needless, `Content-Length`.
pub fn encode(addr: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n", host_of(addr));
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let has_length = headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding"));
    if !has_length && (!body.is_empty() || method == "POST") {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

/// Writes bytes and returns whatever comes back until the other side closes or the deadline passes.
pub fn raw(addr: &str, bytes: &[u8], read_deadline: Duration) -> Vec<u8> {
    let mut stream = TcpStream::connect(host_of(addr)).unwrap_or_else(|error| panic!("connect to {addr}: {error}"));
    // A server may refuse and close before it has read everything: its answer counts, not our broken pipe.
    let _ = stream.write_all(bytes);
    let deadline = Instant::now() + read_deadline;
    let (mut answer, mut buffer) = (Vec::new(), [0; 8192]);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return answer;
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return answer,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
        }
    }
}

/// A connection that stays open between requests.
pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects.
    pub fn open(addr: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(host_of(addr))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_DEADLINE))?;
        stream.set_write_timeout(Some(ANSWER_DEADLINE))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Writes any bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends no more, but still reads.
    pub fn finish_sending(&mut self) -> io::Result<()> {
        self.stream.get_mut().shutdown(Shutdown::Write)
    }

    /// Changes how long a read waits, 30 s at first.
    pub fn set_read_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        self.stream.get_mut().set_read_timeout(Some(timeout))
    }

    /// Reads one answer.
    pub fn read_answer(&mut self) -> io::Result<Answer> {
        self.read_answer_to("POST")
    }

    /// Reads one answer to a request of this method: the answer to HEAD has a length and no body.
    pub fn read_answer_to(&mut self, method: &str) -> io::Result<Answer> {
        loop {
            let answer = read_answer(&mut self.stream, method)?;
            if !(100..200).contains(&answer.status) {
                return Ok(answer);
            }
        }
    }

    /// Whether the other side has closed: reads until the end, at most for this long.
    pub fn is_closed_within(&mut self, deadline: Duration) -> bool {
        let closed = self.set_read_timeout(deadline).map(|()| self.stream.read(&mut [0; 1]));
        match closed {
            Ok(Ok(count)) => count == 0,
            Ok(Err(error)) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
            Err(_) => true,
        }
    }
}

/// What became of one request of a [`blast`].
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Status and body.
    Ok(u16, Vec<u8>),
    /// No answer: it may or may not have been stored.
    Info(String),
}

impl Outcome {
    /// The status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Ok(status, _) => Some(*status),
            Self::Info(_) => None,
        }
    }
}

/// Sends requests over `concurrency` kept-alive connections; the outcomes come in the order of the requests.
///
/// Requests may be made on the fly by an iterator. None is ever sent twice.
pub fn blast<I>(addr: &str, requests: I, concurrency: usize) -> Vec<Outcome>
where
    I: IntoIterator<Item = Vec<u8>>,
    I::IntoIter: Send,
{
    let (queue, done) = (Mutex::new(requests.into_iter().enumerate()), Mutex::new(Vec::new()));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let worker = || {
        let mut connection = None;
        let mut mine = Vec::new();
        while let Some((number, bytes)) = next() {
            mine.push((number, exchange(addr, &mut connection, &bytes)));
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).extend(mine);
    };
    thread::scope(|scope| {
        for _ in 0..concurrency {
            let builder = thread::Builder::new().stack_size(THREAD_STACK_BYTES);
            builder.spawn_scoped(scope, worker).expect("a thread can be started");
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Requests that are all under way: each on a connection of its own, its body asked for and not yet sent.
pub struct UnderWay {
    waiting: Vec<(Connection, Vec<u8>)>,
}

impl UnderWay {
    /// Opens a connection for each request, sends its head, and waits until the server asks for its body (`100`); panics
    /// where it does not.
    pub fn all<I: IntoIterator<Item = Vec<u8>>>(addr: &str, requests: I) -> Self {
        let begin = |bytes: Vec<u8>| {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head ends") + 2;
            let mut connection = Connection::open(addr).unwrap_or_else(|error| panic!("connect to {addr}: {error}"));
            let head = [&bytes[..end], b"expect: 100-continue\r\n\r\n"].concat();
            connection.send(&head).unwrap_or_else(|error| panic!("send to {addr}: {error}"));
            (connection, bytes[end + 2..].to_vec())
        };
        let mut waiting: Vec<_> = requests.into_iter().map(begin).collect();
        for (connection, _) in &mut waiting {
            let answer = read_answer(&mut connection.stream, "POST").expect("an answer to the head");
            assert_eq!(answer.status, 100, "{}", answer.text());
        }
        Self { waiting }
    }

    /// Sends the bodies; where a connection broke, that shows when its answer is read.
    pub fn send_bodies(&mut self) {
        for (connection, body) in &mut self.waiting {
            let _ = connection.send(body);
        }
    }

    /// Reads the answers, in the order of the requests.
    pub fn outcomes(self) -> Vec<Outcome> {
        let read = |(mut connection, _): (Connection, Vec<u8>)| outcome_of(connection.read_answer());
        self.waiting.into_iter().map(read).collect()
    }
}

fn exchange(addr: &str, kept: &mut Option<Connection>, bytes: &[u8]) -> Outcome {
    let answer = kept.take().map_or_else(|| Connection::open(addr), Ok).and_then(|mut connection| {
        connection.send(bytes)?;
        let answer = connection.read_answer()?;
        if answer.header("connection").is_none_or(|value| !value.eq_ignore_ascii_case("close")) {
            *kept = Some(connection);
        }
        Ok(answer)
    });
    outcome_of(answer)
}

fn outcome_of(answer: io::Result<Answer>) -> Outcome {
    match answer {
        Ok(answer) => Outcome::Ok(answer.status, answer.body),
        Err(error) => Outcome::Info(error.to_string()),
    }
}

fn host_of(addr: &str) -> &str {
    addr.strip_prefix("http://").unwrap_or(addr).trim_end_matches('/')
}

fn read_answer(stream: &mut impl BufRead, method: &str) -> io::Result<Answer> {
    let status_line = read_line(stream)?;
    let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| invalid(&format!("no status in {status_line:?}")))?;
    let headers = read_headers(stream)?;
    let mut answer = Answer { status, headers, body: Vec::new() };
    if method != "HEAD" && !(100..200).contains(&status) && status != 204 && status != 304 {
        answer.body = read_body(stream, &answer)?;
    }
    Ok(answer)
}

fn read_headers(stream: &mut impl BufRead) -> io::Result<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = read_line(stream)?;
        if line.is_empty() {
            return Ok(headers);
        }
        let (name, value) = line.split_once(':').ok_or_else(|| invalid(&format!("no colon in {line:?}")))?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
}

fn read_body(stream: &mut impl BufRead, answer: &Answer) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if answer.header("transfer-encoding").is_some() {
        loop {
            let size = read_line(stream)?;
            let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16);
            let size = size.map_err(|error| invalid(&error.to_string()))?;
            let start = body.len();
            body.resize(start + size, 0);
            stream.read_exact(&mut body[start..])?;
            if size == 0 {
                read_headers(stream)?;
                return Ok(body);
            }
            read_line(stream)?;
        }
    }
    match answer.header("content-length") {
        Some(length) => {
            let length = length.parse().map_err(|error: ParseIntError| invalid(&error.to_string()))?;
            body.resize(length, 0);
            stream.read_exact(&mut body)?;
        }
        None => drop(stream.read_to_end(&mut body)?),
    }
    Ok(body)
}

fn read_line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_answer_is_read_to_its_own_end() {
        let check = |wire: &str, method: &str, status: u16, body: &str| {
            let answer = read_answer(&mut wire.as_bytes(), method).expect("a good answer");
            assert_eq!((answer.status, answer.text().as_str()), (status, body), "{wire:?}");
        };
        check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1", "POST", 200, "ok");
        check(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n1\r\n!\r\n0\r\n\r\n",
            "GET",
            200,
            "ok!",
        );
        check("HTTP/1.1 405 No\r\nallow: POST\r\nContent-Length: 9\r\n\r\n", "HEAD", 405, "");
        check("HTTP/1.1 204 None\r\n\r\n", "POST", 204, "");
        check("HTTP/1.0 503 Busy\r\n\r\nlater", "POST", 503, "later");
        assert!(read_answer(&mut "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok".as_bytes(), "GET").is_err());
    }

    #[test]
    fn a_blast_keeps_order_and_tells_who_got_no_answer() {
        let addr = echo_server();
        let request = |number: usize| encode(&addr, "POST", "/", &[], format!("{number}").as_bytes());
        let outcomes = blast(&addr, (0..10_000).map(request), 16);
        assert_eq!(outcomes.len(), 10_000);
        for (number, outcome) in outcomes.iter().enumerate() {
            assert!(matches!(outcome, Outcome::Ok(200, body) if *body == number.to_string().as_bytes()), "{outcome:?}");
        }
        let nobody = format!("127.0.0.1:{}", crate::free_port());
        assert!(matches!(&blast(&nobody, [request(1)], 2)[..], [Outcome::Info(_)]));
    }

    #[test]
    fn requests_under_way_are_answered_after_their_bodies() {
        let addr = echo_server();
        let request = |number: usize| encode(&addr, "POST", "/", &[], format!("{number}").as_bytes());
        let mut under_way = UnderWay::all(&addr, (0..50).map(request));
        under_way.send_bodies();
        for (number, outcome) in under_way.outcomes().iter().enumerate() {
            assert!(matches!(outcome, Outcome::Ok(200, body) if *body == number.to_string().as_bytes()), "{outcome:?}");
        }
    }

    fn echo_server() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port can be found");
        let addr = listener.local_addr().expect("a bound socket has an address").to_string();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || echo(stream));
            }
        });
        addr
    }

    fn echo(stream: TcpStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            read_line(&mut stream)?;
            let headers = read_headers(&mut stream)?;
            if headers.iter().any(|(name, _)| name == "expect") {
                stream.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
            let body = read_body(&mut stream, &Answer { status: 0, headers, body: Vec::new() })?;
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            stream.get_mut().write_all(&[head.as_bytes(), &body].concat())?;
        }
    }
}
