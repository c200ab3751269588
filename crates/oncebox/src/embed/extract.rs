//! The axum extractor: a handler that takes [`Verified`] runs only for requests whose signature is good.
//!
//! Everything else is answered before the handler is called: handshakes, refusals, bodies that are too long. The raw
//! bytes are read within the source's limit and verified before anything parses them.

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, OriginalUri, Request};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::embed::receive::{Answer, Receiver, Verified};

impl<S> FromRequest<S> for Verified
where
    Receiver: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = Answer;

    async fn from_request(request: Request, state: &S) -> Result<Self, Answer> {
        let receiver = Receiver::from_ref(state);
        let (head, body) = request.into_parts();
        if head.headers.get(CONTENT_ENCODING).is_some_and(|value| value != "identity") {
            return Err(Answer::content_encoding());
        }
        let limited = Limited::new(body, receiver.body_bytes_max());
        let body = limited.collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() { Answer::too_large() } else { Answer::broken_body() }
        })?;
        // A router that is nested in another one sees a shorter path than the sender signed.
        let uri = head.extensions.get::<OriginalUri>().map_or(&head.uri, |original| &original.0).clone();
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let request =
            oncebox_verify::Request { method: head.method, target, headers: head.headers, body: body.to_bytes() };
        // A token in the path is the last part of it.
        let token = receiver.source().has_path_token().then(|| uri.path().rsplit('/').next()).flatten();
        receiver.receive(&request, token).await
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let reply = self.into_reply();
        let mut response = Response::new(Body::from(reply.body));
        *response.status_mut() = reply.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        for (name, value) in reply.headers {
            headers.insert(name, value);
        }
        response
    }
}
