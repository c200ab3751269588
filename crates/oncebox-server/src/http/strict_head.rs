//! Refuses a bare line feed, a length that is not plain digits, and a second length, in a request's head.
//!
//! The parser below accepts one as the end of a line; a proxy in front of us may not, and two readers that disagree
//! about where a request ends are how requests are smuggled. The guard follows the stream on its own, heads and bodies,
//! so that the second request of a connection is read as strictly as the first wherever the pieces are cut. It spoils
//! a bad head with a NUL, which the parser answers with 400 and a close.
//!
//! What the parser answers by itself has no body. On its way out it gets the one that every error has.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::problem::Problem;
use crate::http::TARGET_BYTES_MAX;
use crate::observe::rejections::{Refused, Rejections};

/// How much of a line is looked at: more than any length needs.
const LINE_KEPT: usize = 64;

/// A stream whose heads are checked.
#[derive(Debug)]
pub(crate) struct StrictHead {
    stream: TcpStream,
    scan: Scan,
    /// Told once, when the first bytes are read.
    heard: Option<Arc<Notify>>,
    /// An answer that goes out in place of the parser's, and how much of it is gone.
    problem_body: Option<(String, usize)>,
    /// Where that is written down, and whose request it was.
    refusals: Option<Rejections>,
    remote: IpAddr,
}

impl StrictHead {
    /// Guards a stream and tells when something was heard on it.
    pub(crate) fn new(stream: TcpStream, heard: Arc<Notify>, refusals: Option<Rejections>, remote: IpAddr) -> Self {
        Self { stream, scan: Scan::default(), heard: Some(heard), problem_body: None, refusals, remote }
    }

    pub(crate) fn into_inner(self) -> TcpStream {
        self.stream
    }
}

/// Where in the stream we are.
#[derive(Debug, Default)]
struct Scan {
    /// What is left of a body before the next head begins.
    body_left: usize,
    /// Nothing after this is a head: the connection ends with this request.
    over: bool,
    /// The beginning of the line that is being read, and its whole length.
    line: Vec<u8>,
    line_len: usize,
    after_return: bool,
    /// A line that is not empty was seen: empty ones before it do not end the head.
    begun: bool,
    /// The first line of the last head was longer than a target may be.
    long_target: bool,
    length: Option<usize>,
    chunked: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Spoilt;

impl Scan {
    /// Reads on and returns where the stream must be spoilt, if it must.
    fn read(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() && !self.over {
            let rest = &bytes[at..];
            if self.body_left > 0 {
                let skipped = self.body_left.min(rest.len());
                (self.body_left, at) = (self.body_left - skipped, at + skipped);
                continue;
            }
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                self.keep(rest);
                return None;
            };
            self.keep(&rest[..end]);
            at += end;
            if self.end_line() == Err(Spoilt) {
                self.over = true;
                return Some(at);
            }
            at += 1;
        }
        None
    }

    fn keep(&mut self, piece: &[u8]) {
        let room = LINE_KEPT.saturating_sub(self.line.len()).min(piece.len());
        self.line.extend_from_slice(&piece[..room]);
        self.line_len += piece.len();
        if let Some(last) = piece.last() {
            self.after_return = *last == b'\r';
        }
    }

    /// Every line must end with a carriage return and a line feed.
    fn end_line(&mut self) -> Result<(), Spoilt> {
        if !std::mem::take(&mut self.after_return) {
            return Err(Spoilt);
        }
        let is_empty = self.line_len == 1;
        match is_empty {
            true if self.begun => self.end_head(),
            true => {}
            false => self.read_field()?,
        }
        self.line.clear();
        self.line_len = 0;
        Ok(())
    }

    /// Whether the request fails by its target, however the parser puts it.
    fn has_long_target(&self) -> bool {
        self.long_target || (!self.begun && self.line_len > TARGET_BYTES_MAX)
    }

    fn read_field(&mut self) -> Result<(), Spoilt> {
        if !self.begun {
            self.long_target = self.line_len > TARGET_BYTES_MAX;
        }
        self.begun = true;
        let colon = self.line.iter().position(|byte| *byte == b':');
        let Some((name, value)) = colon.map(|at| (&self.line[..at], self.line[at + 1..].trim_ascii())) else {
            return Ok(());
        };
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.chunked = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let plain = !value.is_empty() && value.iter().all(u8::is_ascii_digit) && self.line_len <= LINE_KEPT;
            let digits = std::str::from_utf8(value).ok().filter(|_| plain);
            let length = digits.and_then(|digits| digits.parse().ok()).ok_or(Spoilt)?;
            // Equal or not: whoever joins the two lines, or reads only one, must not be found to disagree with us.
            if self.length.replace(length).is_some() {
                return Err(Spoilt);
            }
        }
        Ok(())
    }

    /// A chunked body is the last on its connection: see the public listener.
    fn end_head(&mut self) {
        self.over = self.chunked;
        self.body_left = self.length.take().unwrap_or(0);
        self.begun = false;
    }
}

