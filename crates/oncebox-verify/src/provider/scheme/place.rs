//! Places: where in a request a value stands, and how it is read.
//!
//! Written `header:x-id`, `json:/data/id`, `form:MessageSid`, `form:payload#/trigger_id` (JSON inside a form field) or
//! `query:name`. In a batch `json:` reads the element, `parent:/name` what encloses it and `root:/name` the whole document.
//! `name:a,b` is the first name of the object that is none of these. `a|b` takes the first that is there, and a name alone is of the kind before it (`header:x-a|x-b`).
//! `a+b` joins several into one id, and a part that ends in `?` may be missing. Whether a body is JSON or a form is told by its first byte, never by the content
//! type, because the signature covers the one and not the other.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use http::{HeaderMap, HeaderName};

use crate::provider::identity::batch::{Around, Element, Parent};
use crate::read::json::{self, Hits, Pointer, Wanted};
use crate::read::{NoText, Reading, form};
use crate::request::Request;

/// Longest id or type, in bytes: what fits an index and a line.
pub(crate) const TEXT_BYTES_MAX: usize = 255;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A header's one line.
    Header(HeaderName),
    /// A value in a JSON body, or in the element of a batch.
    Json(Pointer),
    /// A value in what encloses the element of a batch.
    Parent(Pointer),
    /// A value in the whole document of a batch.
    Root(Pointer),
    /// The first name of the object that is none of these.
    Name(Vec<String>),
    /// A form field, or a JSON value inside it.
    Form(String, Option<Pointer>),
    Query(String),
}

/// Places of which the first that is there counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    places: Vec<Place>,
    /// An id may do without it.
    pub(crate) optional: bool,
}

/// Parts that together make one id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Composite(Vec<Part>);

impl Part {
    /// Reads `kind:name|name|kind:name`, with `?` behind it where all may be missing.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (text, optional) = text.strip_suffix('?').map_or((text, false), |text| (text, true));
        let mut kind = "";
        let mut places = Vec::new();
        for word in text.split('|') {
            let name = match word.split_once(':') {
                Some((named, name)) if KINDS.contains(&named) => {
                    kind = named;
                    name
                }
                _ => word,
            };
            places.push(Place::new(kind, name)?);
        }
        Some(Self { places, optional })
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    pub(crate) fn read<'a>(&self, view: &View<'a, '_>) -> Reading<'a> {
        self.locate(view).map_or(Err(NoText::Missing), |(_, reading)| reading)
    }

    /// The first place that is there, with what it holds.
    pub(crate) fn locate<'a>(&self, view: &View<'a, '_>) -> Option<(&Place, Reading<'a>)> {
        self.places.iter().map(|place| (place, view.read(place))).find(|(_, reading)| *reading != Err(NoText::Missing))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.places.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(" or "))?;
        f.write_str(if self.optional { " (if there)" } else { "" })
    }
}

const KINDS: [&str; 7] = ["header", "json", "parent", "root", "name", "form", "query"];

impl Composite {
    /// Reads parts joined by `+`; a plus inside a name stays, because a part starts with its kind.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts: Vec<String> = Vec::new();
        for word in text.split('+') {
            let starts = word.split_once(':').is_some_and(|(kind, _)| KINDS.contains(&kind));
            match parts.last_mut() {
                Some(last) if !starts => {
                    last.push('+');
                    last.push_str(word);
                }
                _ => parts.push(word.to_owned()),
            }
        }
        parts.iter().map(|part| Part::parse(part)).collect::<Option<Vec<_>>>().map(Self)
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.0
    }
}

impl Place {
    fn new(kind: &str, name: &str) -> Option<Self> {
        match kind {
            "header" => HeaderName::try_from(name).ok().map(Self::Header),
            "json" => Pointer::parse(name).map(Self::Json),
            "parent" => Pointer::parse(name).map(Self::Parent),
            "root" => Pointer::parse(name).map(Self::Root),
            "name" => Some(Self::Name(name.split(',').map(str::to_owned).collect())),
            "form" => match name.split_once('#') {
                Some((name, pointer)) => Some(Self::Form(name.to_owned(), Some(Pointer::parse(pointer)?))),
                None if name.is_empty() => None,
                None => Some(Self::Form(name.to_owned(), None)),
            },
            "query" if !name.is_empty() => Some(Self::Query(name.to_owned())),
            _ => None,
        }
    }

