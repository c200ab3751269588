//! Samples of the providers whose scheme is code: their events sit in forms, envelopes and XML.

use data_encoding::BASE64;
use serde_json::json;

use super::{FORM, JSON, Kind, Made};
use crate::provider::vendor::{braintree, mandrill};
use crate::read::form;

pub(super) fn sample(provider: &str, id: &str, kind: Kind<'_>, seconds: i64, filler: &str) -> Option<Made> {
    let plain = |content_type, body| Some((Vec::new(), content_type, body));
    match provider {
        "twilio-event-streams" => {
            let event = json!({
                "specversion": "1.0", "id": id, "type": kind("com.twilio.messaging.message.delivered"),
                "source": "/sample", "subject": "SM0", "time": "2026-01-01T00:00:00.000Z", "data": { "filler": filler },
            });
            plain(JSON, json!([event]).to_string())
        }
        "mandrill" => {
            let event = json!([{ "event": kind("open"), "_id": id, "ts": seconds, "msg": { "subject": filler } }]);
            plain(FORM, format!("{}={}", mandrill::EVENTS, form::encode(&event.to_string())))
        }
        "adyen-standard" => {
            let item = json!({
                "additionalData": {}, "amount": { "value": 1130, "currency": "EUR" }, "pspReference": id,
                "eventCode": kind("AUTHORISATION"), "eventDate": "2026-01-01T00:00:00+00:00",
                "merchantAccountCode": "TestMerchant", "merchantReference": "sample", "reason": filler, "success": "true",
            });
            let items = json!([{ "NotificationRequestItem": item }]);
            plain(JSON, json!({ "live": "false", "notificationItems": items }).to_string())
        }
        "braintree" => {
            let escaped = id.replace('&', "&amp;").replace('<', "&lt;");
            let xml = format!(
                "<notification><kind>{}</kind><timestamp type=\"datetime\">{seconds}</timestamp><subject><subscription>\
                 <id>{escaped}</id><note>{filler}</note></subscription></subject></notification>",
                kind("subscription_charged_successfully")
            );
            plain(FORM, format!("{}={}", braintree::PAYLOAD, form::encode(&BASE64.encode(xml.as_bytes()))))
        }
        "contentful" => {
            let headers = vec![("x-contentful-topic", kind("ContentManagement.Entry.publish"))];
            let body = json!({ "sys": { "type": "Entry", "id": id, "version": 3 }, "fields": { "filler": filler } });
            Some((headers, "application/vnd.contentful.management.v1+json", body.to_string()))
        }
        "dropbox-sign" => {
            let event = json!({
                "event": { "event_type": kind("signature_request_sent"), "event_time": seconds.to_string() },
                "signature_request": { "signature_request_id": id, "title": filler },
            });
            plain(FORM, format!("json={}", form::encode(&event.to_string())))
        }
        _ => None,
    }
}
