//! HMAC over a time from a header and the body, or over the URL, the time and the body.

use ring::hmac::HMAC_SHA256;
use serde_json::json;

use super::crypto::{base256, hex, hex256, sha1};
use super::{Capture, Case, Ctx};

pub(super) fn cases() -> Vec<Case> {
    [chat(), others(), canonical()].concat()
}

/// `v0=…` over `v0:{time}:{body}`.
macro_rules! v0 {
    ($slug:literal, $signature:literal, $time:literal, $draft:expr) => {
        Case::new($slug, $signature, $draft, |ctx, capture| {
            let mac = hex256(&ctx.secret, &[b"v0:", ctx.seconds().as_bytes(), b":", &capture.body]);
            capture.set($time, ctx.seconds());
            capture.set($signature, format!("v0={mac}"));
        })
        .hmac(&HMAC_SHA256)
        .window(300)
        .rejects("the right digest as version 9", |_, capture| {
            capture.set($signature, capture.value($signature).replace("v0=", "v9="));
        })
        .rejects("a later time than the signed one", |ctx, capture| capture.set($time, (ctx.now + 1).to_string()))
        .rejects("no time", |_, capture| capture.remove($time))
        .rejects("the time twice", |ctx, capture| capture.headers.push(($time.to_owned(), ctx.seconds())))
        .rejects("the time in milliseconds", |ctx, capture| {
            let mac = hex256(&ctx.secret, &[b"v0:", ctx.millis().as_bytes(), b":", &capture.body]);
            capture.set($time, ctx.millis());
            capture.set($signature, format!("v0={mac}"));
        })
    };
}

fn chat() -> Vec<Case> {
    vec![
        v0!("slack", "X-Slack-Signature", "X-Slack-Request-Timestamp", |ctx| {
            let body = json!({"token": "z", "team_id": "T1", "api_app_id": "A1", "type": "event_callback", "event_id": ctx.id("Ev"), "event_time": ctx.now,
                "event": {"type": "app_mention", "user": "U1", "channel": "C1", "text": "<@U0LAN0Z89> hello", "event_ts": "1515449522000016"}});
            ctx.json(body).event([&ctx.id("Ev")], ["app_mention"])
        }),
        v0!("zoom", "x-zm-signature", "x-zm-request-timestamp", |ctx| {
            let (when, uuid) = ((ctx.now * 1000 - 7).to_string(), ctx.id("4444AAAiAAAAAiAiAiiAii=="));
            let body = json!({"event": "meeting.started", "event_ts": ctx.now * 1000 - 7,
                "payload": {"account_id": "AAAAAABBBB", "object": {"id": "1234567890", "uuid": uuid, "topic": "My Meeting"}}});
            ctx.json(body).header("x-zm-trackingid", "v=2.0;clid=aw1").event(["meeting.started", &when, &uuid], ["meeting.started"])
        }),
        Case::new(
            "twitch-eventsub",
            "Twitch-Eventsub-Message-Signature",
            |ctx| {
                let body = json!({"subscription": {"id": "s-1", "status": "enabled", "type": "channel.follow", "version": "2"},
                    "event": {"user_id": "1234", "broadcaster_user_id": "1337", "followed_at": "2027-01-15T07:59:59.634234626Z"}});
                ctx.json(body)
                    .header("Twitch-Eventsub-Message-Id", ctx.uuid())
                    .header("Twitch-Eventsub-Message-Type", "notification")
                    .header("Twitch-Eventsub-Message-Timestamp", ctx.rfc3339(".123456789"))
                    .event([&ctx.uuid()], ["channel.follow"])
            },
            |ctx, capture| {
                let (id, time) = (ctx.uuid(), ctx.rfc3339(".123456789"));
                let mac = hex256(&ctx.secret, &[id.as_bytes(), time.as_bytes(), &capture.body]);
                capture.set("Twitch-Eventsub-Message-Signature", format!("sha256={mac}"));
            },
        )
        .hmac(&HMAC_SHA256)
        .window_of(599, Some(602), Some(602))
        .rejects("another id than the signed one", |_, capture| capture.set("Twitch-Eventsub-Message-Id", "another"))
        .rejects("a byte moved from the id to the time", |ctx, capture| {
            let (id, time) = (ctx.uuid(), ctx.rfc3339(".123456789"));
            let (front, last) = id.split_at(id.len() - 1);
            capture.set("Twitch-Eventsub-Message-Id", front);
            capture.set("Twitch-Eventsub-Message-Timestamp", format!("{last}{time}"));
        }),
    ]
}

