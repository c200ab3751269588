//! What a described scheme can tell from a request's head: whether a signature is there, has its form, and is of now.

use super::{Group, Scheme};
use crate::UnixMillis;
use crate::provider::description::describe::{CarriedAt, SignatureLocation, Time, TimeAt};
use crate::provider::scheme::{Key, Mac, Place, View};
use crate::request::Request;
use crate::verdict::{Reason, Rejection};

impl Scheme {
    /// Refuses what `verify` would refuse whatever the body.
    pub(super) fn check_head(&self, head: &Request, now: UnixMillis) -> Result<(), Rejection> {
        self.check_required(&head.headers)?;
        let view = View::new(head, &self.wants);
        let mut first = None;
        for (carrier, keys) in &self.carriers {
            match self.carrier_head(carrier, keys, head, &view, now) {
                Ok(()) => return Ok(()),
                Err(rejection) => first = first.or(Some(rejection)),
            }
        }
        Err(first.unwrap_or(Reason::MissingSignature.into()))
    }

    fn carrier_head<'a>(
        &self,
        carrier: &SignatureLocation,
        keys: &[Key],
        head: &'a Request,
        view: &View<'a, '_>,
        now: UnixMillis,
    ) -> Result<(), Rejection> {
        let is_in_body = match &carrier.at {
            CarriedAt::Headers(_) => false,
            CarriedAt::Place(place) => place.is_in_body(),
            CarriedAt::Every(..) => true,
        };
        if is_in_body {
            return Ok(());
        }
        let most = self.signatures_max(carrier);
        let lines = carrier.lines(&head.headers, view, most)?;
        let groups = self.groups(carrier, &lines, most)?;
        // A token covers nothing, so the body is not needed to compare it.
        let is_token = matches!(carrier.mac.unwrap_or(self.mac), Mac::Equal | Mac::Basic);
        if is_token && !keys.iter().any(|key| groups.iter().any(|group| key.verify(&[], &group.signatures))) {
            return Err(Reason::Mismatch.into());
        }
        self.time.as_ref().map_or(Ok(()), |signed| self.head_window(signed, &groups, view, now))
    }

    /// One of the times must be near enough; which of them counts, the signature tells later.
    fn head_window(
        &self,
        signed: &Time,
        groups: &[Group<'_>],
        view: &View<'_, '_>,
        now: UnixMillis,
    ) -> Result<(), Rejection> {
        let check = |text: &str| {
            let time = signed.unit.parse(text).ok_or(Reason::BadTimestamp)?;
            signed.unit.check(time, now, signed.window)
        };
        match &signed.at {
            TimeAt::Json(_) => Ok(()),
            TimeAt::Header(part) if part.places().iter().any(Place::is_in_body) => Ok(()),
            TimeAt::Header(part) => check(&self.time_text(part, view)?),
            TimeAt::Item(_) | TimeAt::Position(_) => {
                let mut checked = groups.iter().map(|group| check(group.time.unwrap_or_default()));
                let first = checked.next().unwrap_or(Ok(()));
                if first.is_ok() || checked.any(|one| one.is_ok()) { Ok(()) } else { first }
            }
        }
    }
}
