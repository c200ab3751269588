//! Who may use the admin listener: Host and Origin first, then a bearer token, a session, or loopback without tokens.
//!
//! Host is checked, so that a page in a browser cannot reach us by renaming itself; Origin and `Sec-Fetch-Site`, so that
//! it cannot act through somebody's browser; and whatever a session changes carries the session's form token besides.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use arc_swap::ArcSwap;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN, REFERER, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use oncebox_verify::Secret;
use percent_encoding::{AsciiSet, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::admin::Admin;
use crate::admin::login_limit::{BEARERS_MAX, LOGINS_MAX, LoginLimit, TooOften};
use crate::admin::session::{Channel, Opened, Sessions, same};
use crate::admin::submitted::Teller;
use crate::config::handler::HandlerConfig;
use crate::config::server::ServerConfig;
use crate::http::problem::Problem;
use crate::http::{UNRESERVED, client};

/// Where a script of ours shows the form token of its session.
pub(crate) const FORM_TOKEN: HeaderName = HeaderName::from_static("oncebox-form-token");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// Looks and acts.
    Operator,
    /// Looks.
    Viewer,
}

/// Whoever a request comes from: an extension of every request that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) role: Role,
    pub(crate) proof: Proof,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It showed a token, which no page of somebody else can do.
    Bearer,
    /// It has a session; its forms carry this token.
    Session { form_token: String },
    /// There are no tokens; forms carry this one.
    Open { form_token: String },
}

/// A program that showed a handler's token: an extension of its requests in place of a role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    /// The handler whose deliveries it may claim and end.
    pub(crate) handler: String,
}

/// What the config says about access: replaced by a reload.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    operator: Option<Secret>,
    viewer: Option<Secret>,
    consumers: Vec<(String, Secret)>,
    hosts: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Guard {
    access: ArcSwap<Access>,
    sessions: Sessions,
    logins: LoginLimit,
    /// Apart from logins: whoever guesses there must not keep machines out.
    bearers: LoginLimit,
    listens_on: SocketAddr,
}

#[derive(Debug)]
pub(crate) enum LoginRefusal {
    Wrong,
    /// Too many wrong ones; come again after so many seconds.
    TooOften(u32),
    /// There are no tokens, so that nobody needs to log in.
    NotNeeded,
    NoRandomness,
}

impl Caller {
    /// What forms on a page for this caller carry in the field `form_token`; none for a bearer, who sees no pages.
    pub(crate) fn form_token(&self) -> Option<&str> {
        match &self.proof {
            Proof::Bearer => None,
            Proof::Session { form_token } | Proof::Open { form_token } => Some(form_token),
        }
    }

    /// True for a form that one of our pages made for this caller.
    pub(crate) fn wrote(&self, form_token: Option<&str>) -> bool {
        match self.form_token() {
            Some(expected) => form_token.is_some_and(|given| same(given.as_bytes(), expected.as_bytes())),
            None => true,
        }
    }
}

impl Access {
    /// Reads what the config says; a blank token counts as none.
    pub(crate) fn new(config: &ServerConfig, handlers: &[HandlerConfig]) -> Self {
        let filled = |token: &Option<Secret>| token.clone().filter(|token| !token.is_blank());
        let consumer = |handler: &HandlerConfig| Some((handler.name().to_owned(), filled(&handler.token)?));
        Self {
            operator: filled(&config.admin_token),
            viewer: filled(&config.viewer_token),
            consumers: handlers.iter().filter_map(consumer).collect(),
            hosts: config.admin_hosts.clone(),
        }
    }

    /// The handler whose token this is. Compares with every token, however the first comparison went.
    fn consumer_of(&self, given: &[u8]) -> Option<Consumer> {
        let fits = self.consumers.iter().fold(None, |found, (handler, token)| {
            let is_this = same(token.expose(), given);
            found.or(is_this.then_some(handler))
        });
        fits.map(|handler| Consumer { handler: handler.clone() })
    }

    fn has_tokens(&self) -> bool {
        self.operator.is_some() || self.viewer.is_some()
    }

