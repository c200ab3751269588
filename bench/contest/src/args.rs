//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::contender::Kind;
use crate::stranger::Stranger;

/// Runs Oncebox beside what a user would use instead, and prints ratios.
#[derive(Debug, Parser)]
#[command(
    name = "contest",
    after_help = "Contenders whose tool is missing are installed: packages by npm and pip, Redis by apt-get, qhook
by cargo. Figures are kept in the build folder, so that parts may be measured one by one; the
document is made of all that were.

Examples:
  contest
  contest --oncebox before=old/oncebox --oncebox target/release/oncebox
  contest --parts handling,relay --rounds 5
  contest --write docs/benchmarks.md
  contest document docs/benchmarks.md"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// A release build of Oncebox, as PATH or NAME=PATH; may be given several times to compare builds.
    #[arg(long = "oncebox", value_name = "BUILD", default_value = "target/release/oncebox")]
    pub(crate) builds: Vec<String>,
    /// What to measure: receiving, or everything where a document is written.
    #[arg(long, value_delimiter = ',')]
    parts: Option<Vec<Part>>,
    /// The servers that receive; all of them where none is named.
    #[arg(long, value_delimiter = ',')]
    contenders: Option<Vec<Kind>>,
    /// How many times every contender has its turn.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) rounds: u64,
    /// How long each measurement lasts, after a warm-up.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// How many connections send at once, one measurement for each.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [64, 256, 1])]
    pub(crate) connections: Vec<usize>,
    /// How large a body is, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(crate) body_size: usize,
    /// How many events, jobs or messages a queue works off in each measurement.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) jobs: u64,
    /// How many events the large ledger has: 1M, 10M.
    #[arg(long, value_name = "N", default_value = "10M")]
    pub(crate) ledger_rows: String,
    /// One round of a second, without what must be installed: shows that answers and rows agree, not how fast anybody is.
    #[arg(long, conflicts_with_all = ["write", "parts"])]
    pub(crate) quick: bool,
    /// Writes the document, too.
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Prints the figures of every round as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is done instead of measuring.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Writes the document again from the figures that were kept
    Document {
        /// Where to.
        file: PathBuf,
    },
    /// Runs one of the other servers; the contest starts it by itself.
    #[command(hide = true)]
    Serve {
        /// Which one.
        stranger: Stranger,
        /// The port on 127.0.0.1.
        port: u16,
    },
}

/// A group of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Webhooks taken in, beside other servers
    Receiving,
    /// Handlers, beside other queues
    Handling,
    /// The outbox, beside a bare client
    Relay,
    /// Connections, duplicates, bodies and handlers
    Growth,
    /// A ledger of millions
    Ledger,
}

impl Args {
    /// What is to be measured.
    pub(crate) fn parts(&self) -> Vec<Part> {
        match &self.parts {
            Some(parts) => parts.clone(),
            None if self.write.is_some() => Part::value_variants().to_vec(),
            None => vec![Part::Receiving],
        }
    }

    /// Who takes part in receiving.
    pub(crate) fn contenders(&self) -> Vec<Kind> {
        match &self.contenders {
            Some(contenders) => contenders.clone(),
            None if self.quick => vec![Kind::Ceiling, Kind::Naive, Kind::OnceboxPostgres, Kind::OnceboxSqlite],
            None => Kind::value_variants().to_vec(),
        }
    }

    /// Applies what `--quick` means.
    pub(crate) fn settled(mut self) -> Self {
        if self.quick {
            (self.rounds, self.seconds, self.connections) = (1, 1, vec![64]);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Args, ErrorKind> {
        Args::try_parse_from(line.split_whitespace()).map(Args::settled).map_err(|error| error.kind())
    }

    #[test]
    fn lines() {
        Args::command().debug_assert();
        let plain = parse("contest").expect("a line");
        assert_eq!((plain.parts(), plain.contenders().len()), (vec![Part::Receiving], Kind::value_variants().len()));
        assert_eq!(plain.connections, [64, 256, 1]);
        assert_eq!(parse("contest --write x.md").expect("a line").parts().len(), Part::value_variants().len());
        let quick = parse("contest --quick").expect("a line");
        assert_eq!((quick.rounds, quick.seconds, quick.contenders().len()), (1, 1, 4));
        let some = parse("contest --parts relay,ledger --contenders naive --connections 8,1").expect("a line");
        assert_eq!(some.parts(), [Part::Relay, Part::Ledger]);
        assert_eq!((some.contenders(), some.connections), (vec![Kind::Naive], vec![8, 1]));
        assert_eq!(parse("contest --contenders nginx").map(drop), Err(ErrorKind::InvalidValue));
        assert_eq!(parse("contest --quick --write x.md").map(drop), Err(ErrorKind::ArgumentConflict));
        assert_eq!(parse("contest --rounds 0").map(drop), Err(ErrorKind::ValueValidation));
    }

    #[test]
    fn every_command_that_we_print_is_one() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages = ["CONTRIBUTING.md", "docs/benchmarks.md", "ci.sh"]
            .map(|page| std::fs::read_to_string(root.join(page)).unwrap_or_else(|error| panic!("{page}: {error}")));
        let text = format!("{}\n{}", pages.join("\n"), Args::command().render_long_help());
        let text =
            text.replace("target/release/contest", "contest").replace("cargo build --release --workspace && ", "");
        let starts = |part: &&str| part.starts_with("contest --") || part.starts_with("contest document ");
        let lines: Vec<&str> = text.split(['`', '\n', ';', '{']).map(str::trim).filter(starts).collect();
        assert!(lines.len() > 5, "{lines:?}");
        for line in lines {
            assert_eq!(parse(line).map(drop), Ok(()), "{line}");
        }
    }
}
