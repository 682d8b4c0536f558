//! The page of formats in the book: its table comes from the list of importers.

use std::fmt::Write as _;
use std::path::Path;

use trace_advisor::ingest::formats;

/// The table of the page.
fn table() -> String {
    let mut table =
        "| files | written by | `sources.format` | can provide |\n|---|---|---|---|\n".to_owned();
    for format in formats() {
        let provides: Vec<String> =
            format.provides.iter().map(|capability| format!("`{capability}`")).collect();
        let provides = if provides.is_empty() { "-".to_owned() } else { provides.join(", ") };
        let (files, page, by, name) =
            (format.files, format.docs_page, format.written_by, format.name);
        let _ = writeln!(table, "| [{files}]({page}) | `{by}` | `{name}` | {provides} |");
    }
    table
}

/// `UPDATE=1` rewrites the table.
#[test]
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn page_of_formats_is_current() {
    const MARKS: [&str; 2] = ["<!-- formats -->\n", "<!-- /formats -->"];
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let path = docs.join("formats.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let fresh = format!("{before}{}{}{}{after}", MARKS[0], table(), MARKS[1]);
    if std::env::var("UPDATE").is_ok_and(|value| value == "1") {
        std::fs::write(&path, &fresh).unwrap();
        return;
    }
    assert!(page == fresh, "docs/formats.md is stale: run this test with UPDATE=1");
    for format in formats() {
        assert!(docs.join(format.docs_page).is_file(), "{}: {}", format.name, format.docs_page);
    }
}
