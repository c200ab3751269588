//! A sample made from a description alone: id, type and time where it says they stand.
//!
//! What the id and the type leave open is filled with short constants, so that two samples differ in their id only.

use http::HeaderName;
use serde_json::{Value, json};

use super::{Draft, FORM, JSON, Sample, draft};
use crate::UnixMillis;
use crate::provider::description::describe::TimeAt;
use crate::provider::identity::batch::Batch;
use crate::provider::scheme::{Composite, Part, Place};
use crate::read::form;
use crate::source::Source;

/// What stands in the parts of an id that the sample's own id does not fill.
const OTHER_PART: &str = "1";

/// Everything a sample is made of, before it becomes a body.
#[derive(Default)]
struct Parts {
    headers: Vec<(HeaderName, String)>,
    fields: Vec<(String, String)>,
    body: Value,
    parent: Value,
    root: Value,
    filled: Vec<Place>,
}

pub(super) fn described(source: &Source, sample: &Sample<'_>, now: UnixMillis, filler: &str) -> Draft {
    let description = source.description();
    let body = json!({ "sample": sample.id, "filler": filler });
    let mut parts = Parts { body, parent: json!({}), root: json!({}), ..Parts::default() };
    let kinds = sample.event_type.unwrap_or("sample.created").splitn(description.event_type.len().max(1), '.');
    description.event_type.iter().zip(kinds).for_each(|(part, kind)| parts.write(part, kind));
    let mut own = Some(sample.id);
    for part in description.id.first().map(Composite::parts).unwrap_or_default() {
        if !part.places().iter().any(|place| parts.filled.contains(place)) {
            parts.write(part, own.take().unwrap_or(OTHER_PART));
        }
    }
    if let Some(time) = &description.ts
        && let TimeAt::Json(part) = &time.at
    {
        parts.write(part, &time.unit.format(now));
    }
    for place in description.msg.iter().flat_map(|msg| msg.places()) {
        if !parts.filled.contains(place) {
            parts.write_at(place, sample.id);
        }
    }
    parts.into_draft(source, description.each.as_ref())
}

impl Parts {
    fn write(&mut self, part: &Part, text: &str) {
        if let Some(place) = part.places().first() {
            self.write_at(place, text);
        }
    }

    fn write_at(&mut self, place: &Place, text: &str) {
        self.filled.push(place.clone());
        match place {
            Place::Header(name) => self.headers.push((name.clone(), text.to_owned())),
            Place::Json(pointer) => pointer.put(&mut self.body, text.into()),
            Place::Parent(pointer) => pointer.put(&mut self.parent, text.into()),
            Place::Root(pointer) => pointer.put(&mut self.root, text.into()),
            // The first name is the type, so what else there is stands below it.
            Place::Name(_) => self.body = json!({ text: self.body.take() }),
            Place::Form(name, None) => self.fields.push((name.clone(), text.to_owned())),
            Place::Form(name, Some(pointer)) => {
                let mut inner = json!({});
                pointer.put(&mut inner, text.into());
                self.fields.push((name.clone(), inner.to_string()));
            }
            // The target is the source's own.
            Place::Query(_) => {}
        }
    }

    fn into_draft(self, source: &Source, each: Option<&Batch>) -> Draft {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.clone())).collect::<Vec<_>>();
        if !self.fields.is_empty() {
            let pair = |(name, value): &(String, String)| format!("{}={}", form::encode(name), form::encode(value));
            let body = self.fields.iter().map(pair).collect::<Vec<_>>().join("&");
            return draft(source, headers, FORM, body);
        }
        let body = match each {
            Some(each) => wrapped(&each.first, self.body, self.parent, self.root),
            None => merged(self.body, self.root),
        };
        draft(source, headers, JSON, body.to_string())
    }
}

/// Builds the document around one element, from the inside out.
fn wrapped(pattern: &[String], element: Value, parent: Value, root: Value) -> Value {
    let mut parent = Some(parent);
    let mut value = element;
    for (index, name) in pattern.iter().enumerate().rev() {
        value = if name == "*" { json!([value]) } else { json!({ name.as_str(): value }) };
        let is_element = index > 0 && pattern[index - 1] == "*" || index == 0;
        if is_element && let Some(fields) = parent.take() {
            value = merged(value, fields);
        }
    }
    merged(value, root)
}

fn merged(mut value: Value, more: Value) -> Value {
    if let (Value::Object(fields), Value::Object(more)) = (&mut value, more) {
        fields.extend(more);
    }
    value
}
