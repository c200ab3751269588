//! Browser sessions: opened by a login with a token, kept in memory, ended by time, by logout and by a change of the
//! token.
//!
//! The cookie holds a random id; here only its digest is kept, so that a look into memory or a dump opens nothing. Every
//! session has a form token, which a page of ours shows and a page of somebody else cannot read.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use ring::{digest, hmac};
use subtle::ConstantTimeEq;

use crate::admin::guard::Role;
use crate::http::token::random;

/// How long a session lasts, used or not.
pub(crate) const SESSION_LASTS: Duration = Duration::from_secs(12 * 60 * 60);
/// More sessions than this push out the one that would end first.
const SESSIONS_MAX: usize = 1024;
const COOKIE_NAME: &str = "oncebox_session";

/// What a session is kept under.
type Digest = [u8; 32];

#[derive(Debug)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<Digest, Kept>>,
    key: hmac::Key,
}

#[derive(Clone, Debug)]
pub(crate) struct Opened {
    pub(crate) role: Role,
    /// The `Set-Cookie` of the answer.
    pub(crate) cookie: HeaderValue,
    pub(crate) form_token: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) role: Role,
    pub(crate) form_token: String,
    /// The mark of the token it was opened with.
    pub(crate) opened_with: Digest,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    role: Role,
    opened_with: Digest,
    ends: Instant,
}

/// Whether the cookie may travel over plain HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channel {
    /// The browser talks plain HTTP, as on loopback.
    Plain,
    /// The browser talks TLS to whoever stands in front of us.
    Tls,
}

impl Sessions {
    /// None yet. Without randomness there is nothing to keep a session safe with.
    pub(crate) fn new() -> std::io::Result<Self> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &random::<32>()?);
        Ok(Self { open: Mutex::default(), key })
    }

    pub(crate) fn open(&self, role: Role, token: &[u8], channel: Channel) -> std::io::Result<Opened> {
        let id = BASE64URL_NOPAD.encode(&random::<32>()?);
        let digest = digest_of(&id);
        let now = Instant::now();
        let kept = Kept { role, opened_with: self.mark(token), ends: now + SESSION_LASTS };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, kept| kept.ends > now);
        if open.len() >= SESSIONS_MAX
            && let Some(first) = open.iter().min_by_key(|(_, kept)| kept.ends).map(|(digest, _)| *digest)
        {
            open.remove(&first);
        }
        open.insert(digest, kept);
        Ok(Opened { role, cookie: cookie(&id, SESSION_LASTS, channel), form_token: self.form_token(&digest) })
    }

    /// The session of a request, if it has one that still lasts.
    pub(crate) fn find(&self, headers: &HeaderMap) -> Option<Found> {
        let digest = digest_of(cookie_of(headers)?);
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = *open.get(&digest).filter(|kept| kept.ends > Instant::now())?;
        drop(open);
        Some(Found { role: kept.role, form_token: self.form_token(&digest), opened_with: kept.opened_with })
    }

    /// Ends the session of a request; the cookie takes it out of the browser, too.
    pub(crate) fn end(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(id) = cookie_of(headers) {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest_of(id));
        }
        cookie("", Duration::ZERO, Channel::Plain)
    }

    /// What stands for a token without giving it away.
    pub(crate) fn mark(&self, token: &[u8]) -> Digest {
        self.keyed(b"token", token)
    }

    /// The form token where no login is needed: one for the whole process.
    pub(crate) fn open_form_token(&self) -> String {
        HEXLOWER.encode(&self.keyed(b"open", b""))
    }

    fn form_token(&self, session: &Digest) -> String {
        HEXLOWER.encode(&self.keyed(b"form", session))
    }

    fn keyed(&self, purpose: &[u8], content: &[u8]) -> Digest {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(purpose);
        context.update(b"\0");
        context.update(content);
        context.sign().as_ref().try_into().expect("SHA-256 has 32 bytes")
    }
}

/// True when both are the same; takes as long for any two of one length.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}

fn digest_of(id: &str) -> Digest {
    digest::digest(&digest::SHA256, id.as_bytes()).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn cookie(id: &str, lasts: Duration, channel: Channel) -> HeaderValue {
    let secure = if channel == Channel::Tls { "; Secure" } else { "" };
    let text = format!("{COOKIE_NAME}={id}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", lasts.as_secs());
    HeaderValue::try_from(text).expect("base64 fits into a header")
}

fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == COOKIE_NAME).map(|(_, id)| id).filter(|id| !id.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carrying(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, cookie.parse().expect("a header"))])
    }

    fn sent_back(opened: &Opened) -> HeaderMap {
        let text = opened.cookie.to_str().expect("text");
        carrying(&format!("theme=dark; {}", text.split(';').next().expect("a pair")))
    }

    #[test]
    fn a_session_is_found_until_it_ends() {
        let sessions = Sessions::new().expect("randomness");
        let opened = sessions.open(Role::Viewer, b"t", Channel::Plain).expect("opened");
        let found = sessions.find(&sent_back(&opened)).expect("found");
        assert_eq!((found.role, &found.form_token), (Role::Viewer, &opened.form_token));
        assert_eq!(found.opened_with, sessions.mark(b"t"));
        assert_ne!(found.opened_with, sessions.mark(b"other"));
        let gone = sessions.end(&sent_back(&opened));
        assert!(gone.to_str().expect("text").contains("Max-Age=0"));
        assert_eq!(sessions.find(&sent_back(&opened)), None);
    }

    #[test]
    fn cookies_are_kept_from_scripts_and_other_sites() {
        let sessions = Sessions::new().expect("randomness");
        for (channel, secure) in [(Channel::Plain, false), (Channel::Tls, true)] {
            let opened = sessions.open(Role::Operator, b"t", channel).expect("opened");
            let text = opened.cookie.to_str().expect("text").to_owned();
            for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
                assert!(text.contains(part), "{text}");
            }
            assert_eq!(text.contains("; Secure"), secure, "{text}");
        }
    }

    #[test]
    fn nothing_else_is_a_session() {
        let sessions = Sessions::new().expect("randomness");
        for cookie in ["oncebox_session=", "oncebox_session=x", "other=1", "oncebox_session"] {
            assert_eq!(sessions.find(&carrying(cookie)), None, "{cookie}");
        }
        assert_eq!(sessions.find(&HeaderMap::new()), None);
    }

    #[test]
    fn there_are_never_more_than_so_many() {
        let sessions = Sessions::new().expect("randomness");
        let first = sessions.open(Role::Viewer, b"t", Channel::Plain).expect("opened");
        for _ in 0..SESSIONS_MAX {
            sessions.open(Role::Viewer, b"t", Channel::Plain).expect("opened");
        }
        assert_eq!(sessions.find(&sent_back(&first)), None, "the oldest went");
        assert_eq!(sessions.open.lock().expect("not poisoned").len(), SESSIONS_MAX);
    }
}
