//! An action as a caller of the API submits it: with one id for body and header, and with who asks from where.

use std::net::IpAddr;

use axum::extract::{FromRequest, Request};
use axum::{Extension, Json, RequestExt as _};
use http::HeaderMap;
use serde::de::DeserializeOwned;

use crate::admin::api::{ApiError, JsonBody};
use crate::admin::guard::{Caller, Proof, Role};
use crate::http::problem::Problem;
use crate::query::actions::ActionRequest;
use crate::query::deliveries::PauseRequest;
use crate::query::erase::EraseRequest;

/// Who asks, for the audit log: an extension of every request that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Teller {
    Caller {
        role: Role,
        /// How it is known.
        by: &'static str,
        address: IpAddr,
    },
    /// A command that asks the database itself, on behalf of this person.
    Owner(String),
}

impl Teller {
    pub(super) fn new(caller: &Caller, address: IpAddr) -> Self {
        let by = match (&caller.proof, caller.role) {
            (Proof::Open { .. }, _) => "no token",
            (_, Role::Operator) => "admin_token",
            (_, Role::Viewer) => "viewer_token",
        };
        Self::Caller { role: caller.role, by, address }
    }

    /// What we know first, and then, in quotes, what the caller says: nobody can write the one into the other.
    pub(crate) fn says(&self, own: Option<&str>) -> String {
        let (role, by, address) = match self {
            Self::Caller { role: Role::Operator, by, address } => ("operator", by, address),
            Self::Caller { role: Role::Viewer, by, address } => ("viewer", by, address),
            Self::Owner(name) => return own.unwrap_or(name).to_owned(),
        };
        let known = format!("{role} ({by}) from {address}");
        own.map_or(known.clone(), |own| format!("{known} as {own:?}"))
    }
}

/// Who asks, as the audit log names them: the caller, and who the body says, which may be left out.
#[derive(Debug)]
pub(crate) struct Asker(pub(crate) String);

impl<S: Send + Sync> FromRequest<S> for Asker {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, ApiError> {
        let teller = teller(&mut request).await?;
        let body = Option::<Json<PauseRequest>>::from_request(request, state).await;
        let body = body.map_err(|no| Problem::bad_request(no.body_text()))?;
        Ok(Self(teller.says(body.and_then(|Json(body)| body.who).as_deref())))
    }
}

async fn teller(request: &mut Request) -> Result<Teller, Problem> {
    let teller = request.extract_parts::<Extension<Teller>>().await;
    teller.map(|Extension(teller)| teller).map_err(|_missing| Problem::bad_request("the caller is not known"))
}

/// What every action carries besides what it is about.
pub(crate) trait Action: DeserializeOwned + 'static {
    /// The id under which it acts once, and who asks.
    fn id_and_who(&mut self) -> (&mut Option<String>, &mut Option<String>);
}

impl Action for ActionRequest {
    fn id_and_who(&mut self) -> (&mut Option<String>, &mut Option<String>) {
        (&mut self.action_id, &mut self.who)
    }
}

impl Action for EraseRequest {
    fn id_and_who(&mut self) -> (&mut Option<String>, &mut Option<String>) {
        (&mut self.action_id, &mut self.who)
    }
}

/// An action, ready to be looked at.
pub(crate) struct Submitted<T>(pub(crate) T);

impl<T: Action, S: Send + Sync> FromRequest<S> for Submitted<T> {
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, ApiError> {
        let teller = teller(&mut request).await?;
        let headers = request.headers().clone();
        let JsonBody(mut action) = JsonBody::<T>::from_request(request, state).await?;
        let (id, who) = action.id_and_who();
        *id = action_id(id.take(), &headers)?;
        *who = Some(teller.says(who.as_deref()));
        Ok(Self(action))
    }
}

/// The id of the body or of the header: one and the same.
fn action_id(given: Option<String>, headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut lines = headers.get_all("idempotency-key").into_iter();
    let Some(line) = lines.next() else { return Ok(given) };
    let key = line.to_str().map_err(|_error| Problem::bad_request("Idempotency-Key must be plain text"))?;
    if lines.next().is_some() || given.as_deref().is_some_and(|given| given != key) {
        return Err(Problem::bad_request("Idempotency-Key and action_id name different actions; give one of them"));
    }
    Ok(Some(key.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_and_the_body_name_one_action() {
        let check = |body: Option<&str>, lines: &[&'static str], expected: Result<Option<&str>, ()>| {
            let named = |line: &&'static str| {
                (http::HeaderName::from_static("idempotency-key"), line.parse().expect("a value"))
            };
            let headers: HeaderMap = lines.iter().map(named).collect();
            let found = action_id(body.map(str::to_owned), &headers).map_err(|_problem| ());
            assert_eq!(found, expected.map(|id| id.map(str::to_owned)), "{body:?} {lines:?}");
        };
        check(None, &[], Ok(None));
        check(Some("a"), &[], Ok(Some("a")));
        check(None, &["a"], Ok(Some("a")));
        check(Some("a"), &["a"], Ok(Some("a")));
        check(Some("a"), &["b"], Err(()));
        check(None, &["a", "b"], Err(()));
    }
}
