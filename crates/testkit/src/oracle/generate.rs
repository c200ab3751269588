//! Captures by the thousand: every good and every spoilt form of a case as JSON lines, with the right answer beside.
//!
//! The lines are in the format that `oncebox explain` reads.

use serde_json::{Value, json};

use super::spoil::{changed, spoilt};
use super::{Capture, Case, Expected};

/// A captured request as a line of JSON, and what must be said about it.
#[derive(Clone, Debug)]
pub struct Line {
    /// How it was made.
    pub how: &'static str,
    /// The line, without its end.
    pub json: String,
    /// The events, or nothing if it must be refused.
    pub expected: Option<Vec<Expected>>,
}

/// Lines of a case until there are `count`, good ones and spoilt ones mixed; no two good ones share an id.
pub fn lines(case: &Case, count: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::with_capacity(count);
    for number in 0_u32.. {
        if lines.len() >= count {
            break;
        }
        lines.extend(round(case, number));
    }
    lines.truncate(count);
    lines
}

/// Every form of one event.
fn round(case: &Case, number: u32) -> Vec<Line> {
    let good = case.signed(&case.ctx(number));
    let mut all = vec![accepted("as signed", &good)];
    for spoilt in spoilt(case, number) {
        all.push(Line { how: spoilt.how, json: line(&spoilt.capture).to_string(), expected: None });
    }
    all.extend(case.accepts.iter().map(|(how, change)| accepted(how, &changed(case, number, *change))));
    if let Some(window) = case.window {
        all.push(accepted("at the end of the window", &Capture { at: good.at + window.fresh, ..good.clone() }));
    }
    all
}

fn accepted(how: &'static str, capture: &Capture) -> Line {
    Line { how, json: line(capture).to_string(), expected: Some(capture.events.clone()) }
}

/// The capture in the format of `explain`; repeated headers are a list.
pub fn line(capture: &Capture) -> Value {
    let mut headers = serde_json::Map::new();
    for (name, value) in &capture.headers {
        let values = headers.entry(name.to_ascii_lowercase()).or_insert_with(|| json!([]));
        values.as_array_mut().expect("made as a list").push(json!(value));
    }
    let body = super::crypto::base64(&capture.body);
    json!({"method": capture.method, "url": capture.url, "headers": headers, "body": body, "at": capture.at})
}
