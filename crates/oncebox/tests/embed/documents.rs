//! Code in the documents is code that runs: every block stands in an example or in a test, line by line.

use std::fs;
use std::path::Path;

const DOCUMENTS: [&str; 3] = ["embedding.md", "guarantees.md", "patterns.md"];

#[test]
fn every_block_of_rust_stands_in_code_that_runs() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut running = String::new();
    for folder in ["examples", "tests/embed"] {
        for entry in fs::read_dir(crate_folder.join(folder)).unwrap().flatten() {
            running.push_str(&plain(&fs::read_to_string(entry.path()).unwrap()));
        }
    }
    let mut blocks = 0;
    for name in DOCUMENTS {
        let text = fs::read_to_string(crate_folder.join("../../docs").join(name)).unwrap();
        for block in text.split("```rust\n").skip(1).map(|rest| rest.split("```").next().unwrap()) {
            blocks += 1;
            assert!(running.contains(&plain(block)), "{name} has code that runs nowhere:\n{block}");
        }
    }
    assert!(blocks > 5, "the documents were not found");
}

/// Without indentation, which differs between a document and its code.
fn plain(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).fold(String::new(), |all, line| all + line + "\n")
}