    /// Compares with every token, however the first comparison went.
    fn role_of(&self, given: &[u8]) -> Option<Role> {
        let fits = |token: &Option<Secret>| token.as_ref().is_some_and(|token| same(token.expose(), given));
        match (fits(&self.operator), fits(&self.viewer)) {
            (true, _) => Some(Role::Operator),
            (false, true) => Some(Role::Viewer),
            (false, false) => None,
        }
    }

    fn token_of(&self, role: Role) -> Option<&Secret> {
        match role {
            Role::Operator => self.operator.as_ref(),
            Role::Viewer => self.viewer.as_ref(),
        }
    }
}

impl Guard {
    pub(crate) fn new(access: Access, listens_on: SocketAddr) -> std::io::Result<Self> {
        let sessions = Sessions::new()?;
        let (logins, bearers) = (LoginLimit::new(LOGINS_MAX), LoginLimit::new(BEARERS_MAX));
        Ok(Self { access: ArcSwap::from_pointee(access), sessions, logins, bearers, listens_on })
    }

    /// True where these tokens would leave the bound address open to other machines.
    pub(crate) fn would_be_open(&self, access: &Access) -> bool {
        !self.listens_on.ip().is_loopback() && access.operator.is_none()
    }

    /// Takes changed tokens and names; sessions of tokens that are gone end with this.
    pub(crate) fn replace(&self, access: Access) {
        self.access.store(access.into());
    }

    pub(crate) fn log_in(&self, peer: IpAddr, token: &[u8], channel: Channel) -> Result<Opened, LoginRefusal> {
        let access = self.access.load();
        if !access.has_tokens() {
            return Err(LoginRefusal::NotNeeded);
        }
        self.logins.begin(peer, Instant::now()).map_err(|TooOften(seconds)| LoginRefusal::TooOften(seconds))?;
        let Some(role) = access.role_of(token) else {
            tracing::warn!(address = %peer, "a login with a wrong token");
            return Err(LoginRefusal::Wrong);
        };
        self.logins.succeeded(peer);
        self.sessions.open(role, token, channel).map_err(|_error| LoginRefusal::NoRandomness)
    }

    /// Ends the session of a request and gives the cookie that says so.
    pub(crate) fn log_out(&self, headers: &HeaderMap) -> HeaderValue {
        self.sessions.end(headers)
    }

    /// The consumer whose token a request shows, if it is one.
    fn consumer(&self, headers: &HeaderMap) -> Option<Consumer> {
        self.access.load().consumer_of(headers.get(AUTHORIZATION).and_then(bearer)?)
    }

    /// Whoever a request comes from, if we know. A wrong token is not made good by a session, and a consumer's token is
    /// nobody's but the consumer's, even where no other is needed.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Option<Caller> {
        if self.consumer(headers).is_some() {
            return None;
        }
        let access = self.access.load();
        if !access.has_tokens() {
            let proof = Proof::Open { form_token: self.sessions.open_form_token() };
            return Some(Caller { role: Role::Operator, proof });
        }
        if let Some(given) = headers.get(AUTHORIZATION) {
            let role = access.role_of(bearer(given)?)?;
            return Some(Caller { role, proof: Proof::Bearer });
        }
        let found = self.sessions.find(headers)?;
        let token = access.token_of(found.role)?;
        let lasts = same(&self.sessions.mark(token.expose()), &found.opened_with);
        lasts.then_some(Caller { role: found.role, proof: Proof::Session { form_token: found.form_token } })
    }

    /// The same, unless too many wrong tokens came from this address lately.
    fn admit(&self, address: IpAddr, headers: &HeaderMap) -> Result<Option<Caller>, TooOften> {
        let caller = self.caller(headers);
        let shown = headers.get(AUTHORIZATION).and_then(bearer);
        let Some(shown) = shown.filter(|_| self.access.load().has_tokens()) else { return Ok(caller) };
        let wrong = caller.is_none().then(|| self.sessions.mark(shown));
        if self.bearers.judge(address, wrong, Instant::now())? {
            tracing::warn!(%address, "a request with a wrong token");
        }
        Ok(caller)
    }

    /// Every name that the request gives us is one of the house's: the one Host, and that of a target with a name in it.
    fn is_for_us(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(Ok(host)), None) = (hosts.next().map(HeaderValue::to_str), hosts.next()) else { return false };
        self.is_house_name(host) && uri.authority().is_none_or(|authority| self.is_house_name(authority.as_str()))
    }

    /// `localhost`, a plain address, or a name from the config: what cannot be rebound.
    fn is_house_name(&self, host: &str) -> bool {
        let port = |(_, port): &(&str, &str)| port.bytes().all(|c| c.is_ascii_digit());
        let name = host.rsplit_once(':').filter(port).map_or(host, |(name, _)| name);
        let address = name.trim_start_matches('[').trim_end_matches(']');
        name.eq_ignore_ascii_case("localhost")
            || address.parse::<IpAddr>().is_ok()
            || self.access.load().hosts.iter().any(|one| one.eq_ignore_ascii_case(name))
    }
}

