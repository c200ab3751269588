//! The client's side of `tail`: events out of a stream of server-sent events.

use std::time::Duration;

use anyhow::{Context as _, bail};
use http_body_util::BodyExt as _;
use oncebox::Clock;
use oncebox::gateway::event::EventKey;

use super::{Body, Operator, Probe};
use crate::query::tail::TailQuery;
use crate::query::view::EventView;
use crate::terminal;

/// More than one event can hold; a stream without line breaks is no stream of ours.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The pause before a server that is gone is looked for again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A stream that is opened again when the server comes back, after what was seen last.
#[derive(Debug)]
pub(crate) struct Following {
    operator: Operator,
    query: TailQuery,
    live: Live,
    last: String,
}

impl Following {
    pub(super) async fn open(operator: Operator, query: TailQuery) -> anyhow::Result<Self> {
        // Whatever comes from now on is shown, also if the server restarts before the first event.
        let last = EventKey::at(Clock::system().now()).to_string();
        let live = operator.stream(&query, None).await?;
        Ok(Self { operator, query, live, last })
    }

    /// What came, as soon as something did, over restarts of the server.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Vec<EventView>> {
        loop {
            if let Some(events) = self.live.next().await? {
                if let Some(event) = events.last() {
                    self.last.clone_from(&event.key);
                }
                return Ok(events);
            }
            terminal::note("the server ended the stream; waiting for it to come back");
            self.live = self.come_back().await?;
            terminal::note("it is back");
        }
    }

    /// A server that stops or starts refuses connections for a while; whatever else it says is final.
    async fn come_back(&self) -> anyhow::Result<Live> {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            if self.operator.probe().await? == Probe::Answers {
                return self.operator.stream(&self.query, Some(&self.last)).await;
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Live {
    body: Body,
    rest: Vec<u8>,
}

impl Live {
    pub(super) fn new(body: Body) -> Self {
        Self { body, rest: Vec::new() }
    }

    /// What came, as soon as something did; none when the server is gone.
    async fn next(&mut self) -> anyhow::Result<Option<Vec<EventView>>> {
        loop {
            let Some(Ok(frame)) = self.body.frame().await else { return Ok(None) };
            self.rest.extend_from_slice(frame.data_ref().map_or(&[], |chunk| chunk));
            let events = take_events(&mut self.rest)?;
            if !events.is_empty() {
                return Ok(Some(events));
            }
            if self.rest.len() > LINE_BYTES_MAX {
                bail!("the stream holds no lines");
            }
        }
    }
}

/// The events of all whole lines; what is left waits for its end.
fn take_events(rest: &mut Vec<u8>) -> anyhow::Result<Vec<EventView>> {
    let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { return Ok(Vec::new()) };
    let whole: Vec<u8> = rest.drain(..=end).collect();
    let data = whole.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data: "));
    data.map(|json| serde_json::from_slice(json).context("the stream holds something else than events")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str = r#"data: {"source":"s","event_id":"e","key":"k","type":"t","body_sha256":"","state":"accepted","arrivals":1,"received_at":"","last_arrival_at":"","identity":"id","reason":null,"original":null}"#;

    #[test]
    fn events_are_taken_as_their_lines_end() {
        let mut rest = b": keep alive\n\nevent: event\nid: k\n".to_vec();
        assert!(take_events(&mut rest).expect("lines").is_empty() && rest.is_empty());
        rest.extend_from_slice(EVENT.as_bytes());
        assert!(take_events(&mut rest).expect("half a line").is_empty());
        rest.extend_from_slice(b"\n\ndata:");
        let events = take_events(&mut rest).expect("a line");
        assert_eq!((events.len(), events[0].event_id.as_str(), rest.as_slice()), (1, "e", b"data:".as_slice()));
        assert!(take_events(&mut b"data: no\n".to_vec()).is_err());
    }
}
