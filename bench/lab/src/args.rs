//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Measures Oncebox beyond what `oncebox bench` shows.
#[derive(Debug, Parser)]
#[command(name = "lab", arg_required_else_help = true)]
pub struct Cli {
    /// What to measure.
    #[command(subcommand)]
    pub command: Command,
}

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Fill a database with made-up events of the past days
    Fill(FillArgs),
    /// Compare a small inbox with a large one, in turns
    Growth(GrowthArgs),
    /// How fast a filled queue is worked off: one by one, in batches, and with failures
    Handling(QueueArgs),
    /// How fast a filled outbox goes out, beside the same client without an outbox
    Relay(QueueArgs),
    /// Count the instructions that an event costs, and compare them with a file
    Instructions(InstructionsArgs),
}

/// Arguments of `instructions`.
#[derive(Args, Debug)]
#[command(after_help = "Needs valgrind. What a check of the signature and a hash of the body take is subtracted.

Examples:
  lab instructions
  lab instructions --write")]
pub struct InstructionsArgs {
    /// The counts that are known; one that has grown by more than a tenth is an error
    #[arg(long, value_name = "FILE", default_value = "bench/instructions.txt")]
    pub file: PathBuf,
    /// Write the file anew
    #[arg(long)]
    pub write: bool,
    /// Do the work that is counted
    #[arg(long, hide = true, requires = "count")]
    pub work: Option<Work>,
    /// How many requests
    #[arg(long, hide = true, requires = "work")]
    pub count: Option<u64>,
}

/// What is counted.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Work {
    /// To check a signature and to hash a body, and nothing else
    Bare,
    /// To judge a request
    Judge,
    /// To judge a request, to store its event with others, and to answer
    Accept,
}

impl Work {
    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Judge => "judge",
            Self::Accept => "accept",
        }
    }
}

/// Arguments of `fill`.
#[derive(Args, Debug)]
#[command(after_help = "The same seed makes the same events. Killed midway, the same command goes on where it stopped.
Never point it at a database you need.

Examples:
  lab fill --events 1M --database sqlite:large.db
  lab fill --events 10M --payloads 1M --database postgres://postgres@localhost/bench")]
pub struct FillArgs {
    /// How many events: 20000, 10k, 10M
    #[arg(long, value_name = "N", value_parser = amount)]
    pub events: u64,
    /// How many of the newest still have their payload
    #[arg(long, value_name = "N", default_value = "100k", value_parser = amount)]
    pub payloads: u64,
    /// The database to fill; ONCEBOX_DATABASE is not read here on purpose
    #[arg(long, value_name = "URL", default_value = "sqlite:oncebox-bench.db")]
    pub database: String,
    /// What the events are made from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The size of each payload's body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub body_size: usize,
    /// Fill a database that holds other events too
    #[arg(long)]
    pub add: bool,
    /// Events in one transaction
    #[arg(long, value_name = "N", hide = true, value_parser = amount)]
    pub slice: Option<u64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `growth`.
#[derive(Args, Debug)]
#[command(
    after_help = "Both databases are filled to their size first, where they are not yet; then rounds of load go to
one and the other in turns. Without --database both are temporary SQLite files. Prints rate,
latency, processor time and bytes written for each event, their ratios, and the room that an
event takes. Processor time of Postgres is known where it runs on this machine.

Examples:
  lab growth --rows 1M
  lab growth --database sqlite:large.db --rows 10M --rounds 7
  lab growth --database postgres://localhost/large --small-database postgres://localhost/small"
)]
pub struct GrowthArgs {
    /// The large database; ONCEBOX_DATABASE is not read here on purpose
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
    /// The small one, of the same kind; an SQLite file is made where none is named
    #[arg(long, value_name = "URL")]
    pub small_database: Option<String>,
    /// The program to measure; without it the one beside this program
    #[arg(long, value_name = "PATH")]
    pub oncebox: Option<PathBuf>,
    /// Events in the large one
    #[arg(long, value_name = "N", default_value = "10M", value_parser = amount)]
    pub rows: u64,
    /// Events in the small one
    #[arg(long, value_name = "N", default_value = "10k", value_parser = amount)]
    pub small_rows: u64,
    /// How many of the newest events still have their payload
    #[arg(long, value_name = "N", default_value = "100k", value_parser = amount)]
    pub payloads: u64,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub connections: u16,
    /// How long a round lasts on each
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// The size of each body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub body_size: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `handling` and `relay`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without --database a temporary SQLite file is used. The database fills with made-up events: never
point it at one you need."
)]
pub struct QueueArgs {
    /// The database; ONCEBOX_DATABASE is not read here on purpose
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
    /// Events, or messages, in each run
    #[arg(long, value_name = "N", default_value = "20k", value_parser = amount)]
    pub events: u64,
    /// How many rounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// The size of each body, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub body_size: usize,
    /// Measure handling in batches alone
    #[arg(long)]
    pub batches: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// More events than any machine of ours holds.
const AMOUNT_MAX: u64 = 100_000_000_000;

/// Reads a number of things: `20000`, `10k`, `10M`.
fn amount(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix(['m', 'M']).map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let number = number.filter(|number| (1..=AMOUNT_MAX).contains(number));
    number.ok_or_else(|| "write a number such as 20000, 10k or 10M".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    fn check(line: &str, expected: Result<(), ErrorKind>) {
        let parsed = Cli::try_parse_from(line.split_whitespace()).map(drop).map_err(|error| error.kind());
        assert_eq!(parsed, expected, "{line}");
    }

    #[test]
    fn lines() {
        Cli::command().debug_assert();
        check("lab fill --events 10M --payloads 1k --database sqlite:x.db --seed 7 --add --json", Ok(()));
        check("lab growth --rows 20k --small-rows 2k --rounds 5 --database sqlite:x.db --oncebox old", Ok(()));
        check("lab handling --events 100 --rounds 2 --batches --json", Ok(()));
        check("lab instructions --file x.txt --write", Ok(()));
        check("lab instructions --work judge", Err(ErrorKind::MissingRequiredArgument));
        check("lab fill", Err(ErrorKind::MissingRequiredArgument));
        check("lab fill --events 1x", Err(ErrorKind::ValueValidation));
        check("lab relay --events 0", Err(ErrorKind::ValueValidation));
        check("lab handling fill --events 1", Err(ErrorKind::UnknownArgument));
    }

    #[test]
    fn every_command_that_we_print_is_one() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages = ["docs/growth.md", "CONTRIBUTING.md"].map(|page| std::fs::read_to_string(root.join(page)));
        let mut text = pages.map(|page| page.expect("a page")).join("\n");
        for command in Cli::command().get_subcommands_mut() {
            text.push_str(&command.render_long_help().to_string());
        }
        let text = text.replace("target/release/lab ", "lab ");
        let lines: Vec<&str> = text.split(['`', '\n']).map(str::trim).filter(|part| part.starts_with("lab ")).collect();
        assert!(lines.len() > 5, "{lines:?}");
        lines.into_iter().filter(|line| line.contains("--")).for_each(|line| check(line, Ok(())));
    }
}