/// Refuses other sites' pages, and adds to every answer what keeps a browser from misusing it.
pub(crate) async fn check_site(admin: Admin, mut request: Request, next: Next) -> Response {
    if let Some(refused) = refuse_site(&admin.guard, &request) {
        return with_headers(refuse(refused));
    }
    // No name, type or text of ours holds a NUL, and Postgres cannot even compare with one.
    if request.uri().path_and_query().is_some_and(|target| target.as_str().contains("%00")) {
        return with_headers(refuse(Problem::bad_request("a NUL stands in the URL")));
    }
    let address = address_of(&admin, &request);
    if let Some(consumer) = admin.guard.consumer(request.headers()) {
        match admin.guard.bearers.judge(address, None, Instant::now()) {
            Ok(_) => drop(request.extensions_mut().insert(consumer)),
            Err(too_often) => drop(request.extensions_mut().insert(too_often)),
        }
        return with_headers(next.run(request).await);
    }
    match admin.guard.admit(address, request.headers()) {
        Ok(Some(caller)) if !is_own_page(&caller, &request) => {
            return with_headers(refuse(Problem::forbidden("the form token of this session is missing")));
        }
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller.role);
            request.extensions_mut().insert(Teller::new(&caller, address));
            request.extensions_mut().insert(caller);
        }
        Ok(None) => {}
        // Nobody, like whoever shows nothing: what needs no token is still answered.
        Err(too_often) => drop(request.extensions_mut().insert(too_often)),
    }
    with_headers(next.run(request).await)
}

/// Where a request comes from: the connection's address, or what the trusted proxies in front of us saw; theirs where
/// that cannot be read.
fn address_of(admin: &Admin, request: &Request) -> IpAddr {
    let peer = peer_of(request);
    client::client(peer, request.headers(), admin.trusted_proxies).unwrap_or(peer)
}

fn peer_of(request: &Request) -> IpAddr {
    request.extensions().get::<SocketAddr>().map_or(IpAddr::from([0; 4]), SocketAddr::ip)
}

/// True for whoever sits at this machine. Behind a proxy on the same machine every connection comes from it, so that
/// what was forwarded counts by the client that a trusted proxy saw, and else as somebody from elsewhere.
fn is_local(peer: IpAddr, headers: &HeaderMap, trusted_proxies: usize) -> bool {
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    let client = client::client(peer, headers, trusted_proxies);
    let is_forwarded_here = trusted_proxies > 0 && headers.contains_key("x-forwarded-for");
    is_loopback(peer) && (!client::is_forwarded(headers) || is_forwarded_here && client.is_some_and(is_loopback))
}

/// The answer to somebody whom we do not know, who was wrong too often, or whose token is for something else.
fn stranger(request: &Request) -> Response {
    if request.extensions().get::<Consumer>().is_some() {
        return refuse(Problem::forbidden("this token opens claim, finish, fail and extend of its handler alone"));
    }
    match request.extensions().get::<TooOften>() {
        Some(TooOften(seconds)) => refuse(Problem::too_often(*seconds)),
        None => {
            let mut refusal = refuse(Problem::unauthorized());
            refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            refusal
        }
    }
}

pub(crate) async fn need_viewer(request: Request, next: Next) -> Response {
    match request.extensions().get::<Role>() {
        Some(_) => next.run(request).await,
        None => stranger(&request),
    }
}

pub(crate) async fn need_operator(request: Request, next: Next) -> Response {
    match request.extensions().get::<Role>() {
        Some(Role::Operator) => next.run(request).await,
        Some(Role::Viewer) => refuse(Problem::forbidden("this token may look and not act")),
        None => stranger(&request),
    }
}