fn others() -> Vec<Case> {
    vec![
        Case::new("zendesk", "X-Zendesk-Webhook-Signature", zendesk, |ctx, capture| {
            let mac = base256(&ctx.secret, &[ctx.rfc3339("").as_bytes(), &capture.body]);
            capture.set("X-Zendesk-Webhook-Signature", mac);
        })
        .hmac(&HMAC_SHA256)
        .window_of_ours()
        .rejects("a later time than the signed one", |ctx, capture| {
            capture.set("X-Zendesk-Webhook-Signature-Timestamp", super::crypto::rfc3339(ctx.now + 1, ""));
        })
        .rejects("a byte moved from the body to the time", |_, capture| {
            let time = format!("{}{}", capture.value("X-Zendesk-Webhook-Signature-Timestamp"), char::from(capture.body[0]));
            capture.set("X-Zendesk-Webhook-Signature-Timestamp", time);
            capture.body.remove(0);
        }),
        boxes(),
        Case::new(
            "cloudinary",
            "X-Cld-Signature",
            |ctx| {
                let body = json!({"notification_type": "upload", "timestamp": "2027-01-15T07:59:59+00:00", "request_id": ctx.id("r"),
                    "public_id": "sample", "version": 1_368_881_627, "format": "jpg", "width": 864, "height": 576});
                ctx.json(body).event([&ctx.id("r"), "upload"], ["upload"])
            },
            |ctx, capture| {
                let whole = [&capture.body, ctx.seconds().as_bytes(), ctx.secret.as_bytes()].concat();
                capture.set("X-Cld-Timestamp", ctx.seconds());
                capture.set("X-Cld-Signature", hex(&sha1(&whole)));
            },
        )
        .window_of(7200, Some(7201), Some(7201))
        .rejects("an HMAC in place of the digest", |ctx, capture| {
            let mac = super::crypto::hex1(&ctx.secret, &[&capture.body, ctx.seconds().as_bytes()]);
            capture.set("X-Cld-Signature", mac);
        })
        .rejects("a byte moved from the body to the time", |_, capture| {
            let last = capture.body.pop().map(char::from).expect("a body");
            capture.set("X-Cld-Timestamp", format!("{last}{}", capture.value("X-Cld-Timestamp")));
        }),
    ]
}

fn zendesk(ctx: &Ctx) -> Capture {
    let body = json!({"type": "zen:event-type:user.created", "id": ctx.id("b7"), "account_id": 12_514_403, "time": "2027-01-15T07:59:59Z",
        "zendesk_event_version": "2022-06-20", "subject": "zen:user:6596848315901", "detail": {"id": "6596848315901"}, "event": {}});
    let id = super::Id::OneOf(vec![super::Id::parts([&ctx.id("01FJ")]), super::Id::parts([&ctx.id("b7")])]);
    ctx.json(body)
        .header("X-Zendesk-Webhook-Invocation-Id", ctx.id("01FJ"))
        .header("X-Zendesk-Webhook-Signature-Timestamp", ctx.rfc3339(""))
        .event_by(id, ["zen:event-type:user.created"])
}

/// Two keys, each with a header of its own.
fn boxes() -> Case {
    let draft = |ctx: &Ctx| {
        let body = json!({"type": "webhook_event", "id": ctx.uuid(), "created_at": "2027-01-15T07:59:59-08:00", "trigger": "FILE.UPLOADED",
            "webhook": {"id": "53", "type": "webhook"}, "source": {"id": "73835521473", "type": "file", "name": "Test.txt"}});
        ctx.json(body)
            .header("BOX-DELIVERY-ID", "f96bb54b-ee16-4fc5-aa65-8c2d9e5b546f")
            .header("BOX-DELIVERY-TIMESTAMP", ctx.rfc3339(""))
            .header("BOX-SIGNATURE-VERSION", "1")
            .header("BOX-SIGNATURE-ALGORITHM", "HmacSHA256")
            .event([&ctx.uuid()], ["FILE.UPLOADED"])
    };
    Case::new("box", "BOX-SIGNATURE-PRIMARY", draft, |ctx, capture| {
        let mac = base256(&ctx.secret, &[&capture.body, ctx.rfc3339("").as_bytes()]);
        capture.set("BOX-SIGNATURE-PRIMARY", mac);
    })
    .setting("secondary", "s3c0nd4ry-k3y-0f-th3-4ppl1c4t10n")
    .hmac(&HMAC_SHA256)
    .window_of(600, Some(601), Some(1))
    .accepts("only the secondary signature is right", |ctx, capture| {
        let parts = [&capture.body[..], ctx.rfc3339("").as_bytes()].map(<[u8]>::to_vec);
        let secondary = base256("s3c0nd4ry-k3y-0f-th3-4ppl1c4t10n", &[&parts[0], &parts[1]]);
        capture.set("BOX-SIGNATURE-PRIMARY", base256("old", &[&parts[0], &parts[1]]));
        capture.set("BOX-SIGNATURE-SECONDARY", secondary);
    })
    .rejects("the primary signature in the secondary's place", |_, capture| {
        capture.set("BOX-SIGNATURE-SECONDARY", capture.value("BOX-SIGNATURE-PRIMARY").to_owned());
        capture.remove("BOX-SIGNATURE-PRIMARY");
    })
    .rejects("another version", |_, capture| capture.set("BOX-SIGNATURE-VERSION", "2"))
    .rejects("another algorithm", |_, capture| capture.set("BOX-SIGNATURE-ALGORITHM", "HmacSHA1"))
}

