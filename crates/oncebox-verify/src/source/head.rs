//! What a request's head tells by itself: whoever has no signature in it is refused before a byte of the body is read.
//!
//! Held to one rule: nothing that [`Source::judge`] would accept or answer is refused here.

use http::Method;

use super::Source;
use crate::UnixMillis;
use crate::provider::scheme::View;
use crate::request::Request;
use crate::verdict::{Reason, Rejection};

/// A head's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadVerdict {
    /// Nothing speaks against it: the body decides.
    ReadOn,
    /// Its body can only hold a handshake, and those are small: whatever is larger ends with this.
    HandshakeOrElse(Rejection),
    /// No body can make it good.
    Refused(Rejection),
}

impl Source {
    /// Judges a request of which only the head is known; its `body` is not looked at. Pure and cheap.
    ///
    /// Presence and form of what is signed, and the window where the time is in a header. A static token is compared.
    pub fn judge_head(&self, head: &Request, path_token: Option<&str>, now: UnixMillis) -> HeadVerdict {
        if !self.methods.contains(&head.method) {
            return HeadVerdict::Refused(Reason::Method.into());
        }
        if let Err(reason) = self.check_path_token(path_token) {
            return HeadVerdict::Refused(reason.into());
        }
        let Some(verifier) = &self.verifier else { return HeadVerdict::ReadOn };
        match verifier.judge_head(head, now) {
            Ok(()) => HeadVerdict::ReadOn,
            Err(rejection) if self.may_be_handshake(head) => HeadVerdict::HandshakeOrElse(rejection),
            Err(rejection) => HeadVerdict::Refused(rejection),
        }
    }

    /// A method other than POST is only there for handshakes; for the rest the head may tell, or the body.
    fn may_be_handshake(&self, head: &Request) -> bool {
        head.method != Method::POST || self.handshakes.may_be_meant(head, &View::new(head, &self.handshakes.wants))
    }
}
