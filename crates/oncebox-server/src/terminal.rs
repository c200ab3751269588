//! What people see: plain tables, colours only where a terminal shows them, and no control character that came from
//! a sender.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// Whether standard output shows colours: it is a terminal, and `NO_COLOR` is not set.
pub(crate) fn has_colours() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// What a piece of text says about the state of things.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Warning,
    Bad,
}

impl Tone {
    pub(crate) fn of_state(state: &str) -> Option<Self> {
        match state {
            "accepted" | "done" => Some(Self::Good),
            "held" | "conflict" => Some(Self::Warning),
            "dead" => Some(Self::Bad),
            _ => None,
        }
    }

    fn colour(self) -> Color {
        match self {
            Self::Good => Color::Green,
            Self::Warning => Color::Yellow,
            Self::Bad => Color::Red,
        }
    }
}

/// Colours a text where standard output shows colours.
pub(crate) fn paint(text: &str, tone: Tone) -> String {
    let code = match tone {
        Tone::Good => 32,
        Tone::Warning => 33,
        Tone::Bad => 31,
    };
    if has_colours() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// An empty table with these column names.
pub(crate) fn table(names: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if !has_colours() {
        table.force_no_tty();
    }
    if !names.is_empty() {
        table.set_header(names.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
    }
    table
}

/// A whole table: the names of its columns, and its rows.
pub(crate) fn listed<const N: usize>(names: [&str; N], rows: impl IntoIterator<Item = [Cell; N]>) -> String {
    table(&names).add_rows(rows).trim_fmt()
}

/// A table of two columns without names: what it is, and how much.
pub(crate) fn facts(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    table(&[]).add_rows(rows.into_iter().map(|(name, value)| [cell(name), cell(value)])).trim_fmt()
}

/// A cell with text that came from elsewhere.
pub(crate) fn cell(text: impl AsRef<str>) -> Cell {
    Cell::new(plain(text.as_ref()))
}

pub(crate) fn toned(text: &str, tone: Option<Tone>) -> Cell {
    let cell = cell(text);
    match tone {
        Some(tone) => cell.fg(tone.colour()),
        None => cell,
    }
}

pub(crate) fn state(state: &str) -> Cell {
    toned(state, Tone::of_state(state))
}

/// A cell with a text that may be absent.
pub(crate) fn maybe(text: Option<&str>) -> Cell {
    cell(text.unwrap_or_default())
}

/// The text without control characters, so that an event cannot drive the terminal that shows it.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// As [`plain`], with line breaks and tabs left as they are.
pub(crate) fn plain_lines(text: &str) -> String {
    let shown = |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// The text, or its two ends where it is longer than this many characters.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most || most < 3 {
        return text.to_owned();
    }
    let tail = (most - 1) / 3;
    let head: String = text.chars().take(most - 1 - tail).collect();
    let end: String = text.chars().skip(count - tail).collect();
    format!("{head}…{end}")
}

/// The text, cut at its end where it is longer than this many characters.
fn ending(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let head: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

/// The text, cut at its end where somebody reads it on a terminal; a program gets all of it.
pub(crate) fn fitted(text: &str, most: usize) -> String {
    ending(text, if io::stdout().is_terminal() { most } else { usize::MAX })
}

/// `1 event`, `2 events`.
pub(crate) fn counted(count: impl Into<i128>, noun: &str) -> String {
    let count = count.into();
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Tells a person something beside the output; that nobody listens is no failure.
pub(crate) fn note(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints a text and a line break; a closed pipe is an error that [`crate::commands::report`] takes as a good end.
pub(crate) fn print(text: impl std::fmt::Display) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Prints a value as JSON where that was asked for, else as text.
pub(crate) fn show<T: std::fmt::Display>(
    as_json: bool,
    value: &impl Serialize,
    text: impl FnOnce() -> T,
) -> anyhow::Result<ExitCode> {
    if as_json {
        print_json(value)?;
    } else {
        print(text())?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// Asks a question that only `y` or `yes` agrees to; none where nobody sits at a terminal.
pub(crate) fn agrees(question: &str) -> io::Result<Option<bool>> {
    if !io::stdin().is_terminal() {
        return Ok(None);
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(Some(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes")))
}

/// A progress bar that appears after a second, on a terminal only.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
}

impl Progress {
    pub(crate) fn new(steps: u64, noun: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        let template = format!("{{bar:30}} {{human_pos}} of {{human_len}} {noun} ({{eta}} left)");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Self { bar, started: Instant::now(), shown: false }
    }

    /// A bar that is there at once, for work of which every step takes long.
    pub(crate) fn of_long_steps(steps: u64, noun: &str) -> Self {
        let mut progress = Self::new(steps, noun);
        progress.show();
        progress
    }

    pub(crate) fn step(&mut self) {
        self.reach(self.bar.position() + 1);
    }

    pub(crate) fn reach(&mut self, step: u64) {
        if !self.shown && self.started.elapsed() > Duration::from_secs(1) {
            self.show();
        }
        self.bar.set_position(step);
    }

    fn show(&mut self) {
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
        self.bar.enable_steady_tick(Duration::from_millis(250));
        self.shown = true;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_both_ends() {
        for (text, most, expected) in [
            ("evt_1", 10, "evt_1"),
            ("abcdefghij", 10, "abcdefghij"),
            ("abcdefghijk", 10, "abcdef…ijk"),
            ("äöüäöüäöüäöü", 7, "äöüä…öü"),
            ("abc", 2, "abc"),
        ] {
            assert_eq!(shorten(text, most), expected, "{text}");
        }
    }

    #[test]
    fn a_cause_keeps_its_beginning() {
        for (text, most, expected) in [("äbc", 3, "äbc"), ("abcd", 3, "ab…"), ("abcd", usize::MAX, "abcd")] {
            assert_eq!(ending(text, most), expected);
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(plain("a\u{1b}[31mb\nc"), "a\u{fffd}[31mb\u{fffd}c");
        assert_eq!(plain_lines("a\u{1b}b\nc\td\u{9b}"), "a\u{fffd}b\nc\td\u{fffd}");
    }

    #[test]
    fn tables_are_plain_where_no_terminal_is() {
        let mut table = table(&["state", "events"]);
        table.add_row([toned("held", Tone::of_state("held")), cell("3")]);
        assert_eq!(table.trim_fmt(), " state  events\n held   3");
    }

    #[test]
    fn counts() {
        assert_eq!((counted(1, "event").as_str(), counted(2u64, "event").as_str()), ("1 event", "2 events"));
    }
}