const LISTED: [&str; 4] =
    ["content-type", "x-contentful-signed-headers", "x-contentful-timestamp", "x-contentful-topic"];

fn canonical() -> Vec<Case> {
    vec![
        Case::new(
            "hubspot-v3",
            "X-HubSpot-Signature-v3",
            |ctx| {
                let (first, second, when) = (ctx.number_id(), ctx.number_id() + 1_000_000_000, ctx.now * 1000 - 5);
                let event = |id: u64, kind: &str| {
                    json!({"eventId": id, "subscriptionId": 25, "portalId": 33, "appId": 1160, "occurredAt": when,
                    "subscriptionType": kind, "attemptNumber": 0, "objectId": 1246, "changeSource": "CRM"})
                };
                let id =
                    |id: u64| ["33".to_owned(), "25".to_owned(), id.to_string(), "1246".to_owned(), when.to_string()];
                let (one, two) = (id(first), id(second));
                ctx.json(json!([event(first, "contact.creation"), event(second, "deal.propertyChange")]))
                    .event(one.each_ref().map(String::as_str), ["contact.creation"])
                    .event(two.each_ref().map(String::as_str), ["deal.propertyChange"])
            },
            |ctx, capture| {
                let mac =
                    base256(&ctx.secret, &[b"POST", ctx.url().as_bytes(), &capture.body, ctx.millis().as_bytes()]);
                capture.set("X-HubSpot-Request-Timestamp", ctx.millis());
                capture.set("X-HubSpot-Signature-v3", mac);
            },
        )
        .signs_url()
        .hmac(&HMAC_SHA256)
        .window(300)
        .rejects("only the weaker v1 header", |ctx, capture| {
            capture.remove("X-HubSpot-Signature-v3");
            let digest = super::crypto::sha256(&[ctx.secret.as_bytes(), &capture.body].concat());
            capture.set("X-HubSpot-Signature", hex(&digest));
            capture.set("X-HubSpot-Signature-Version", "v1");
        })
        .rejects("signed for another URL", |ctx, capture| {
            let url = b"https://elsewhere.example/in/hubspot-v3";
            let mac = base256(&ctx.secret, &[b"POST", url, &capture.body, ctx.millis().as_bytes()]);
            capture.set("X-HubSpot-Signature-v3", mac);
        }),
        Case::new("contentful", "X-Contentful-Signature", contentful, |ctx, capture| {
            sign_contentful(ctx, capture, &LISTED)
        })
        .hmac(&HMAC_SHA256)
        // Thirty seconds in the vendor's own code; behind a proxy more is needed (rule 5).
        .window_of(30, Some(301), Some(301))
        .rejects("the topic is not in the list", |ctx, capture| sign_contentful(ctx, capture, &LISTED[..3]))
        .rejects("the time is not in the list", |ctx, capture| {
            sign_contentful(ctx, capture, &[LISTED[0], LISTED[1], LISTED[3]])
        })
        .rejects("another topic than the signed one", |_, capture| {
            capture.set("X-Contentful-Topic", "ContentManagement.Entry.delete")
        }),
    ]
}

fn contentful(ctx: &Ctx) -> Capture {
    let body = json!({"sys": {"type": "Entry", "id": ctx.id("e"), "version": 7, "updatedAt": "2027-01-15T07:59:59.000Z"},
        "fields": {"title": {"en-US": "hello"}}});
    let topic = "ContentManagement.Entry.save";
    let mut capture = ctx.json(body).header("X-Contentful-Topic", topic).header("X-Contentful-Timestamp", ctx.millis());
    capture.set("content-type", "application/vnd.contentful.management.v1+json");
    capture.event([&ctx.id("e"), "7", topic], [topic])
}

/// Method, path, the listed headers as `name:value` with semicolons between them, body; one per line.
fn sign_contentful(ctx: &Ctx, capture: &mut Capture, listed: &[&str]) {
    capture.set("X-Contentful-Signed-Headers", listed.join(","));
    let headers: Vec<String> = listed.iter().map(|name| format!("{name}:{}", capture.value(name))).collect();
    let head = format!("POST\n/in/contentful\n{}\n", headers.join(";"));
    let mac = hex256(&ctx.secret, &[head.as_bytes(), &capture.body]);
    capture.set("X-Contentful-Signature", mac);
}
