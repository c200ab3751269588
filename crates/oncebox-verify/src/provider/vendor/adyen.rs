//! Adyen's standard notifications: a signature inside every item, over eight of its values.
//!
//! The values are joined by colons and not escaped, so a colon could move from one to the next under the same signature.
//! Only the merchant's own reference may hold one: three values before it and four behind it are free of colons, and the
//! cut is unique. A batch counts as a whole: one bad item and all of it is refused.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

use crate::UnixMillis;
use crate::provider::Compiling;
use crate::provider::identity::batch::BATCH_EVENTS_MAX;
use crate::provider::scheme::Verified;
use crate::provider::scheme::mac::{Encoding, Key, KeyForm, Mac};
use crate::provider::scheme::verifier::Verifier;
use crate::provider::sign::SignError;
use crate::provider::vendor::builtin;
use crate::read::json::{self, Hit, Pointer, Scalar, Wanted};
use crate::request::Request;
use crate::verdict::{Reason, Rejection};

const ITEMS: &str = "/notificationItems";
const ITEM: &str = "/NotificationRequestItem";
const SIGNATURE: &str = "/NotificationRequestItem/additionalData/hmacSignature";
const MERCHANT_REFERENCE: usize = 3;
const SIGNED: [&str; 8] = [
    "/NotificationRequestItem/pspReference",
    "/NotificationRequestItem/originalReference",
    "/NotificationRequestItem/merchantAccountCode",
    "/NotificationRequestItem/merchantReference",
    "/NotificationRequestItem/amount/value",
    "/NotificationRequestItem/amount/currency",
    "/NotificationRequestItem/eventCode",
    "/NotificationRequestItem/success",
];

/// The scheme with a webhook's keys.
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
        let reader = Reader::of(item)?;
        let signature = reader.text(SIGNATURE)?;
        if signature.trim().is_empty() {
            return Err(Reason::MissingSignature);
        }
        let given = [builtin::decoded(&signature, Encoding::Base64)?];
        let message = [Cow::Owned(reader.message()?.into_bytes())];
        let found = self.keys.iter().position(|key| key.verify(&message, &given));
        let index = found.ok_or(Reason::Mismatch)?;
        Ok((index, reader.inner()?))
    }
}

impl Verifier for Adyen {
    fn verify(&self, request: &Request, _now: UnixMillis) -> Result<Verified, Rejection> {
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
            let message = Reader::of(&text).and_then(|reader| reader.message());
            let message = [Cow::Owned(message.map_err(|_unreadable| SignError::Incomplete)?.into_bytes())];
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
    static WANTED: LazyLock<(Wanted, Option<Pointer>)> = LazyLock::new(|| {
        let pointer = Pointer::parse(ITEMS);
        (Wanted::new(&pointer), pointer)
    });
    let (wanted, pointer) = &*WANTED;
    let hits = wanted.find(body).map_err(|json::Unreadable| Reason::MissingSignature)?;
    let hit = pointer.as_ref().map_or(Hit::Missing, |pointer| wanted.hit(&hits, pointer));
    let Hit::Raw(raw) = hit else { return Err(Reason::MissingSignature) };
    json::elements(raw, BATCH_EVENTS_MAX).ok_or(Reason::MalformedSignature)
}

/// One item's values.
struct Reader<'a> {
    hits: json::Hits<'a>,
}

static VALUES: LazyLock<Wanted> = LazyLock::new(|| {
    let pointers: Vec<Pointer> =
        SIGNED.iter().chain([&SIGNATURE, &ITEM]).filter_map(|text| Pointer::parse(text)).collect();
    Wanted::new(&pointers)
});

impl<'a> Reader<'a> {
    fn of(item: &'a str) -> Result<Self, Reason> {
        let hits = VALUES.find(item.as_bytes()).map_err(|json::Unreadable| Reason::MalformedSignature)?;
        Ok(Self { hits })
    }

    /// The notification inside its wrapping.
    fn inner(&self) -> Result<&'a str, Reason> {
        match Pointer::parse(ITEM).map_or(Hit::Missing, |pointer| VALUES.hit(&self.hits, &pointer)) {
            Hit::Raw(raw) => Ok(raw),
            Hit::Missing | Hit::Ambiguous => Err(Reason::MalformedSignature),
        }
    }

    /// A value as text; what is not there is empty.
    fn text(&self, pointer: &str) -> Result<Cow<'a, str>, Reason> {
        let Some(pointer) = Pointer::parse(pointer) else { return Ok(Cow::Borrowed("")) };
        match VALUES.hit(&self.hits, &pointer) {
            Hit::Missing => Ok(Cow::Borrowed("")),
            Hit::Ambiguous => Err(Reason::MalformedSignature),
            Hit::Raw(raw) => match json::scalar(raw) {
                Scalar::Text(text) => Ok(text),
                Scalar::Null => Ok(Cow::Borrowed("")),
                Scalar::Other => Err(Reason::MalformedSignature),
            },
        }
    }

    fn message(&self) -> Result<String, Reason> {
        let mut message = String::new();
        for (index, pointer) in SIGNED.iter().enumerate() {
            let text = self.text(pointer)?;
            if index != MERCHANT_REFERENCE && text.contains(':') {
                return Err(Reason::MalformedSignature);
            }
            if index > 0 {
                message.push(':');
            }
            message.push_str(&text);
        }
        Ok(message)
    }
}
