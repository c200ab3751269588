//! Posts one signed request and says what became of it.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use oncebox::gateway::outgoing::{CallError, Outgoing};
use oncebox_verify::Request;
use serde::Deserialize;
use url::Url;

use crate::http::own_calls;

const ANSWER_WAIT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) enum Answer {
    /// 2xx: the server has it.
    Stored {
        status: Status,
        /// The event's key, where the server said it.
        key: Option<String>,
    },
    /// 401: the server does not believe it.
    Rejected(String),
    /// Any other answer, or none.
    Failed(String),
    /// Nobody listens there.
    Unreachable(CallError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Accepted,
    Duplicate,
    /// Known, with another body.
    Conflict,
    /// Waits for a person.
    Held,
}

/// Posts to one URL. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Client {
    client: Outgoing,
    url: Url,
}

impl Client {
    pub(super) fn new(url: Url) -> anyhow::Result<Self> {
        Ok(Self { client: own_calls::client()?, url })
    }

    pub(super) async fn post(&self, request: &Request) -> Answer {
        // A signature may have been written into the query, or a token into the path.
        let url = self.url.join(&request.target).unwrap_or_else(|_invalid| self.url.clone());
        let mut call = match own_calls::call(request.method.clone(), url, ANSWER_WAIT) {
            Ok(call) => call,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        call.headers.extend(request.headers.clone());
        call.body = request.body.clone();
        match self.client.send(call).await {
            Ok(answer) => read(answer.status, &answer.headers, &answer.body),
            Err(error) if error.is_before_connected() => Answer::Unreachable(error),
            Err(error) => Answer::Failed(error.to_string()),
        }
    }
}

fn read(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Answer {
    #[derive(Deserialize)]
    struct Said {
        status: Status,
    }
    #[derive(Deserialize)]
    struct Problem {
        title: String,
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if status.is_success() {
        let said = header("oncebox-status").and_then(|word| serde_json::from_value(word.into()).ok());
        let said = said.or_else(|| serde_json::from_slice(body).ok().map(|said: Said| said.status));
        return match said {
            Some(status) => Answer::Stored { status, key: header("oncebox-key") },
            None => Answer::Failed(format!("{status}, but not from an inbox")),
        };
    }
    let title = serde_json::from_slice(body).map(|problem: Problem| format!(": {}", problem.title));
    let line = format!("{status}{}", title.unwrap_or_default());
    if status == StatusCode::UNAUTHORIZED { Answer::Rejected(line) } else { Answer::Failed(line) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, header: &str, body: &str, expected: &str) {
        let mut headers = HeaderMap::new();
        if !header.is_empty() {
            headers.insert("oncebox-status", header.parse().expect("a value"));
        }
        let found = read(StatusCode::from_u16(status).expect("a status"), &headers, body.as_bytes());
        assert!(format!("{found:?}").starts_with(expected), "{found:?} for {status} {body}");
    }

    #[test]
    fn answers() {
        check(200, "", r#"{"status":"accepted","key":"k"}"#, "Stored { status: Accepted");
        check(200, "", r#"{"status":"held"}"#, "Stored { status: Held");
        check(200, "duplicate", "<Response/>", "Stored { status: Duplicate");
        check(200, "", "<Response/>", "Failed(\"200 OK, but not");
        check(401, "", r#"{"title":"no"}"#, "Rejected(\"401 Unauthorized: no\")");
        check(404, "", "", "Failed(\"404 Not Found\")");
        check(503, "", r#"{"title":"later"}"#, "Failed(\"503 Service Unavailable: later\")");
    }
}
