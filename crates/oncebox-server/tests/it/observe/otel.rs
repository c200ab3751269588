//! Spans of a program that was built with them, as a collector receives them.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use testkit::receiver::Receiver;
use testkit::{TestDatabase, contract};

use crate::observe::trace::setup;
use crate::world::{PATIENCE, World, custom, wait_until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

#[derive(Clone, Debug)]
struct Span {
    trace: String,
    id: String,
    parent: String,
    name: String,
}

/// The fields of a protobuf message that hold bytes; numbers are skipped.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        match tag & 7 {
            0 => drop(varint(&mut bytes)),
            1 => bytes = &bytes[8..],
            5 => bytes = &bytes[4..],
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("a length");
                let (value, rest) = bytes.split_at(length);
                found.push((tag >> 3, value));
                bytes = rest;
            }
            other => panic!("wire type {other}"),
        }
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (first, rest) = bytes.split_first().expect("a byte");
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

fn inner(bytes: &[u8], number: u64) -> impl Iterator<Item = &[u8]> {
    fields(bytes).into_iter().filter(move |(field, _)| *field == number).map(|(_, value)| value)
}

/// Resource spans (1), scope spans (2), spans (2): trace id 1, span id 2, parent 4, name 5.
fn received(collector: &Receiver) -> Vec<Span> {
    let text = |span: &[u8], number| inner(span, number).next().map(<[u8]>::to_vec).unwrap_or_default();
    let mut spans = Vec::new();
    for call in collector.calls() {
        assert_eq!(call.path, "/v1/traces");
        assert_eq!(call.header("content-type"), Some("application/x-protobuf"));
        assert_eq!(call.header("x-team"), Some("canary-otlp-5Rr1"));
        for resource in inner(&call.body, 1) {
            for scope in inner(resource, 2) {
                spans.extend(inner(scope, 2).map(|span| Span {
                    trace: HEXLOWER.encode(&text(span, 1)),
                    id: HEXLOWER.encode(&text(span, 2)),
                    parent: HEXLOWER.encode(&text(span, 4)),
                    name: String::from_utf8(text(span, 5)).expect("a name"),
                }));
            }
        }
    }
    spans
}

contract! {
    async fn a_webhooks_way_is_traced_and_a_strangers_trace_is_not_believed(db: TestDatabase) {
        let (app, crm, collector) = (Receiver::start(), Receiver::start(), Receiver::start());
        let mut setup = setup(&db, &app, &crm);
        let base = collector.url().replace("/hooks", "");
        setup.rest.push_str(&format!("[telemetry]\notlp = \"{base}\"\nheaders = {{ x-team = {{ value = \"canary-otlp-5Rr1\" }} }}\n"));
        let mut world = World { program: setup.serve(), db };
        let mut traced = custom(r#"{"id":"traced"}"#);
        traced.headers.push(("traceparent".to_owned(), format!("00-{TRACE}-{CALLER}-01")));
        world.expect("custom", &traced, "accepted");
        world.expect("custom", &custom(r#"{"id":"begun here"}"#), "accepted");
        wait_until("all arrived", PATIENCE, || app.calls().len() >= 2 && crm.calls().len() >= 2);
        // The end sends what is left.
        world.program.signal(libc::SIGTERM);
        assert_eq!(world.program.wait_exit(PATIENCE).code(), Some(0));
        let spans = received(&collector);
        let mut traces: BTreeMap<&str, Vec<&Span>> = BTreeMap::new();
        spans.iter().for_each(|span| traces.entry(&span.trace).or_default().push(span));
        assert_eq!(traces.len(), 3, "{spans:#?}");
        for (trace, spans) in &traces {
            let mut names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
            names.sort_unstable();
            let Some(ingest) = spans.iter().find(|span| span.name == "ingest") else {
                // What is done about the event belongs to the trace that its sender named.
                assert_eq!((*trace, &names[..]), (TRACE, &["attempt", "attempt", "send"][..]), "{spans:#?}");
                assert!(spans.iter().all(|span| span.parent == CALLER), "{spans:#?}");
                continue;
            };
            // A stranger's trace is not believed before it is verified: each request begins one of its own.
            assert_eq!(ingest.parent, "");
            let all = ["attempt", "attempt", "ingest", "send", "store", "verify"];
            assert!(names == ["ingest", "store", "verify"] || names == all, "{spans:#?}");
            let others = spans.iter().filter(|span| span.name != "ingest");
            others.for_each(|span| assert_eq!(span.parent, ingest.id, "{span:?}"));
        }
        // Each call carries the span that made it.
        for (receiver, name) in [(&app, "attempt"), (&crm, "send")] {
            for call in receiver.calls() {
                let carried = call.header("traceparent").expect("a trace").to_owned();
                let parts: Vec<&str> = carried.split('-').collect();
                let made_by = |span: &Span| span.name == name && span.trace == parts[1] && span.id == parts[2];
                assert!(spans.iter().any(made_by), "{carried}: {spans:#?}");
            }
        }
        assert!(!world.program.log().contains("canary-otlp"), "a secret shows");
    }
}
