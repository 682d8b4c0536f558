//! One finding with hostile names in every format: names must stay data.

use page::{Activity, DrawnFinding, Lane, LaneContent, Span, StepLanes};
use trace_advisor::advisor::{RuleSource, Severity, Subject, UnknownRule, evaluate};
use trace_advisor::trace_model::text::is_dangerous;
use trace_advisor::trace_model::{MetricSpec, MetricTable, RunInfo, Scope, Unit, Value, Warning};
use trace_advisor::{Report, RuleSet};

use super::{ReportContext, write};
use crate::args::ReportFormat;
use crate::render::layout::Layout;

const HOSTILE: &str = "=x\u{1b}[2J\u{9b}31m\u{202e}]]>::error::\n::warning::|`<script>alert(1)</script>\
                       @team #1 https://evil.example ,\"'%0A&\u{0}\u{fffe}\
                       \u{2028}##[error]x ::error::y";

const RULE: &str = r#"
[rule.own]
code = "XX001"
category = "kernels"
metric = "shares.share_ratio"
high = "> 10 %"
gain = { of = "share_ratio", method = "measured" }
source = "lines.device_ns"
title = "{{ name }}"
message = "{{ name }} takes {{ share_ratio|pct }}"
advice = ["{{ name }}"]
why = "It does."
"#;

fn metric(view: &str, column: &str, unit: Unit, scope: Scope, keys: &[&str]) -> MetricSpec {
    let mut columns: Vec<(String, Unit)> =
        keys.iter().map(|key| ((*key).to_owned(), Unit::None)).collect();
    columns.push((column.to_owned(), unit));
    MetricSpec {
        view: view.into(),
        column: column.into(),
        unit,
        scope,
        doc: "x".into(),
        columns,
        requires: Vec::new(),
    }
}

/// A report with a finding and a rule without a verdict.
pub(super) fn report() -> Report {
    let mut report = judged().1.remove(0);
    report.unknown.push(UnknownRule {
        code: "XX002".to_owned(),
        name: "other".to_owned(),
        reason: "there is no device".to_owned(),
        needs: Vec::new(),
        record_with: Vec::new(),
        subject: vec![Subject::Run],
        worst_severity: Severity::High,
    });
    report
}

fn judged() -> (RuleSet, Vec<Report>) {
    let shares = metric("shares", "share_ratio", Unit::Ratio, Scope::Kernel, &["rank", "name"]);
    let lines = metric("lines", "device_ns", Unit::Ns, Scope::Line, &["rank", "source"]);
    let source = RuleSource { name: "own.toml".to_owned(), text: RULE.to_owned() };
    let rules = RuleSet::load(&[source], &[shares.clone(), lines.clone()]).unwrap();
    let table = |spec: &MetricSpec, text: String, value: Value| MetricTable {
        view: spec.view.clone(),
        columns: spec.columns.clone(),
        rows: vec![vec![Value::Int(0), Value::Text(text), value]],
        when_empty: String::new(),
    };
    let tables = [
        table(&shares, HOSTILE.to_owned(), Value::Float(0.5)),
        table(&lines, format!("{HOSTILE}.py:7"), Value::Int(1_000)),
    ];
    let run = RunInfo { path: HOSTILE.to_owned(), ranks: vec![0], ..RunInfo::default() };
    let warning = Warning {
        code: "odd".into(),
        file: HOSTILE.to_owned(),
        message: HOSTILE.to_owned(),
        count: 1,
    };
    let mut report = evaluate(&rules, &tables, &run, &[warning]);
    report.attach(&rules, &tables, None);
    assert_eq!(report.findings[0].source, [format!("{HOSTILE}.py:7")]);
    (rules, vec![report])
}

/// A timeline with hostile names.
fn timeline() -> StepLanes {
    let finding = DrawnFinding { code: "XX001".into(), title: HOSTILE.into(), mark: Some((0, 5)) };
    let spans = vec![Span { from_ns: 0, to_ns: 9, activity: Activity::Operator }];
    let content = LaneContent::Activities;
    StepLanes {
        rank: 0,
        step: None,
        from_ns: 0,
        to_ns: 9,
        finding: Some(finding),
        lanes: vec![Lane { label: HOSTILE.to_owned(), content, spans }],
        is_idle_explained: true,
    }
}

fn written(format: ReportFormat) -> String {
    written_as(format, true)
}

