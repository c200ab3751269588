//! Where signatures are carried: the keys `sig` and `sig2`.

use http::HeaderName;

use super::{MACS, part, setting};
use crate::Problem;
use crate::provider::description::field::Field;
use crate::provider::identity::batch::Batch;
use crate::provider::scheme::{Mac, Place};
use crate::read::json::Pointer;

#[derive(Clone, Debug)]
pub(crate) struct SignatureLocation {
    pub(crate) at: CarriedAt,
    /// Parts the text into groups, each with its own time.
    pub(crate) group: Option<String>,
    /// Parts a group into items.
    pub(crate) split: Option<String>,
    /// What a signature item starts with; others are ignored.
    pub(crate) item: String,
    /// The vendor documents several lines of the header.
    pub(crate) lines: bool,
    /// The setting whose value is this carrier's own key.
    pub(crate) setting: Option<String>,
    /// The algorithm of this carrier, where it is not the description's.
    pub(crate) mac: Option<Mac>,
}

impl SignatureLocation {
    /// True when this header is one of those the carrier reads.
    pub(crate) fn is_in(&self, header: &HeaderName) -> bool {
        matches!(&self.at, CarriedAt::Headers(names) if names.iter().any(|name| name_fits(name, header)))
    }

    /// Signatures in these headers, nothing else.
    pub(crate) fn in_headers(names: Vec<String>) -> Self {
        Self {
            at: CarriedAt::Headers(names),
            group: None,
            split: None,
            item: String::new(),
            lines: false,
            setting: None,
            mac: None,
        }
    }

    pub(crate) fn header(&self) -> Option<&str> {
        match &self.at {
            CarriedAt::Headers(names) => names.first().map(String::as_str),
            _ => None,
        }
    }

    pub(crate) fn query(&self) -> Option<&str> {
        match &self.at {
            CarriedAt::Place(Place::Query(name)) => Some(name),
            _ => None,
        }
    }
}

/// True when a header has this name, or starts with what stands before the star.
pub(crate) fn name_fits(pattern: &str, header: &HeaderName) -> bool {
    match pattern.strip_suffix('*') {
        Some(stem) => header.as_str().starts_with(stem),
        None => header.as_str() == pattern,
    }
}

#[derive(Clone, Debug)]
pub(crate) enum CarriedAt {
    /// Header names, the first that is there counts; `x-name-*` means every one that starts so.
    Headers(Vec<String>),
    Place(Place),
    /// Every element of a list in the body, each with its own.
    Every(Batch, Pointer),
}

pub(super) fn carrier(field: &Field<'_>) -> Result<SignatureLocation, Problem> {
    let mut at = None;
    let mut carrier = SignatureLocation::in_headers(Vec::new());
    for (name, field) in field.table("header json every form query group split item lines key_param mac")? {
        match name {
            "header" => at = Some(CarriedAt::Headers(field.headers()?)),
            "group" => carrier.group = Some(separator(&field)?),
            "split" => carrier.split = Some(separator(&field)?),
            "item" => field.text()?.clone_into(&mut carrier.item),
            "lines" => carrier.lines = field.word(&[("one", false), ("many", true)])?,
            "key_param" => carrier.setting = Some(setting(&field)?),
            "mac" => carrier.mac = Some(field.word(MACS)?),
            "every" => at = Some(every(&field)?),
            kind => {
                let place = part(&field, &format!("{kind}:{}", field.text()?))?;
                at = place.places().first().cloned().map(CarriedAt::Place);
            }
        }
    }
    carrier.at = at.ok_or_else(|| field.problem("this does not say where the signature is", "add header = [\"…\"]"))?;
    Ok(carrier)
}

/// `/value/*/clientState`: a list, and a place in each of its elements.
fn every(field: &Field<'_>) -> Result<CarriedAt, Problem> {
    let read = |text: &str| {
        let (list, place) = text.rsplit_once("/*")?;
        Some(CarriedAt::Every(Batch::parse(&[list])?, Pointer::parse(place)?))
    };
    read(field.text()?).ok_or_else(|| field.problem("this place cannot be read", "write \"/list/*/name\""))
}

fn separator(field: &Field<'_>) -> Result<String, Problem> {
    match field.text()? {
        "" => Err(field
            .problem("a separator cannot be empty", "write the character between the items, or leave the field out")),
        text => Ok(text.to_owned()),
    }
}
