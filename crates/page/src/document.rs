//! The document: content security policy, style, script and data around the sections.

use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::clean::{html, json};
use crate::encode::base64;

pub(crate) const STYLE: &str = include_str!("../assets/page.css");

/// The script in its parts, joined in this order.
pub(crate) const SCRIPT: [&str; 10] = [
    include_str!("../assets/base.js"),
    include_str!("../assets/filter.js"),
    include_str!("../assets/table.js"),
    include_str!("../assets/charts.js"),
    include_str!("../assets/plots.js"),
    include_str!("../assets/timeline.js"),
    include_str!("../assets/heat.js"),
    include_str!("../assets/perfetto.js"),
    include_str!("../assets/ask.js"),
    include_str!("../assets/page.js"),
];

/// The origin of the trace viewer's page.
const PERFETTO: &str = "https://ui.perfetto.dev";

/// Options of a page.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Of a page that is served: the address of a text that changes with the run; the page loads again when it does.
    /// The content security policy then allows to fetch from where the page is from.
    pub live: Option<String>,
    /// Of a page that is served, of one run: the address that answers queries. The page then has a box for them, see
    /// [`crate::answer`].
    pub queries: Option<String>,
    /// The trace viewer that links open [default: `https://ui.perfetto.dev`].
    pub viewer: Option<String>,
    /// Whether a page of a run has the overview and the findings only, as notebooks show it.
    pub overview_only: bool,
}

/// Settings that the script reads in addition to the data of the sections.
#[derive(Serialize)]
struct Settings<'a> {
    viewer: &'a str,
    live: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    queries: Option<&'a str>,
}

/// The ID of an element of a run. `number`: of the run on the page, from 0.
pub(crate) fn numbered(name: &str, number: usize) -> String {
    if number == 0 { name.to_owned() } else { format!("{name}-{}", number + 1) }
}

/// An entry of the table of contents.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) count: Option<usize>,
    /// The sections of a run.
    pub(crate) sections: Vec<Entry>,
}

impl Entry {
    pub(crate) fn new(id: &str, label: &str) -> Self {
        Self { id: id.to_owned(), label: label.to_owned(), count: None, sections: Vec::new() }
    }

    fn write(&self, out: &mut String) {
        let Self { id, label, count, sections } = self;
        let count = count.map(|count| format!(" <span class=\"n\">{count}</span>"));
        let _ = write!(
            out,
            "<li><a href=\"#{}\">{}{}</a>",
            html(id),
            html(label),
            count.unwrap_or_default()
        );
        if !sections.is_empty() {
            out.push_str("\n<ul>\n");
            for section in sections {
                section.write(out);
            }
            out.push_str("</ul>\n");
        }
        out.push_str("</li>\n");
    }
}

/// The whole document.
pub(crate) struct Document<'a> {
    pub(crate) title: String,
    pub(crate) contents: Vec<Entry>,
    pub(crate) body: String,
    pub(crate) data: &'a [String],
    pub(crate) options: &'a Options,
}

/// The script as one text.
pub(crate) fn script() -> String {
    let mut text = String::from("\"use strict\";\n(() => {\n");
    for part in SCRIPT {
        text.push_str(part);
    }
    text.push_str("})();\n");
    text
}

/// `'sha256-...'`, as a content security policy names an inline script or style.
pub(crate) fn hash_source(text: &str) -> String {
    format!("'sha256-{}'", base64(&Sha256::digest(text)))
}