fn written_as(format: ReportFormat, is_full: bool) -> String {
    let (rules, reports) = judged();
    let context = ReportContext {
        rules: &rules,
        show_all: true,
        is_full,
        fail_on: Some(trace_advisor::advisor::Severity::Low),
        command_options: vec![HOSTILE.to_owned()],
        folder: "/nowhere".into(),
        query_options: Some(vec![HOSTILE.to_owned()]),
        timelines: vec![Some(timeline())],
    };
    let mut out = Vec::new();
    write(&reports, &context, format, Layout::from(None), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for (i, c) in text.char_indices() {
        // The only escapes allowed are the styles of the text format.
        let is_style =
            c == '\u{1b}' && format == ReportFormat::Text && !text[i..].starts_with("\u{1b}[2J");
        let is_bad = is_dangerous(c) && c != '\n';
        assert!(!is_bad || is_style, "{format:?}: {c:?} in {text}");
    }
    assert!(!text.contains("##["), "{format:?}: {text}");
    // Lines of JSON begin with its own characters.
    let is_json = matches!(format, ReportFormat::Json | ReportFormat::Jsonl | ReportFormat::Sarif);
    assert!(is_json || !text.contains(" ::error::"), "{format:?}: {text}");
    text
}

#[test]
fn text_shows_escapes_as_text() {
    // The first screen shows titles and places, too.
    for text in [written(ReportFormat::Text), written_as(ReportFormat::Text, false)] {
        assert!(
            text.contains("\\u{1b}[2J\\u{9b}31m\\u{202e}]]>::error::\\u{a}::warning::"),
            "{text}"
        );
    }
}

#[test]
fn full_text_has_the_timeline_of_the_first_finding() {
    let text = written(ReportFormat::Text);
    let plain = anstream::adapter::strip_str(&text).to_string();
    assert!(plain.contains("\nrank 0: 9 ns (0..9 ns); a character is "), "{plain}");
    assert!(plain.contains("\nO operator\n"), "{plain}");
    assert!(!written(ReportFormat::Markdown).contains("a character is"));
}

#[test]
fn json_keeps_every_character() {
    let report: serde_json::Value = serde_json::from_str(&written(ReportFormat::Json)).unwrap();
    assert_eq!(report["findings"][0]["title"], HOSTILE.trim());
    let lines = written(ReportFormat::Jsonl);
    assert_eq!(lines.lines().count(), 1);
    let line: serde_json::Value = serde_json::from_str(&lines).unwrap();
    assert_eq!((line["run"].as_str(), line["code"].as_str()), (Some(HOSTILE), Some("XX001")));
}

#[test]
fn sarif_locations_are_valid_uris() {
    let log: serde_json::Value = serde_json::from_str(&written(ReportFormat::Sarif)).unwrap();
    let result = &log["runs"][0]["results"][0];
    assert!(result["message"]["text"].as_str().unwrap().starts_with(HOSTILE.trim()));
    let place = &result["locations"][0]["physicalLocation"];
    let uri = place["artifactLocation"]["uri"].as_str().unwrap();
    assert!(uri.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~/%".contains(&b)), "{uri}");
    assert_eq!(place["region"]["startLine"], 7);
}

#[test]
fn github_annotations_are_one_line_each() {
    let text = written(ReportFormat::Github);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("::notice title=Trace Advisor%3A "), "the headline first: {text}");
    assert!(
        lines[1].starts_with("::error file=%3D") || lines[1].starts_with("::error file=="),
        "{text}"
    );
    let properties = lines[1].strip_prefix("::error ").unwrap().split("::").next().unwrap();
    assert_eq!(properties.matches(',').count(), 2, "file, line and title: {properties}");
    assert!(properties.contains(",line=7,"), "{properties}");
}

#[test]
fn junit_is_well_formed_xml() {
    let text = written(ReportFormat::Junit);
    assert!(!text.contains("]]>") && !text.contains("<script"), "{text}");
    let mut reader = quick_xml::Reader::from_str(&text);
    let mut cases = 0;
    loop {
        match reader.read_event().unwrap() {
            quick_xml::events::Event::Start(tag) => {
                let attributes: Result<Vec<_>, _> = tag.attributes().collect();
                assert!(attributes.is_ok());
                cases += usize::from(tag.name().as_ref() == b"testcase");
            }
            quick_xml::events::Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(cases, 1);
}

#[test]
fn markdown_has_no_links_or_mentions() {
    let text = written(ReportFormat::Markdown);
    let prose = without_code(&text);
    // Only rule pages are linked, and this rule has none.
    for bad in ["<script", "@team", " #1", "https://", "`"] {
        assert!(!prose.contains(bad), "{bad} in {prose}");
    }
    let row = text.lines().find(|line| line.starts_with("| 🔴 high")).unwrap();
    // Pipes of names have a backslash, or a number in place of them.
    assert_eq!(row.matches('|').count() - row.matches("\\|").count(), 5, "{row}");
}

/// Markdown without code: what is between runs of equally many backticks.
fn without_code(text: &str) -> String {
    let mut rest = text.replace("\\`", "");
    let mut prose = String::new();
    while let Some(at) = rest.find('`') {
        prose.push_str(&rest[..at]);
        let fence: String = rest[at..].chars().take_while(|c| *c == '`').collect();
        let inside = rest[at + fence.len()..].to_owned();
        let mut from = 0;
        let end = loop {
            let run = from + inside[from..].find('`').expect("code ends");
            let length = inside[run..].chars().take_while(|c| *c == '`').count();
            from = run + length;
            if length == fence.len() {
                break from;
            }
        };
        rest = inside[end..].to_owned();
    }
    prose + &rest
}

#[test]
fn csv_has_one_row_without_formulas() {
    let text = written(ReportFormat::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 1);
    assert!(rows[0].iter().all(|field| !field.starts_with(['=', '+', '-', '@'])), "{text}");
}
