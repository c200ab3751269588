//! The checker of processing: what a handler that writes `effects (event_id, event_key, …)` left, against what the
//! deliveries say.

use crate::TestDatabase;

/// What is wrong, by event key; everything must be empty.
#[derive(Clone, Debug, Default)]
pub struct EffectReport {
    /// Events whose effect is there more than once.
    pub double: Vec<String>,
    /// Deliveries that are done without an effect.
    pub missing: Vec<String>,
    /// Effects of deliveries that are not done.
    pub unmarked: Vec<String>,
    /// Deliveries that are neither done, nor superseded, nor stopped for a person.
    pub stuck: Vec<String>,
    /// Dead letters: allowed, but worth a number.
    pub dead: Vec<String>,
}

impl EffectReport {
    /// Compares once everything is quiet.
    pub fn of(db: &TestDatabase, handler: &str) -> Self {
        let view = db.table("deliveries_v1");
        let keys = |sql: String| db.query(&sql).into_iter().map(|mut row| row.remove(0)).collect();
        let of = format!("from {view} d where d.handler = '{handler}'");
        // A list, not a question for each row: the table has no index.
        let has_effect = "cast(d.key as text) in (select event_key from effects where event_key is not null)";
        Self {
            double: keys("select event_key from effects group by event_key having count(*) > 1".to_owned()),
            missing: keys(format!("select d.key {of} and d.state = 'done' and not {has_effect}")),
            unmarked: keys(format!("select d.key {of} and d.state <> 'done' and {has_effect}")),
            stuck: keys(format!("select d.key {of} and d.state in ('ready', 'claimed')")),
            dead: keys(format!("select d.key {of} and d.state = 'dead'")),
        }
    }

    /// Panics unless each effect is there exactly once and nothing is in between.
    #[track_caller]
    pub fn assert_clean(&self) {
        let Self { double, missing, unmarked, stuck, .. } = self;
        assert!(double.is_empty() && missing.is_empty() && unmarked.is_empty() && stuck.is_empty(), "{self:?}");
    }
}
