//! The client's side of `tail`: events out of a stream of server-sent events.

use anyhow::{Context as _, bail};

use crate::view::EventView;

/// More than one event can hold; a stream without line breaks is no stream of ours.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An open stream.
#[derive(Debug)]
pub(crate) struct Live {
    response: reqwest::Response,
    rest: Vec<u8>,
}

impl Live {
    pub(super) fn new(response: reqwest::Response) -> Self {
        Self { response, rest: Vec::new() }
    }

    /// What came, as soon as something did; fails when the server is gone.
    pub(super) async fn next(&mut self) -> anyhow::Result<Vec<EventView>> {
        loop {
            let chunk = self.response.chunk().await.map_err(reqwest::Error::without_url);
            let Some(chunk) = chunk.context("the stream broke off")? else { bail!("the server ended the stream") };
            self.rest.extend_from_slice(&chunk);
            let events = take_events(&mut self.rest)?;
            if !events.is_empty() {
                return Ok(events);
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
