//! Why an application's code could not handle an event: two arms, because there are two consequences.

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why code could not handle an event. Any error becomes [`HandlerError::Retry`]; rejecting is always explicit.
#[derive(Debug)]
#[non_exhaustive]
pub enum HandlerError {
    /// Another try may succeed.
    Retry(BoxError),
    /// No try will succeed.
    Reject(BoxError),
}

impl HandlerError {
    /// Another try may succeed: for reasons that are no error of their own.
    pub fn retry(reason: impl Into<BoxError>) -> Self {
        Self::Retry(reason.into())
    }

    /// No try will succeed.
    pub fn reject(reason: impl Into<BoxError>) -> Self {
        Self::Reject(reason.into())
    }

    /// The whole chain of causes in one line, for a log.
    pub fn chain(&self) -> String {
        let (Self::Retry(error) | Self::Reject(error)) = self;
        chain(error.as_ref())
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::Retry(error.into())
    }
}
