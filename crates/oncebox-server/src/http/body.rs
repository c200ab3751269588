//! Reading a request's body: within the source's limit, the shared budget of bytes, and the deadline.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body must be there after this.
const BODY_WAIT: Duration = Duration::from_secs(30);
/// What the buffer of a body of unknown length begins with.
const FIRST_BUFFER: usize = 4 * 1024;

/// Bytes that may be held at once by all requests together. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ByteBudget(Arc<Semaphore>);

/// A share of the budget, given back on drop.
#[derive(Debug, Default)]
pub(crate) struct Share(Option<OwnedSemaphorePermit>);

impl ByteBudget {
    /// A budget of so many bytes.
    pub(crate) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS))))
    }

    /// Says at once when there is no room for so many. None are set aside: a length is quickly claimed by somebody who
    /// never sends a byte.
    fn expect(&self, bytes: usize) -> Result<(), BodyError> {
        if self.0.available_permits() < bytes { Err(BodyError::NoBudget) } else { Ok(()) }
    }

    /// Takes more bytes into a share, or says that there are none.
    fn take(&self, share: &mut Share, bytes: usize) -> Result<(), BodyError> {
        let bytes = u32::try_from(bytes).map_err(|_too_many| BodyError::TooLarge)?;
        let more = self.0.clone().try_acquire_many_owned(bytes).map_err(|_none_left| BodyError::NoBudget)?;
        match &mut share.0 {
            Some(held) => held.merge(more),
            None => share.0 = Some(more),
        }
        Ok(())
    }
}

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// Longer than the source allows.
    TooLarge,
    /// No bytes left in the budget.
    NoBudget,
    /// Not there in time.
    TooSlow,
    /// The client hung up or broke the protocol.
    Broken,
}

/// Reads a body of at most `limit` bytes. The share must live as long as the bytes do.
pub(crate) async fn read(body: Incoming, limit: usize, budget: &ByteBudget) -> Result<(Bytes, Share), BodyError> {
    match tokio::time::timeout(BODY_WAIT, collect(body, limit, budget)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(BodyError::TooSlow),
    }
}

/// The length a request declares, before anything of it is read.
pub(crate) fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn collect(mut body: Incoming, limit: usize, budget: &ByteBudget) -> Result<(Bytes, Share), BodyError> {
    let mut share = Share::default();
    let exact = body.size_hint().exact().map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    if let Some(length) = exact {
        if length > limit {
            return Err(BodyError::TooLarge);
        }
        budget.expect(length)?;
    }
    let mut first = Bytes::new();
    let mut buffer: Option<BytesMut> = None;
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_broken| BodyError::Broken)?.into_data() else { continue };
        length += data.len();
        if length > limit {
            return Err(BodyError::TooLarge);
        }
        budget.take(&mut share, data.len())?;
        match &mut buffer {
            // Most bodies come in one piece, which needs no copy.
            None if first.is_empty() => first = data,
            None => {
                let mut joined = BytesMut::with_capacity(exact.unwrap_or(FIRST_BUFFER).max(length));
                joined.extend_from_slice(&first);
                joined.extend_from_slice(&data);
                buffer = Some(joined);
            }
            Some(buffer) => buffer.extend_from_slice(&data),
        }
    }
    Ok((buffer.map_or(first, BytesMut::freeze), share))
}
