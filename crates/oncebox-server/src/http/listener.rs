//! The accept loop: header and idle deadlines, a cap on connections, and a stop that lets running requests finish.
//!
//! Own, because a public listener needs a header deadline and must not be reset while it answers: after an early
//! answer (413, 503) the rest of what the client sends is read and thrown away for a moment, or the answer is lost.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use oncebox::gateway::shutdown::Shutdown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore};
use tokio_util::task::TaskTracker;

use super::problem::Problem;
use super::strict_head::StrictHead;
use crate::http::write_timeout::WriteTimeout;
use crate::observe::rejections::{Refused, Rejections};

/// Headers must be there after this; an idle connection is closed after it too.
const HEADERS_WAIT: Duration = Duration::from_secs(10);
/// A head larger than this is answered 431.
const HEADER_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
/// How long the rest of a refused request is thrown away before the connection is closed.
const LINGER_WAIT: Duration = Duration::from_secs(1);
/// How long a client may take nothing of our answers.
const TAKE_WAIT: Duration = Duration::from_secs(30);
/// After a failed accept (out of file descriptors): long enough for others to close.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// At a stop, how long a connection that has not said a word yet may still begin.
const FIRST_WORD_WAIT: Duration = Duration::from_millis(500);
/// Connections still taken from the kernel's queue at a stop: as many as it holds.
const QUEUED_MAX: usize = 1_024;

/// Refused connections that get an answer at once; beyond it they are closed without one.
const REFUSALS_MAX: usize = 256;

/// What a connection knows about its peer.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
}

/// The future of a service: boxed, because the connection must be able to move it.
pub(crate) type ResponseFuture<B> = Pin<Box<dyn Future<Output = Result<Response<B>, Infallible>> + Send>>;

/// On which terms a listener serves.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) connections: usize,
    /// How long a stop waits for what is running.
    pub(crate) grace: Duration,
    /// Where requests are written down that no service ever sees.
    pub(crate) refusals: Option<Rejections>,
}

/// Serves connections until asked to stop, then waits up to the grace for what is running.
pub(crate) async fn serve<S, B>(listener: TcpListener, terms: Terms, service: impl Fn(Peer) -> S, shutdown: Shutdown)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future = ResponseFuture<B>>
        + Send
        + Unpin
        + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(terms.connections));
    let tasks = TaskTracker::new();
    let refusals = Refusals::new();
    let over = Shutdown::new();
    let take = |stream: TcpStream, address: SocketAddr| {
        // Answers are one small write: waiting to fill a packet would only delay them.
        let _ = stream.set_nodelay(true);
        let Ok(slot) = slots.clone().try_acquire_owned() else {
            if let Some(log) = &terms.refusals {
                log.refused(Refused::Connections, None, address.ip());
            }
            refusals.refuse(stream, &tasks);
            return;
        };
        let heard = Arc::new(Notify::new());
        let stream = StrictHead::new(stream, heard.clone(), terms.refusals.clone(), address.ip());
        let connection = serve_connection(stream, heard, service(Peer { address }), shutdown.clone());
        let over = over.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = connection => {}
                () = over.wait() => {}
            }
            drop(slot);
        });
    };
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.wait() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => take(stream, address),
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    for (stream, address) in queued(listener) {
        take(stream, address);
    }
    tasks.close();
    if tokio::time::timeout(terms.grace, tasks.wait()).await.is_err() {
        tracing::warn!("{} connections did not finish in time and are closed", tasks.len());
        over.request();
        tasks.wait().await;
    }
}

/// Connections that the kernel had made when the listener closed: they would be reset, and most have sent a request.
fn queued(listener: TcpListener) -> Vec<(TcpStream, SocketAddr)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let accepted = std::iter::from_fn(|| listener.accept().ok());
    let usable = accepted.take(QUEUED_MAX).filter_map(|(stream, address)| {
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, address))
    });
    usable.collect()
}

/// Answers connections that cannot be served, a bounded number of them with patience.
struct Refusals(Arc<Semaphore>);

impl Refusals {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(REFUSALS_MAX)))
    }

    fn refuse(&self, mut stream: TcpStream, tasks: &TaskTracker) {
        let Ok(slot) = self.0.clone().try_acquire_owned() else { return };
        tasks.spawn(async move {
            if let Ok(Ok(())) = tokio::time::timeout(LINGER_WAIT, stream.write_all(busy().as_bytes())).await {
                linger(stream).await;
            }
            drop(slot);
        });
    }
}

/// The answer of a connection that nobody reads from.
fn busy() -> String {
    Problem::unavailable("too many connections are open").to_wire()
}

async fn serve_connection<S, B>(stream: StrictHead, heard: Arc<Notify>, service: S, shutdown: Shutdown)
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future = ResponseFuture<B>>
        + Send
        + Unpin
        + 'static,
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let mut connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WAIT)
        .max_headers(HEADERS_MAX)
        .max_header_size(HEADER_BYTES_MAX)
        // A client that has said all it has to say still wants its answer.
        .half_close(true)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream, TAKE_WAIT)), service);
    let mut stop = pin!(async {
        shutdown.wait().await;
        // A connection of which nothing was read is closed without an answer, though its request may be on the way.
        let _ = tokio::time::timeout(FIRST_WORD_WAIT, heard.notified()).await;
    });
    let mut stopping = false;
    let ended = std::future::poll_fn(|cx| {
        if !stopping && stop.as_mut().poll(cx).is_ready() {
            stopping = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        connection.poll_without_shutdown(cx)
    })
    .await;
    if let Err(error) = ended {
        tracing::debug!("connection ended: {error}");
    }
    linger(connection.into_parts().io.into_inner().into_inner().into_inner()).await;
}

/// Closing a socket that still has unread bytes resets it, and the reset may overtake our answer.
async fn linger(mut stream: TcpStream) {
    let drained = async {
        stream.shutdown().await?;
        let mut rest = [0; 8 * 1024];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    // Either way the connection is closed now.
    let _ = tokio::time::timeout(LINGER_WAIT, drained).await;
}
