//! How a command refuses what it was asked for.

use crate::terminal;

/// The command line asks for something that cannot be: exit status 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongUsage(String);

/// Refuses a command line, with a sentence that says what to do.
pub(crate) fn wrong_usage(sentence: impl Into<String>) -> anyhow::Error {
    WrongUsage(sentence.into()).into()
}

/// Asks a question; where nobody can answer, refuses with a sentence that says how to agree beforehand.
pub(crate) fn agreed(question: &str, refusal: impl Into<String>) -> anyhow::Result<bool> {
    terminal::agrees(question)?.ok_or_else(|| wrong_usage(refusal))
}

/// What is asked contradicts what happened before: exit status 1, and trying again would not help.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Contradiction(String);

/// Refuses what contradicts something that happened before.
pub(crate) fn contradiction(sentence: impl Into<String>) -> anyhow::Error {
    Contradiction(sentence.into()).into()
}

/// Adds how to go on to a failure that may be of the moment; what was refused would be refused again.
pub(crate) fn unless_refused(error: anyhow::Error, advice: impl FnOnce() -> String) -> anyhow::Error {
    if error.is::<WrongUsage>() || error.is::<Contradiction>() { error } else { error.context(advice()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_refused_is_not_to_be_tried_again() {
        for (error, expected) in [
            (wrong_usage("say which"), "say which"),
            (contradiction("used before"), "used before"),
            (anyhow::anyhow!("it is gone"), "go on: it is gone"),
        ] {
            assert_eq!(format!("{:#}", unless_refused(error, || "go on".to_owned())), expected);
        }
    }
}
