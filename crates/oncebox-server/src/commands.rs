//! The commands, one file each, and how a failed one ends: 1 when its work failed, 2 for wrong usage or config.

pub(crate) mod alert;
pub(crate) mod backup;
pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod dev;
pub(crate) mod explain;
pub(crate) mod inspect;
pub(crate) mod migrate;
pub(crate) mod operate;
pub(crate) mod providers;
pub(crate) mod send;
pub(crate) mod serve;

use std::io;
use std::process::ExitCode;

use crate::config::problem::Problems;
use crate::usage::WrongUsage;

/// Tells a person why a command failed and gives its exit status.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(problems) = error.downcast_ref::<Problems>() {
        eprintln!("{problems}");
        return ExitCode::from(2);
    }
    eprintln!("error: {error:#}");
    if error.is::<WrongUsage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// Whoever read our output has seen enough: `oncebox events | head` is no failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    match error.downcast_ref::<serde_json::Error>() {
        Some(json) => json.io_error_kind() == Some(io::ErrorKind::BrokenPipe),
        None => error.downcast_ref::<io::Error>().is_some_and(pipe),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::wrong_usage;

    #[test]
    fn ends() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        for (error, expected) in [
            (wrong_usage("no such provider"), ExitCode::from(2)),
            (anyhow::anyhow!("the server is gone"), ExitCode::FAILURE),
            (pipe().into(), ExitCode::SUCCESS),
            (serde_json::Error::io(pipe()).into(), ExitCode::SUCCESS),
            (io::Error::from(io::ErrorKind::NotFound).into(), ExitCode::FAILURE),
        ] {
            assert_eq!(format!("{:?}", report(&error)), format!("{expected:?}"), "{error}");
        }
    }
}