    pub(crate) fn is_in_body(&self) -> bool {
        !matches!(self, Self::Header(_) | Self::Query(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header {name}"),
            Self::Json(pointer) => write!(f, "{pointer}"),
            Self::Parent(pointer) => write!(f, "{pointer} of what encloses it"),
            Self::Root(pointer) => write!(f, "{pointer} of the whole body"),
            Self::Name(_) => f.write_str("the name of its main field"),
            Self::Form(name, None) => write!(f, "form field {name}"),
            Self::Form(name, Some(pointer)) => write!(f, "{pointer} in form field {name}"),
            Self::Query(name) => write!(f, "query field {name}"),
        }
    }
}

/// Everything a set of places needs from a request, read when it is first asked for and at most once.
#[derive(Debug)]
pub(crate) struct View<'a, 'w> {
    headers: &'a HeaderMap,
    target: &'a str,
    body: &'a [u8],
    wants: &'w Wants,
    json: OnceCell<Scanned<'a>>,
    form: OnceCell<Vec<form::Pair<'a>>>,
    around: Option<(&'w Around<'a>, Parent)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Wants {
    pub(crate) json: Wanted,
    pub(crate) parent: Wanted,
    /// Also what is wanted of a parent, since a batch's document may be one.
    pub(crate) document: Wanted,
    form: bool,
}

impl Wants {
    pub(crate) fn new<'p>(places: impl IntoIterator<Item = &'p Place>) -> Self {
        let (mut json, mut parent, mut document, mut form) = (Vec::new(), Vec::new(), Vec::new(), false);
        for place in places {
            match place {
                Place::Json(pointer) => json.push(pointer),
                // Outside a batch the whole document is the one that is read anyway.
                Place::Root(pointer) => [&mut json, &mut document].into_iter().for_each(|wanted| wanted.push(pointer)),
                Place::Parent(pointer) => {
                    [&mut parent, &mut document].into_iter().for_each(|wanted| wanted.push(pointer))
                }
                Place::Form(..) => form = true,
                Place::Header(_) | Place::Name(_) | Place::Query(_) => {}
            }
        }
        let [json, parent, document] = [json, parent, document].map(Wanted::new);
        Self { json, parent, document, form }
    }

    /// The same with the values that others want from the whole body.
    pub(crate) fn with(&self, others: &Self) -> Self {
        let json = Wanted::new(self.json.pointers().chain(others.json.pointers()));
        Self { json, ..self.clone() }
    }
}

type Scanned<'a> = Result<Hits<'a>, NoText>;

fn scan<'a>(wanted: &Wanted, text: &'a [u8]) -> Scanned<'a> {
    if wanted.is_empty() {
        return Err(NoText::Missing);
    }
    wanted.find(text).map_err(|json::Unreadable| NoText::Unreadable)
}

fn read<'a>(scanned: &Scanned<'a>, wanted: &Wanted, pointer: &Pointer) -> Reading<'a> {
    wanted.read(scanned.as_ref().map_err(|no_text| *no_text)?, pointer)
}

impl<'a, 'w> View<'a, 'w> {
    pub(crate) fn new(request: &'a Request, wants: &'w Wants) -> Self {
        Self::of_body(request, &request.body, wants)
    }

    /// Looks at a request with one element of its batch in place of the body.
    pub(crate) fn of_body(request: &'a Request, body: &'a [u8], wants: &'w Wants) -> Self {
        let (json, form) = (OnceCell::new(), OnceCell::new());
        Self { headers: &request.headers, target: &request.target, body, wants, json, form, around: None }
    }

    /// Looks at one element of a batch, of which the wanted values may have been met already.
    pub(crate) fn of_element(
        request: &'a Request,
        element: Element<'a>,
        wants: &'w Wants,
        around: &'w Around<'a>,
    ) -> Self {
        let json = element.hits.map_or_else(OnceCell::new, |hits| OnceCell::from(Ok(hits)));
        let around = Some((around, element.parent));
        Self { json, around, ..Self::of_body(request, element.text.as_bytes(), wants) }
    }

