//! The table of `docs/recordings.md`: what the first sentence about each recording is.

use std::fmt::Write;
use std::path::PathBuf;

use trace_advisor::{Run, default_rules};

use crate::harness::{Case, functions};
use crate::runs::traces;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recordings.md");
const MARKS: [&str; 2] = ["<!-- recordings -->\n", "<!-- /recordings -->\n"];

pub(crate) fn cases() -> Vec<Case> {
    functions![table_in_the_document_is_current]
}

/// A recording by its name in the table.
fn path(name: &str) -> PathBuf {
    if name.starts_with("wild/") {
        traces().join("../inputs").join(name)
    } else {
        traces().join(name)
    }
}

/// `UPDATE=1` rewrites the last column; the others are written by people.
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn table_in_the_document_is_current() {
    let page = std::fs::read_to_string(DOCUMENT).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).unwrap();
    let (table, after) = rest.split_once(MARKS[1]).unwrap();
    let rules = default_rules();
    let mut fresh = String::new();
    for (i, line) in table.lines().enumerate() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if i < 2 {
            writeln!(fresh, "{line}").unwrap();
            continue;
        }
        let report = Run::open(path(cells[0])).unwrap().check(&rules).unwrap();
        let summary = report.recording.unwrap().summary;
        writeln!(fresh, "| {} | {} | {summary} |", cells[0], cells[1]).unwrap();
    }
    let fresh = format!("{before}{}{fresh}{}{after}", MARKS[0], MARKS[1]);
    if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
        std::fs::write(DOCUMENT, fresh).unwrap();
        return;
    }
    assert!(page == fresh, "docs/recordings.md is stale: run this test with UPDATE=1");
}
