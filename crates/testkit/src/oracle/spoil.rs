//! Every way to spoil a good request that any provider must refuse, derived from the case alone.

use super::{Capture, Case, Change, Place};

/// A request that must be refused, and how it was spoilt.
#[derive(Clone, Debug)]
pub struct Spoilt {
    /// What was done.
    pub how: &'static str,
    /// The request.
    pub capture: Capture,
}

/// Every request of a case that must be refused.
pub fn spoilt(case: &Case, number: u32) -> Vec<Spoilt> {
    let good = case.signed(&case.ctx(number));
    let mut all = vec![Spoilt { how: "signed by somebody else", capture: by_somebody_else(case, number) }];
    let mut add = |how, capture| all.push(Spoilt { how, capture });
    for (how, change) in SIGNATURES {
        add(how, with_signature(case, &good, change));
    }
    match case.place {
        Place::Header(name) => {
            let mut missing = good.clone();
            missing.remove(name);
            add("without its signature header", missing);
            add("signature header twice", twice(name, &good, good.value(name)));
            add("signature header twice, a wrong one first", twice(name, &good, "x"));
        }
        Place::Inner | Place::Path => {}
    }
    if case.covers_body {
        for (how, body) in bodies(&good.body) {
            add(how, Capture { body, ..good.clone() });
        }
    }
    if let Some(window) = case.window {
        for (how, offset) in [("too old", window.stale), ("too new", window.early.map(|early| -early))] {
            if let Some(offset) = offset {
                add(how, Capture { at: good.at + offset, ..good.clone() });
            }
        }
    }
    all.extend(case.rejects.iter().map(|(how, change)| Spoilt { how, capture: changed(case, number, *change) }));
    all
}

/// A good request with a change.
pub fn changed(case: &Case, number: u32, change: Change) -> Capture {
    let ctx = case.ctx(number);
    let mut capture = case.signed(&ctx);
    change(&ctx, &mut capture);
    capture
}

type Respell = fn(&str) -> String;

const SIGNATURES: [(&str, Respell); 7] = [
    ("signature is empty", |_| String::new()),
    ("signature is white space", |_| "   ".to_owned()),
    // Padding alone may be missing in base64, so three characters go and not one.
    ("signature without its last three characters", |good| good[..good.len() - 3].to_owned()),
    ("signature without its last five characters", |good| good[..good.len() - 5].to_owned()),
    ("half of the signature", |good| good[..good.len() / 2].to_owned()),
    ("signature and two characters more", |good| format!("{good}00")),
    ("signature and four characters more", |good| format!("{good}AAAA")),
];

fn by_somebody_else(case: &Case, number: u32) -> Capture {
    let mut ctx = case.ctx(number);
    ctx.secret = case.other_secret.to_owned();
    case.signed(&ctx)
}

/// The request with its signature changed where it stands, in the header, the body or the URL.
fn with_signature(case: &Case, good: &Capture, change: Respell) -> Capture {
    let mut capture = good.clone();
    match case.place {
        Place::Header(name) => capture.set(name, change(good.value(name))),
        Place::Inner | Place::Path => {
            let (from, to) = (&good.inner_signature, change(&good.inner_signature));
            assert!(!from.is_empty(), "{} names no signature", case.name());
            if capture.url.contains(from) {
                capture.url = capture.url.replace(from, to.trim());
            } else {
                capture.replace(from, &to);
            }
        }
    }
    capture
}

fn twice(name: &str, good: &Capture, first: &str) -> Capture {
    let mut capture = good.clone();
    capture.set(name, first);
    capture.header(name, good.value(name))
}

/// Bodies that differ from the signed one: a byte changed at several places, other white space, a BOM, cut or longer.
fn bodies(good: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let letters: Vec<usize> = (0..good.len()).filter(|at| good[*at].is_ascii_alphanumeric()).collect();
    let mut all = Vec::new();
    for part in 0..5 {
        if let Some(at) = letters.get(letters.len().saturating_sub(1) * part / 4) {
            let mut body = good.to_vec();
            body[*at] ^= 1;
            all.push(("one byte of the body changed", body));
        }
    }
    if let Some(first @ (b'{' | b'[')) = good.first() {
        all.push(("JSON written again with a space", [&[*first, b' '], &good[1..]].concat()));
        all.push(("body with a final newline", [good, b"\n"].concat()));
        all.push(("body behind a BOM", ["\u{feff}".as_bytes(), good].concat()));
    }
    all.push(("body is empty", Vec::new()));
    all.push(("body twice", good.repeat(2)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::cases;

    #[test]
    fn what_is_spoilt_differs_from_what_is_good() {
        for case in cases() {
            let ctx = case.ctx(1);
            let good = case.signed(&ctx);
            for Spoilt { how, capture } in spoilt(&case, 1) {
                let same = capture.body == good.body
                    && capture.headers == good.headers
                    && capture.url == good.url
                    && capture.at == good.at;
                assert!(!same, "{}: {how}", case.name());
            }
        }
    }

    #[test]
    fn a_good_request_differs_from_the_next() {
        for case in cases().iter().filter(|case| case.form != "version 1") {
            let (first, second) = (case.signed(&case.ctx(1)), case.signed(&case.ctx(2)));
            assert!(first.body != second.body || first.headers != second.headers, "{}", case.name());
        }
    }
}
