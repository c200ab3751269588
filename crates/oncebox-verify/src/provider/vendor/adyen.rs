//! Adyen's standard notifications: a signature inside every item, over eight of its values.
//!
//! The values are joined by colons and not escaped, so a colon could move from one to the next under the same signature.
//! Only the merchant's own reference may hold one: three values before it and four behind it are free of colons, and the
//! cut is unique. A batch counts as a whole: one bad item and all of it is refused.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

use crate::UnixMillis;
use crate::provider::identity::batch::BATCH_EVENTS_MAX;
use crate::provider::scheme::{Encoding, Key, KeyForm, Mac, Refused, Verified, Verifier};
use crate::provider::vendor::builtin;
use crate::provider::{Compiling, SignError};
use crate::read::NoText;
use crate::read::json::{self, Wanted};
use crate::request::Request;
use crate::verdict::Reason;

const ITEMS: &str = "/notificationItems";
/// What is read of an item: the values that are signed, then the signature and the notification itself.
const READ: [&str; 10] = [
    "/NotificationRequestItem/pspReference",
    "/NotificationRequestItem/originalReference",
    "/NotificationRequestItem/merchantAccountCode",
    "/NotificationRequestItem/merchantReference",
    "/NotificationRequestItem/amount/value",
    "/NotificationRequestItem/amount/currency",
    "/NotificationRequestItem/eventCode",
    "/NotificationRequestItem/success",
    "/NotificationRequestItem/additionalData/hmacSignature",
    "/NotificationRequestItem",
];
const MERCHANT_REFERENCE: usize = 3;
const SIGNATURE: usize = 8;
const ITEM: usize = 9;

#[derive(Clone, Debug)]
pub(crate) struct Adyen {
    keys: Vec<Key>,
}

impl Adyen {
    pub(crate) fn compile(compiling: &mut Compiling<'_>) -> Option<Box<dyn Verifier>> {
        let keys = compiling.keys(|secret| Key::new(Mac::HmacSha256, KeyForm::Hex, secret));
        Some(Box::new(Self { keys }))
    }

    /// The position of the key that fits an item, and what the item wraps.
    fn verify_item<'a>(&self, item: &'a str) -> Result<(usize, &'a str), Reason> {
        let hits = VALUES.find(item.as_bytes()).map_err(|json::Unreadable| Reason::MalformedSignature)?;
        let signature = text(&hits, SIGNATURE)?;
        if signature.trim().is_empty() {
            return Err(Reason::MissingSignature);
        }
        let given = [builtin::decoded(&signature, Encoding::Base64)?];
        let message = message(&hits)?;
        let found = self.keys.iter().position(|key| key.verify(&message, &given));
        let index = found.ok_or(Reason::Mismatch)?;
        Ok((index, VALUES.raw(&hits, VALUES.at(ITEM)).ok_or(Reason::MalformedSignature)?))
    }
}

impl Verifier for Adyen {
    fn verify(&self, request: &Request, _now: UnixMillis) -> Result<Verified, Refused> {
        let items = items(&request.body)?;
        let verified = items.into_iter().map(|item| self.verify_item(item)).collect::<Result<Vec<_>, _>>()?;
        let (index, _) = *verified.first().ok_or(Reason::MissingSignature)?;
        let inner: Vec<&str> = verified.iter().map(|(_, inner)| *inner).collect();
        let opened = Some(format!("[{}]", inner.join(",")).into());
        Ok(Verified { opened, ..Verified::by_key(index) })
    }

    fn sign(&self, mut request: Request, _now: UnixMillis) -> Result<Request, SignError> {
        let key = self.keys.first().ok_or(SignError::Incomplete)?;
        let mut body: Value = serde_json::from_slice(&request.body).map_err(|_not_json| SignError::Incomplete)?;
        let items = body.pointer_mut(ITEMS).and_then(Value::as_array_mut).ok_or(SignError::Incomplete)?;
        for item in items {
            let text = item.to_string();
            let hits = VALUES.find(text.as_bytes()).map_err(|json::Unreadable| SignError::Incomplete)?;
            let message = message(&hits).map_err(|_unreadable| SignError::Incomplete)?;
            let signature = key.sign(&message).ok_or(SignError::Incomplete)?;
            let inner = item.get_mut("NotificationRequestItem").ok_or(SignError::Incomplete)?;
            inner["additionalData"]["hmacSignature"] = Encoding::Base64.encode(&signature).into();
        }
        request.body = body.to_string().into();
        Ok(request)
    }
}

/// The items of a request; an empty batch is refused, since nothing in it is signed.
fn items(body: &[u8]) -> Result<Vec<&str>, Reason> {
    static WANTED: LazyLock<Wanted> = LazyLock::new(|| Wanted::of(&[ITEMS]));
    let hits = WANTED.find(body).map_err(|json::Unreadable| Reason::MissingSignature)?;
    let raw = WANTED.raw(&hits, WANTED.at(0)).ok_or(Reason::MissingSignature)?;
    json::elements(raw, BATCH_EVENTS_MAX).ok_or(Reason::MalformedSignature)
}

static VALUES: LazyLock<Wanted> = LazyLock::new(|| Wanted::of(&READ));

/// A value of an item as text, by its position; what is not there is empty.
fn text<'a>(hits: &json::Hits<'a>, index: usize) -> Result<Cow<'a, str>, Reason> {
    match VALUES.read(hits, VALUES.at(index)) {
        Err(NoText::Missing) => Ok(Cow::Borrowed("")),
        read => read.map_err(|_no_text| Reason::MalformedSignature),
    }
}

fn message(hits: &json::Hits<'_>) -> Result<[Cow<'static, [u8]>; 1], Reason> {
    let mut message = String::new();
    for index in 0..SIGNATURE {
        let text = text(hits, index)?;
        if index != MERCHANT_REFERENCE && text.contains(':') {
            return Err(Reason::MalformedSignature);
        }
        message.extend([if index > 0 { ":" } else { "" }, &text]);
    }
    Ok([Cow::Owned(message.into_bytes())])
}