impl AsyncRead for StrictHead {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if matches!(read, Poll::Ready(Ok(()))) {
            let new = &mut buf.filled_mut()[before..];
            if !new.is_empty()
                && let Some(heard) = self.heard.take()
            {
                heard.notify_one();
            }
            if let Some(at) = self.scan.read(new) {
                new[at] = 0;
            }
        }
        read
    }
}

impl AsyncWrite for StrictHead {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.problem_body.is_none() {
            let answer = problem_body(bytes, this.scan.has_long_target());
            if let (Some((reason, _)), Some(log)) = (&answer, &this.refusals) {
                log.refused(*reason, None, this.remote);
            }
            this.problem_body = answer.map(|(_, problem)| (problem.to_wire(), 0));
        }
        let Some((answer, gone)) = &mut this.problem_body else {
            return Pin::new(&mut this.stream).poll_write(cx, bytes);
        };
        while *gone < answer.len() {
            match ready!(Pin::new(&mut this.stream).poll_write(cx, &answer.as_bytes()[*gone..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                more => *gone += more,
            }
        }
        this.problem_body = None;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match slices {
            [head] => self.poll_write(cx, head),
            _ => Pin::new(&mut self.stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// The answer with a body for one of the parser's own; nothing for everybody else's, which have one.
fn problem_body(bytes: &[u8], has_long_target: bool) -> Option<(Refused, Problem)> {
    let head = bytes.strip_prefix(b"HTTP/1.").filter(|head| head.get(1..3) == Some(b" 4"))?;
    let head = std::str::from_utf8(head).ok()?.strip_suffix("\r\n\r\n")?;
    head.split("\r\n").find(|line| line.eq_ignore_ascii_case("content-length: 0"))?;
    Some(match head.get(2..5)? {
        "400" => (Refused::MalformedHead, Problem::bad_request("the head of the request is malformed")),
        "414" => (Refused::LongTarget, Problem::target_too_long()),
        // The parser counts the head as a whole.
        "431" if has_long_target => (Refused::LongTarget, Problem::target_too_long()),
        "431" => (Refused::LargeHead, Problem::head_too_large()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parsers_answers_are_worded() {
        let bare = "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        let problem_body =
            |bytes: &[u8], has_long_target| problem_body(bytes, has_long_target).map(|(_, problem)| problem.to_wire());
        let answer = problem_body(bare.as_bytes(), false).expect("it has no body of its own");
        assert!(
            answer
                .starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/problem+json")
        );
        assert!(answer.contains("urn:oncebox:problem:head-too-large"), "{answer}");
        assert!(
            problem_body(bare.replace("431", "400").as_bytes(), false)
                .is_some_and(|answer| answer.contains("\"status\":400"))
        );
        assert!(problem_body(bare.as_bytes(), true).is_some_and(|answer| answer.starts_with("HTTP/1.1 414 ")));
        for other in [
            bare.replace("431", "200"),
            bare.replace("431", "404"),
            bare.replace(": 0", ": 02"),
            bare.trim_end().to_owned(),
            Problem::head_too_large().to_wire(),
            String::new(),
        ] {
            assert_eq!(problem_body(other.as_bytes(), true), None, "{other}");
        }
    }

    /// Where a stream is spoilt, whatever the pieces it comes in.
    fn check(stream: &str, expected: Option<usize>) {
        for size in 1..=stream.len() {
            let mut scan = Scan::default();
            let pieces = stream.as_bytes().chunks(size).enumerate();
            let found = pieces.filter_map(|(number, piece)| Some(number * size + scan.read(piece)?)).next();
            assert_eq!(found, expected, "{stream:?} in pieces of {size}");
        }
    }

    #[test]
    fn heads() {
        check("POST / HTTP/1.1\r\nhost: a\r\n\r\n", None);
        check("\r\n\r\nPOST / HTTP/1.1\r\nhost: a\r\n\r\n", None);
        check("POST / HTTP/1.1\nhost: a\r\n\r\n", Some(15));
        check("POST / HTTP/1.1\r\nhost: a\r\n\n", Some(26));
        check("\nPOST / HTTP/1.1\r\n", Some(0));
    }

    #[test]
    fn bodies_are_left_alone_and_what_follows_is_a_head() {
        check("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\na\n\nPOST / HTTP/1.1\r\n\r\n", None);
        check("POST / HTTP/1.1\r\ncontent-length:3 \r\n\r\na\n\nPOST / HTTP/1.1\n\r\n", Some(56));
        check("GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\n", Some(32));
        check("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n\n", None);
    }

    #[test]
    fn a_length_is_plain_digits_and_one() {
        for length in ["+5", "0x5", "5,5", "5, 5", "-1", "", "5 5", "99999999999999999999"] {
            let stream = format!("POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
            check(&stream, Some(stream.len() - 3));
        }
        for second in ["5", "6"] {
            let two = format!("POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: {second}\r\n\r\n");
            check(&two, Some(two.len() - 3));
        }
        // Each request has its own.
        let request = "POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n\n\n";
        check(&[request, request].concat(), None);
    }
}
