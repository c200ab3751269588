//! Why an application's code could not handle an event: two arms, because there are two consequences.

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Why code could not handle an event. Any error becomes [`HandlerError::Retry`]; rejecting is always explicit.
#[derive(Debug)]
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
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::Retry(error.into())
    }
}
