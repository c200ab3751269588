//! Counts answers and shows them.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Answer, Status};
use crate::terminal::{self, Tone};

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) accepted: u64,
    pub(super) duplicate: u64,
    pub(super) conflict: u64,
    pub(super) held: u64,
    pub(super) rejected: u64,
    pub(super) failed: u64,
    keys: Vec<String>,
    known: HashSet<String>,
    first_refusal: Option<String>,
}

impl Tally {
    pub(super) fn add(&mut self, answer: Answer) {
        self.sent += 1;
        let refusal = match answer {
            Answer::Stored { status, key } => {
                *match status {
                    Status::Accepted => &mut self.accepted,
                    Status::Duplicate => &mut self.duplicate,
                    Status::Conflict => &mut self.conflict,
                    Status::Held => &mut self.held,
                } += 1;
                if let Some(key) = key.filter(|key| !self.known.contains(key)) {
                    self.known.insert(key.clone());
                    self.keys.push(key);
                }
                return;
            }
            Answer::Rejected(line) => {
                self.rejected += 1;
                line
            }
            Answer::Failed(line) => {
                self.failed += 1;
                line
            }
            Answer::Unreachable(error) => {
                self.failed += 1;
                error.to_string()
            }
        };
        self.first_refusal.get_or_insert(refusal);
    }

    pub(super) fn as_json(&self, provider: &str, to: &str, elapsed: Duration) -> Value {
        json!({
            "provider": provider, "to": to, "sent": self.sent, "seconds": elapsed.as_secs_f64(),
            "accepted": self.accepted, "duplicate": self.duplicate, "conflict": self.conflict, "held": self.held,
            "rejected": self.rejected, "failed": self.failed, "first_refusal": self.first_refusal, "keys": self.keys,
        })
    }

    pub(super) fn as_text(&self, provider: &str, to: &str, elapsed: Duration) -> String {
        let requests = terminal::counted(self.sent, "request");
        let mut lines = vec![format!("{provider}: {requests} to {to} in {:.2} s", elapsed.as_secs_f64())];
        let mut table = terminal::table(&[]);
        for (word, count, tone) in [
            ("accepted", self.accepted, Tone::Good),
            ("duplicate", self.duplicate, Tone::Good),
            ("conflict", self.conflict, Tone::Warning),
            ("held", self.held, Tone::Warning),
            ("rejected", self.rejected, Tone::Warning),
            ("failed", self.failed, Tone::Bad),
        ] {
            let count_text = count.to_string();
            table.add_row([terminal::cell(word), terminal::toned(&count_text, (count > 0).then_some(tone))]);
        }
        lines.push(table.trim_fmt());
        if let Some(refusal) = &self.first_refusal {
            lines.push(format!("the first refusal: {}", terminal::plain(refusal)));
        }
        lines.join("\n")
    }

    /// The command that shows what was stored; `reach` is how it finds the server.
    pub(super) fn next_command(&self, source: &str, reach: &str) -> Option<String> {
        match self.keys.as_slice() {
            [] => None,
            [key] => Some(format!("one event; see it with: oncebox event {}{reach}", terminal::plain(key))),
            keys => {
                let events = terminal::counted(keys.len() as u64, "event");
                Some(format!("{events}; see them with: oncebox events --source {source}{reach}"))
            }
        }
    }

    /// Whether all went as it was meant: a refusal is right only where bad requests were asked for.
    pub(super) fn is_as_meant(&self, meant_well: bool) -> bool {
        self.failed == 0 && !(meant_well && self.rejected > 0)
    }

    /// How many requests the server has something of.
    pub(super) fn stored(&self) -> u64 {
        self.accepted + self.duplicate + self.conflict + self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_right_only_where_it_was_asked_for() {
        for (accepted, rejected, failed, meant_well, expected) in [
            (2, 0, 0, true, true),
            (2, 1, 0, true, false),
            (0, 2, 0, true, false),
            (0, 2, 0, false, true),
            (1, 0, 0, false, true),
            (0, 2, 1, false, false),
        ] {
            let tally = Tally { accepted, rejected, failed, ..Tally::default() };
            assert_eq!(tally.is_as_meant(meant_well), expected, "{tally:?} {meant_well}");
        }
    }

    #[test]
    fn counts_keys_and_the_first_refusal() {
        let mut tally = Tally::default();
        let stored = |status, key: &str| Answer::Stored { status, key: Some(key.to_owned()) };
        for answer in [
            stored(Status::Accepted, "k1"),
            stored(Status::Duplicate, "k1"),
            stored(Status::Held, "k2"),
            Answer::Rejected("401".to_owned()),
            Answer::Failed("503".to_owned()),
        ] {
            tally.add(answer);
        }
        let found = tally.as_json("stripe", "http://a/in/stripe", Duration::from_millis(1500));
        let expected = json!({
            "provider": "stripe", "to": "http://a/in/stripe", "sent": 5, "seconds": 1.5,
            "accepted": 1, "duplicate": 1, "conflict": 0, "held": 1, "rejected": 1, "failed": 1,
            "first_refusal": "401", "keys": ["k1", "k2"],
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn people_get_the_next_command() {
        let mut tally = Tally::default();
        tally.add(Answer::Stored { status: Status::Accepted, key: Some("k1".to_owned()) });
        tally.add(Answer::Stored { status: Status::Duplicate, key: Some("k1".to_owned()) });
        assert_eq!(
            tally.as_text("stripe", "http://a/in/stripe", Duration::from_millis(10)),
            "stripe: 2 requests to http://a/in/stripe in 0.01 s\n accepted   1\n duplicate  1\n conflict   0\n \
             held       0\n rejected   0\n failed     0"
        );
        let next = tally.next_command("stripe", " --database sqlite:a.db");
        assert_eq!(next.as_deref(), Some("one event; see it with: oncebox event k1 --database sqlite:a.db"));
    }
}
