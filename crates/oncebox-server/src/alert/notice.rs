//! The form of what is sent: an object with every part by its name, or a line of text for chats. Nothing in it comes from
//! a request: names of the config, numbers and times.

use oncebox::gateway::clock::UnixMillis;
use serde_json::json;

use super::{Notice, Phase};
use crate::config::alert::AlertKind;
use crate::query::view::time;

/// What is sent, and from where.
#[derive(Clone, Debug)]
pub(crate) struct NoticeBody<'a> {
    pub(crate) alert: &'a str,
    pub(crate) node: &'a str,
    pub(crate) at: UnixMillis,
    pub(crate) dashboard: Option<&'a str>,
}

impl NoticeBody<'_> {
    pub(crate) fn body(&self, kind: AlertKind, notice: &Notice) -> String {
        let condition = notice.condition.as_str();
        let state = if notice.phase == Phase::Over { "resolved" } else { "firing" };
        let link = self.dashboard.map(|at| format!("{}{}", at.trim_end_matches('/'), notice.condition.page()));
        match kind {
            AlertKind::Slack => {
                let again = if notice.phase == Phase::Lasts { ", still" } else { "" };
                let link = link.map(|link| format!(" {link}")).unwrap_or_default();
                self.line(&format!("{condition} is {state}{again}: {}{link}", notice.text))
            }
            AlertKind::Webhook => json!({
                "alert": self.alert,
                "node": self.node,
                "at": time(self.at),
                "condition": condition,
                "state": state,
                "since": time(notice.since),
                "value": notice.value,
                "limit": notice.limit,
                "text": notice.text,
                "link": link,
            })
            .to_string(),
        }
    }

    /// The body by which somebody tries whether notices arrive.
    pub(crate) fn trial(&self, kind: AlertKind) -> String {
        let text = "a test: notices of this alert arrive here";
        match kind {
            AlertKind::Slack => self.line(text),
            AlertKind::Webhook => {
                json!({ "alert": self.alert, "node": self.node, "at": time(self.at), "state": "test", "text": text })
                    .to_string()
            }
        }
    }

    fn line(&self, text: &str) -> String {
        json!({ "text": format!("[oncebox {} on {}] {text}", self.alert, self.node) }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::alert::Condition;

    #[test]
    fn both_forms_say_the_same() {
        let letter = NoticeBody { alert: "ops", node: "host/127.0.0.1:8080", at: 1_731_700_000_000, dashboard: None };
        let notice = Notice {
            condition: Condition::Dead,
            phase: Phase::Lasts,
            since: 1_731_690_000_000,
            value: 3.0,
            limit: 1.0,
            text: "3 dead (ledger 3)".to_owned(),
        };
        assert_eq!(
            letter.body(AlertKind::Slack, &notice),
            r#"{"text":"[oncebox ops on host/127.0.0.1:8080] dead is firing, still: 3 dead (ledger 3)"}"#
        );
        let body: serde_json::Value =
            serde_json::from_str(&letter.body(AlertKind::Webhook, &notice)).expect("a JSON object");
        assert_eq!((&body["condition"], &body["state"]), (&json!("dead"), &json!("firing")));
        assert_eq!((&body["value"], &body["since"]), (&json!(3.0), &json!("2024-11-15T17:00:00.000Z")));
        assert_eq!(body["link"], json!(null));
        let linked = NoticeBody { dashboard: Some("https://inbox.example.com/"), ..letter.clone() };
        assert!(linked.body(AlertKind::Slack, &notice).contains("(ledger 3) https://inbox.example.com/dead-letters"));
        assert!(
            linked.body(AlertKind::Webhook, &notice).contains(r#""link":"https://inbox.example.com/dead-letters""#)
        );
        let over = Notice { phase: Phase::Over, ..notice };
        assert!(letter.body(AlertKind::Slack, &over).contains("dead is resolved: "));
        assert!(letter.trial(AlertKind::Webhook).contains(r#""state":"test""#));
    }
}