/// Lets in whoever may act, and consumers: what is their own is told where it is claimed and ended.
pub(crate) async fn need_consumer(request: Request, next: Next) -> Response {
    match request.extensions().get::<Consumer>() {
        Some(_) => next.run(request).await,
        None => need_operator(request, next).await,
    }
}

/// Lets in whoever may look, and everybody on this machine.
pub(crate) async fn need_viewer_beyond_loopback(admin: Admin, request: Request, next: Next) -> Response {
    if is_local(peer_of(&request), request.headers(), admin.trusted_proxies) {
        return next.run(request).await;
    }
    need_viewer(request, next).await
}

/// Lets in whoever may look; a person without a session is sent to the login page.
pub(crate) async fn need_login(request: Request, next: Next) -> Response {
    if request.extensions().get::<Role>().is_some() {
        return next.run(request).await;
    }
    if request.extensions().get::<TooOften>().is_some() || request.extensions().get::<Consumer>().is_some() {
        return stranger(&request);
    }
    let back: String = form_encoded(&page_of(&request));
    Redirect::to(&format!("/login?next={back}")).into_response()
}

fn refuse_site(guard: &Guard, request: &Request) -> Option<Problem> {
    let (method, headers) = (request.method(), request.headers());
    if !guard.access.load().has_tokens() && client::is_forwarded(headers) {
        let detail = "a proxy forwarded this, and without server.admin_token everybody behind it would be the operator";
        return Some(Problem::forbidden(detail));
    }
    if !guard.is_for_us(request.uri(), headers) {
        return Some(Problem::forbidden("this Host is not one of ours; server.admin_hosts in the config names others"));
    }
    if !is_own_origin(headers) {
        return Some(Problem::forbidden("this Origin is not ours"));
    }
    if !is_own_fetch(method, headers) {
        return Some(Problem::forbidden("another site's page may not call this"));
    }
    None
}

/// The page that somebody without a session wanted, or pressed a button on: a form's target is none.
fn page_of(request: &Request) -> String {
    if request.method().is_safe() {
        return request.uri().path_and_query().map_or("/", |target| target.as_str()).to_owned();
    }
    let referer = request.headers().get(REFERER).and_then(|referer| referer.to_str().ok()?.parse::<Uri>().ok());
    // Another site's is refused before, and a path alone leads nowhere else.
    referer.as_ref().and_then(Uri::path_and_query).map_or("/", |target| target.as_str()).to_owned()
}

/// The token of a bearer; the word before it may be written in any case.
fn bearer(given: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = given.as_bytes().split_at_checked(b"bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}

/// A page that calls us must be our own.
fn is_own_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let host = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    host.is_some() && host == text(HOST)
}

/// A browser says where a request comes from. A link from elsewhere may lead to a page of ours; nothing else may.
fn is_own_fetch(method: &Method, headers: &HeaderMap) -> bool {
    let Some(site) = headers.get(SEC_FETCH_SITE) else { return true };
    let own = site == "same-origin" || site == "none";
    let link = method.is_safe() && headers.get(SEC_FETCH_MODE).is_some_and(|mode| mode == "navigate");
    own || link
}

/// A session travels with every request of the browser, so that what changes something must also show the form token:
/// scripts in a header; forms in a field, which is checked where the form is read, outside the API.
fn is_own_page(caller: &Caller, request: &Request) -> bool {
    if request.method().is_safe() || !matches!(caller.proof, Proof::Session { .. }) {
        return true;
    }
    let is_form = request
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().to_ascii_lowercase().starts_with(b"application/x-www-form-urlencoded"));
    let given = request.headers().get(FORM_TOKEN).and_then(|token| token.to_str().ok());
    (is_form && !request.uri().path().starts_with("/api/")) || caller.wrote(given)
}

/// A page that has a policy of its own keeps it.
fn with_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'");
    headers.entry(CONTENT_SECURITY_POLICY).or_insert(policy);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    // Without a referrer a browser would hide the Origin of our own forms as well.
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

fn refuse(problem: Problem) -> Response {
    problem.into_response().map(axum::body::Body::new)
}

fn form_encoded(text: &str) -> String {
    const ESCAPED: &AsciiSet = &UNRESERVED.remove(b'/');
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests;
