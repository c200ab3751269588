//! `oncebox explain`: judges captured requests offline and says why one was refused.
//!
//! Lines are read, judged and written one by one, so that a capture of any length needs no memory, and a line that
//! cannot be read spoils none of the others.

mod capture;
mod judge;
mod ruling;

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;

use anyhow::Context as _;
use oncebox_verify::{Request, Source, Verdict};

use crate::cli::operator::ExplainArgs;
use crate::config::units::show_size;
use crate::public::is_encoded;
use crate::usage::wrong_usage;
use capture::Capture;
use judge::Judge;
use ruling::{Ruling, Summary};

const BUFFER_BYTES: usize = 256 * 1024;

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    let mut judge = Judge::from_args(args)?;
    let input: Box<dyn io::Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(&args.file);
        Box::new(file.map_err(|error| wrong_usage(format!("cannot read {}: {error}", args.file.display())))?)
    };
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, io::stdout().lock());
    let writer = if args.json { Style::Json } else { Style::People };
    let summary = explain(&mut input, &mut out, &mut judge, writer)?;
    if writer == Style::People {
        writeln!(out, "{summary}")?;
    }
    out.flush()?;
    Ok(if summary.is_all_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Who reads the verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    People,
}

fn explain(input: &mut impl BufRead, out: &mut impl Write, judge: &mut Judge, style: Style) -> anyhow::Result<Summary> {
    let (mut line, mut number, mut summary) = (Vec::new(), 0u64, Summary::default());
    let watched = style == Style::People && io::stdout().is_terminal();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).context("cannot read the captured requests")? == 0 {
            return Ok(summary);
        }
        number += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let capture = Capture::read(&line);
        let ruling = match &capture {
            Err(what) => Ruling::unreadable(number, what),
            Ok(capture) => match rule(judge, capture) {
                Ok(ruling) => ruling,
                // A captured path says nothing about the URL that was signed; the other lines may.
                Err(unknown) => Ruling::unreadable(number, &unknown.to_string()),
            },
        };
        summary.add(&ruling);
        match style {
            Style::Json => {
                serde_json::to_writer(&mut *out, &ruling)?;
                out.write_all(b"\n")?;
            }
            Style::People => {
                let request = capture.as_ref().ok().map(|capture| &capture.request);
                ruling.write_for_people(out, number, request)?;
            }
        }
        if watched {
            out.flush()?;
        }
    }
}

/// Judges one request; a refused one gets its likely cause, which is looked for only then because that is slow.
fn rule(judge: &mut Judge, capture: &Capture) -> anyhow::Result<Ruling> {
    let limit = judge.body_bytes_max;
    let (source, token) = judge.source_for(&capture.request.target)?;
    if let Some(ruling) = refused_before(source, &capture.request, source.body_bytes_max().unwrap_or(limit)) {
        return Ok(ruling);
    }
    let verdict = source.judge(&capture.request, token, capture.at);
    let cause = match &verdict {
        Verdict::Reject(rejection) => oncebox_verify::likely_cause(source, &capture.request, rejection, capture.at),
        _ => None,
    };
    Ok(Ruling::new(verdict, cause))
}

/// What the public listener refuses before it looks for a signature.
fn refused_before(source: &Source, request: &Request, limit: usize) -> Option<Ruling> {
    if !source.methods().contains(&request.method) {
        return None;
    }
    if is_encoded(&request.headers) {
        let cause = "the body came with a content-encoding, answered 415: only plain bytes can be verified as they were \
                     signed; switch compression off in the sender or the proxy";
        return Some(Ruling::refused("encoding", "content_encoding", cause.to_owned()));
    }
    if request.body.len() > limit {
        let cause = format!(
            "the body has {} bytes and the limit is {}, answered 413: raise body_limit of the source",
            request.body.len(),
            show_size(limit)
        );
        return Some(Ruling::refused("size", "too_large", cause));
    }
    None
}

#[cfg(test)]
mod tests;
