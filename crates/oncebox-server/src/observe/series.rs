//! Series that are there from the start, at zero: an alert never compares with nothing, and the first failure is a step
//! from zero to one, which a rate can see.

use metrics::{counter, gauge, histogram};
use oncebox_verify::Reason;

use crate::observe::rejections::REFUSED;
use crate::setup::Setup;

const RESULTS: [&str; 6] = ["accepted", "duplicate", "conflict", "held", "rejected", "unavailable"];
const TRIES: [&str; 2] = ["first", "retry"];
const OUTCOMES: [&str; 4] = ["done", "failed", "dead", "superseded"];
const SENDING_OUTCOMES: [&str; 3] = ["sent", "failed", "dead"];

/// Shows which program this is and all that it is configured to do.
pub(crate) fn begin(database: &'static str, setup: &Setup) {
    gauge!("oncebox_build_info", "version" => env!("CARGO_PKG_VERSION"), "database" => database).set(1.0);
    let _ = histogram!("oncebox_ack_seconds");
    counter!("oncebox_purged_total", "table" => "payloads").increment(0);
    for (_, reason, _) in REFUSED {
        counter!("oncebox_refused_total", "reason" => reason).increment(0);
    }
    show(setup);
}

/// Shows everything that is configured, at zero where nothing happened yet.
pub(crate) fn show(setup: &Setup) {
    for (name, source) in &setup.sources {
        for result in RESULTS {
            counter!("oncebox_arrivals_total", "source" => name.clone(), "result" => result).increment(0);
        }
        for reason in Reason::ALL {
            let reason = reason.as_str();
            counter!("oncebox_rejections_total", "source" => name.clone(), "reason" => reason).increment(0);
        }
        counter!("oncebox_id_mismatches_total", "source" => name.clone()).increment(0);
        for secret in 1..=source.secrets_count() {
            oncebox::gateway::ingest::secret_matches(source, secret).increment(0);
        }
    }
    for handler in setup.routes.handlers() {
        for (nth, outcome) in pairs(&OUTCOMES) {
            let handler = handler.to_owned();
            counter!("oncebox_attempts_total", "handler" => handler, "try" => nth, "outcome" => outcome).increment(0);
        }
        let _ = histogram!("oncebox_handler_seconds", "handler" => handler.to_owned());
    }
    for destination in &setup.destinations {
        for (nth, outcome) in pairs(&SENDING_OUTCOMES) {
            let name = destination.clone();
            counter!("oncebox_outbox_attempts_total", "destination" => name, "try" => nth, "outcome" => outcome)
                .increment(0);
        }
        let _ = histogram!("oncebox_outbox_seconds", "destination" => destination.clone());
    }
}

fn pairs<'a>(outcomes: &'a [&'static str]) -> impl Iterator<Item = (&'static str, &'static str)> + 'a {
    TRIES.into_iter().flat_map(|nth| outcomes.iter().map(move |outcome| (nth, *outcome)))
}
