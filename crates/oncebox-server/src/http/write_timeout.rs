//! Gives up on a peer that asks and never reads the answers.
//!
//! Header, body and idle deadlines all wait for something to be read. A peer that leaves its window shut is in none of
//! them: its connection would be held for as long as it likes, and a few thousand of them are all that we serve.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream whose peer must read.
#[derive(Debug)]
pub(crate) struct WriteTimeout<S> {
    stream: S,
    /// How long the peer may take nothing of what is written to it.
    wait: Duration,
    /// Runs while a write waits for the peer.
    patience: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(crate) fn new(stream: S, wait: Duration) -> Self {
        Self { stream, wait, patience: None }
    }

    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    /// Passes on what came of a write; one that has waited too long fails.
    fn watch<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.patience = None;
            return written;
        }
        let wait = self.wait;
        let patience = self.patience.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // A socket has nothing to flush, so a flush that is done says nothing about the peer.
        if flushed.is_pending() { self.watch(cx, flushed) } else { flushed }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_never_reads_is_given_up() {
        let (ours, _peer) = duplex(8);
        let mut stream = WriteTimeout::new(ours, Duration::from_millis(50));
        let error = stream.write_all(b"more than the peer's buffer holds").await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_reads_slowly_is_served() {
        let (ours, mut peer) = duplex(8);
        let mut stream = WriteTimeout::new(ours, Duration::from_secs(3));
        let writing = tokio::spawn(async move { stream.write_all(&[7; 64]).await });
        let mut taken = [0; 8];
        // Each pause is well within its patience, all of them together are not.
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            peer.read_exact(&mut taken).await.expect("it is written");
        }
        writing.await.expect("no panic").expect("all is taken in the end");
    }
}