    /// True when a reader that made its wants part of this view's sees in it what it would see in its own: a form is no
    /// broken JSON only where forms are expected.
    pub(crate) fn suits(&self, wants: &Wants) -> bool {
        self.wants.form == wants.form
    }

    pub(crate) fn read(&self, place: &Place) -> Reading<'a> {
        match place {
            Place::Header(name) => self.header(name),
            Place::Json(pointer) => self.json(pointer),
            Place::Root(pointer) => match self.around {
                Some((around, _)) => self.document(around, pointer),
                None => self.json(pointer),
            },
            Place::Parent(pointer) => match self.around {
                None => Err(NoText::Missing),
                Some((around, Parent::Document)) => self.document(around, pointer),
                Some((_, Parent::Itself)) => read(&scan(&self.wants.parent, self.body), &self.wants.parent, pointer),
                Some((around, Parent::Element(index))) => {
                    let hits = around.parents.get(index);
                    hits.map_or(Err(NoText::Missing), |hits| self.wants.parent.read(hits, pointer))
                }
            },
            Place::Name(skipped) => json::first_name(self.body, skipped).ok_or(NoText::Missing),
            Place::Form(name, pointer) => self.form(name, pointer.as_ref()),
            Place::Query(name) => form::field(query(self.target).as_bytes(), name),
        }
    }

    fn json(&self, pointer: &Pointer) -> Reading<'a> {
        let is_form = || self.wants.form && !looks_like_json(self.body);
        let scanned = || if is_form() { Err(NoText::Missing) } else { scan(&self.wants.json, self.body) };
        read(self.json.get_or_init(scanned), &self.wants.json, pointer)
    }

    fn document(&self, around: &Around<'a>, pointer: &Pointer) -> Reading<'a> {
        let hits = around.document.as_ref();
        hits.map_or(Err(NoText::Unreadable), |hits| self.wants.document.read(hits, pointer))
    }

    fn header(&self, name: &HeaderName) -> Reading<'a> {
        let mut lines = self.headers.get_all(name).iter();
        match (lines.next(), lines.next()) {
            (None, _) => Err(NoText::Missing),
            (Some(_), Some(_)) => Err(NoText::Ambiguous),
            (Some(line), None) => match std::str::from_utf8(line.as_bytes()) {
                Ok(text) if !has_controls(text) => Ok(Cow::Borrowed(text)),
                _ => Err(NoText::Unusable),
            },
        }
    }

    fn form(&self, name: &str, pointer: Option<&Pointer>) -> Reading<'a> {
        if looks_like_json(self.body) {
            return Err(NoText::Missing);
        }
        let pairs = self.form.get_or_init(|| form::raw_pairs(self.body).collect());
        let reading = form::field_of(pairs.iter().copied(), name);
        let (Ok(text), Some(pointer)) = (&reading, pointer) else { return reading };
        let wanted = Wanted::new([pointer]);
        let hits = wanted.find(text.as_bytes()).map_err(|json::Unreadable| NoText::Unreadable)?;
        wanted.read(&hits, pointer).map(|text| Cow::Owned(text.into_owned()))
    }
}

/// The query string of a target, without its question mark.
pub(crate) fn query(target: &str) -> &str {
    let target = target.split('#').next().unwrap_or_default();
    target.split_once('?').map_or("", |(_, query)| query)
}

/// True when a text holds control characters. Most texts are plain ASCII, which needs no decoding.
pub(crate) fn has_controls(text: &str) -> bool {
    !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.chars().any(char::is_control)
}

/// True when a body starts like a JSON object or list.
pub(crate) fn looks_like_json(body: &[u8]) -> bool {
    matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_of_the_kind_before_it() {
        let part = Part::parse("header:x-a|x-b|json:/c:d").unwrap();
        let header = |name| Place::Header(HeaderName::from_static(name));
        assert_eq!(part.places(), [header("x-a"), header("x-b"), Place::Json(Pointer::parse("/c:d").unwrap())]);
    }

    #[test]
    fn parts_are_joined_by_plus() {
        assert_eq!(Composite::parse("json:/a+form:b+c").unwrap().parts().len(), 2);
        for wrong in ["", "json", "json:a", "header:", "header:a b", "what:x", "form:", "query:", "json:/a+json:b"] {
            assert_eq!(Composite::parse(wrong), None, "{wrong}");
        }
    }
}
