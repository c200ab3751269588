//! Refuses a bare line feed in a request's head.
//!
//! The parser below accepts one as the end of a line; a proxy in front of us may not, and two readers that disagree
//! about where a request ends are how requests are smuggled. The guard spoils such a head with a NUL, which the parser
//! answers with 400 and a close.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Whether the next bytes are a head.
#[derive(Clone, Debug)]
pub(crate) struct HeadGuard(Arc<AtomicBool>);

impl HeadGuard {
    /// A new connection begins with a head.
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// The body is through: what follows is a head again.
    pub(crate) fn expect_head(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// A stream whose heads are checked.
#[derive(Debug)]
pub(crate) struct StrictHead {
    stream: TcpStream,
    guard: HeadGuard,
    scan: Scan,
}

impl StrictHead {
    /// Guards a stream.
    pub(crate) fn new(stream: TcpStream, guard: HeadGuard) -> Self {
        Self { stream, guard, scan: Scan::default() }
    }

    /// The stream itself.
    pub(crate) fn into_inner(self) -> TcpStream {
        self.stream
    }
}

/// Where in a head we are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scan {
    after_return: bool,
    line_is_empty: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Scanned {
    More,
    HeadEnds,
    BareLineFeed(usize),
}

impl Scan {
    /// Reads on until the head ends. Every line must end with a carriage return and a line feed.
    fn read(&mut self, bytes: &[u8]) -> Scanned {
        for (at, byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' if !self.after_return => return Scanned::BareLineFeed(at),
                b'\n' if self.line_is_empty => {
                    *self = Self::default();
                    return Scanned::HeadEnds;
                }
                b'\n' => *self = Self { after_return: false, line_is_empty: true },
                b'\r' => self.after_return = true,
                _ => *self = Self::default(),
            }
        }
        Scanned::More
    }
}

impl AsyncRead for StrictHead {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if !matches!(read, Poll::Ready(Ok(()))) || !self.guard.0.load(Ordering::Acquire) {
            return read;
        }
        let new = &mut buf.filled_mut()[before..];
        match self.scan.read(new) {
            Scanned::More => {}
            Scanned::HeadEnds => self.guard.0.store(false, Ordering::Release),
            Scanned::BareLineFeed(at) => new[at] = 0,
        }
        read
    }
}

impl AsyncWrite for StrictHead {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&str], expected: Scanned) {
        let mut scan = Scan::default();
        let mut last = Scanned::More;
        for piece in pieces {
            last = scan.read(piece.as_bytes());
        }
        assert_eq!(last, expected, "{pieces:?}");
    }

    #[test]
    fn heads() {
        check(&["POST / HTTP/1.1\r\nhost: a\r\n\r\nbody\nmore"], Scanned::HeadEnds);
        check(&["POST / HTTP/1.1\r\nhost: a\r", "\n\r", "\n"], Scanned::HeadEnds);
        check(&["POST / HTTP/1.1\r\nhost: a\r\n"], Scanned::More);
        check(&["POST / HTTP/1.1\nhost: a\r\n\r\n"], Scanned::BareLineFeed(15));
        check(&["POST / HTTP/1.1\r\nhost: a\r\n", "\n"], Scanned::BareLineFeed(0));
    }
}