impl Document<'_> {
    pub(crate) fn render(&self) -> String {
        let script = script();
        let Options { live, queries, viewer, .. } = self.options;
        let connect = if live.is_some() || queries.is_some() { " connect-src 'self';" } else { "" };
        let policy = format!(
            "default-src 'none'; script-src {}; style-src {}; img-src data:;{connect} base-uri 'none'; form-action 'none'",
            hash_source(&script),
            hash_source(STYLE)
        );
        let settings = Settings {
            viewer: viewer.as_deref().unwrap_or(PERFETTO),
            live: live.as_deref(),
            queries: queries.as_deref(),
        };
        let mut out = String::with_capacity(self.body.len() + script.len() + (64 << 10));
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <meta name=\"generator\" content=\"trace-advisor {version}\">\n\
             <title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{STYLE}</style>\n</head>\n<body>\n",
            version = env!("CARGO_PKG_VERSION"),
            title = html(&self.title),
        );
        out.push_str("<a class=\"skip\" href=\"#main\">Skip to the report</a>\n");
        self.write_bar(&mut out);
        out.push_str(PATTERNS);
        out.push_str("<main id=\"main\" tabindex=\"-1\">\n");
        out.push_str(&self.body);
        out.push_str("</main>\n<div id=\"tip\" role=\"tooltip\" hidden></div>\n<div id=\"say\" class=\"hidden\" role=\"status\" aria-live=\"polite\"></div>\n");
        let _ = writeln!(
            out,
            "<script type=\"application/json\" id=\"settings\">{}</script>",
            json(&settings)
        );
        for (i, data) in self.data.iter().enumerate() {
            let _ =
                writeln!(out, "<script type=\"application/json\" id=\"data-{i}\">{data}</script>");
        }
        let _ = writeln!(out, "<script>{script}</script>\n</body>\n</html>");
        out
    }

    /// Writes the bar with the table of contents.
    fn write_bar(&self, out: &mut String) {
        out.push_str("<header class=\"top\">\n<div class=\"brand\">Trace Advisor</div>\n<nav aria-label=\"Contents\"><ul>\n");
        self.contents.iter().for_each(|entry| entry.write(out));
        out.push_str(
            "</ul></nav>\n<button type=\"button\" id=\"theme\" class=\"quiet\" title=\"Switch between light and dark\">Theme</button>\n</header>\n",
        );
    }
}

/// Hatching of what can be saved, by the color of what it lies on.
const PATTERNS: &str = "<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\" focusable=\"false\"><defs>\
    <pattern id=\"hatch\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
    <rect width=\"7\" height=\"7\" class=\"hatch-ground\"/><rect width=\"3\" height=\"7\" class=\"hatch-line\"/></pattern></defs></svg>\n";

#[cfg(test)]
mod tests {
    use super::{Document, Options, SCRIPT, STYLE, hash_source};

    /// What the issue allows: ours and others'.
    const MAX_CODE_BYTES: usize = 150_000;

    #[test]
    fn code_is_small() {
        let bytes = SCRIPT.iter().map(|part| part.len()).sum::<usize>() + STYLE.len();
        assert!(bytes < MAX_CODE_BYTES, "{bytes}");
    }

    #[test]
    fn code_never_writes_html() {
        for part in SCRIPT {
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!part.contains(word), "{word}");
            }
        }
    }

    /// The text of an element.
    fn inner<'a>(html: &'a str, start: &str, end: &str) -> &'a str {
        html.split_once(start).unwrap().1.split_once(end).unwrap().0
    }

    #[test]
    fn policy_has_the_hashes_of_script_and_style() {
        let render = |options: &Options| {
            let title = "</title><script>".to_owned();
            Document { title, contents: Vec::new(), body: String::new(), data: &[], options }
                .render()
        };
        let html = render(&Options::default());
        let policy = inner(&html, "Content-Security-Policy\" content=\"", "\"");
        let script = hash_source(inner(&html, "<script>", "</script>"));
        let style = hash_source(inner(&html, "<style>", "</style>"));
        assert!(policy.contains(&format!("script-src {script};")), "{policy}");
        assert!(policy.contains(&format!("style-src {style};")), "{policy}");
        assert!(!policy.contains("connect-src"), "{policy}");
        let live = Options { live: Some("version".to_owned()), ..Options::default() };
        assert!(render(&live).contains("connect-src 'self'"));
        let asked = Options { queries: Some("sql".to_owned()), ..Options::default() };
        assert!(render(&asked).contains("connect-src 'self'"));
    }

    #[test]
    fn hash_source_is_what_browsers_compute() {
        // The example of the specification: https://www.w3.org/TR/CSP3/#external-hash
        assert_eq!(
            hash_source("alert('Hello, world.');"),
            "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
        );
    }
}
