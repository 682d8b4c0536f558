//! SARIF 2.1.0 for code scanning: a run is a `run`, a finding is a `result`. Notes about the trace and rules
//! with an unknown verdict are notifications of the tool.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};
use trace_advisor::advisor::{BaselineState, Finding, IgnoredFinding, Rule, Severity};
use trace_advisor::{Report, explain};

use super::context::ReportContext;
use super::phrases;
use super::relative_paths::relative_path;
use crate::render::sanitize::{sanitize, sanitize_json};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The log of all runs.
pub(super) fn log(reports: &[Report], context: &ReportContext<'_>) -> serde_json::Result<String> {
    let runs = reports.iter().map(|report| run(report, context));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let log = json!({ "$schema": SCHEMA, "version": "2.1.0", "runs": runs });
    Ok(sanitize_json(&serde_json::to_string_pretty(&log)?) + "\n")
}

fn run(report: &Report, context: &ReportContext<'_>) -> serde_json::Result<Value> {
    let advice: Vec<&Finding> = report.advice().collect();
    let codes = advice.iter().map(|f| f.code.as_str());
    let mut codes: Vec<&str> =
        codes.chain(report.ignored.iter().map(|i| i.code.as_str())).collect();
    codes.sort_unstable();
    codes.dedup();
    let index = |code: &str| codes.iter().position(|c| *c == code);
    let mut results = Vec::new();
    for finding in advice {
        results.push(result(finding, index(&finding.code))?);
    }
    results.extend(report.ignored.iter().map(|i| suppressed(i, index(&i.code))));

    let mut notes: Vec<&str> = report.notes().map(|f| f.code.as_str()).collect();
    notes.extend(report.unknown.iter().map(|u| u.code.as_str()));
    notes.sort_unstable();
    notes.dedup();
    let rule = |code: &&str| {
        phrases::find_rule(context.rules, code)
            .map_or_else(|| json!({ "id": code }), |rule| descriptor(rule, context))
    };
    let short = |code: &&str| {
        phrases::find_rule(context.rules, code)
            .map_or_else(|| json!({ "id": code }), short_descriptor)
    };
    let repository = env!("CARGO_PKG_REPOSITORY");
    let artifacts = report.run.sources.iter().map(|source| {
        json!({
            "location": { "uri": uri(&source.file) },
            "roles": ["analysisTarget"],
            "properties": { "rank": source.rank, "format": source.format },
        })
    });
    Ok(json!({
        "tool": { "driver": {
            "name": "Trace Advisor",
            "semanticVersion": report.tool.version,
            "version": report.tool.version,
            "informationUri": repository,
            "rules": codes.iter().map(rule).collect::<Vec<_>>(),
            "notifications": notes.iter().map(short).collect::<Vec<_>>(),
        } },
        "automationDetails": { "id": format!("trace-advisor/{}/", sanitize(run_id(&report.run.path))) },
        "invocations": [{
            "executionSuccessful": true,
            "toolExecutionNotifications": notifications(report),
        }],
        "artifacts": artifacts.collect::<Vec<_>>(),
        "results": results,
        "properties": {
            "headline": report.headline,
            "recording": report.recording,
            "run": report.run,
            "passed": report.passed,
        },
    }))
}

/// The path of a run, by which code scanning recognizes it on another machine: of a path outside of the current folder the
/// last part.
fn run_id(path: &str) -> &str {
    let name = Path::new(path).file_name().and_then(|name| name.to_str());
    name.filter(|_| Path::new(path).is_absolute()).unwrap_or(path)
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical | Severity::High => "error",
        Severity::Medium => "warning",
        Severity::Low | Severity::Info => "note",
    }
}

/// A rule with its page.
fn descriptor(rule: &Rule, context: &ReportContext<'_>) -> Value {
    let mut descriptor = short_descriptor(rule);
    // Rule files may lie on the machine that wrote the report.
    let page = relative_path(&context.folder, &explain(rule));
    let worst = rule.checks.iter().filter_map(|c| c.thresholds.first()).map(|(s, _)| *s).max();
    descriptor["help"] = json!({ "text": page, "markdown": page });
    descriptor["defaultConfiguration"] = json!({ "level": worst.map_or("warning", level) });
    descriptor["properties"] = json!({
        "category": rule.category,
        "tags": [rule.category, "performance"],
        "metric": rule.metric.name(),
        "precision": match rule.confidence.as_str() { "high" => "high", "medium" => "medium", _ => "low" },
        "problem.severity": "recommendation",
    });
    descriptor
}

fn short_descriptor(rule: &Rule) -> Value {
    let first = rule.why.trim().split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let mut descriptor = json!({
        "id": rule.code,
        "name": rule.name,
        "shortDescription": { "text": format!("{}: {}", rule.metric.name(), rule.metric.doc) },
        "fullDescription": { "text": first },
    });
    if let Some(url) = phrases::docs_url(rule) {
        descriptor["helpUri"] = json!(url);
    }
    descriptor
}

fn result(finding: &Finding, index: Option<usize>) -> serde_json::Result<Value> {
    let mut message = format!("{}. {}", finding.title.trim_end_matches('.'), finding.message);
    let gain = phrases::gain(finding);
    if !gain.is_empty() {
        let _ = write!(message, " Saves {gain}.");
    }
    for advice in &finding.advice {
        let _ = write!(message, "\n- {advice}");
    }
    let mut result = Map::new();
    result.insert("ruleId".to_owned(), json!(finding.code));
    if let Some(index) = index {
        result.insert("ruleIndex".to_owned(), json!(index));
    }
    result.insert("level".to_owned(), json!(level(finding.severity)));
    result.insert("message".to_owned(), json!({ "text": message }));
    let mut location = json!({ "logicalLocations": logical(finding) });
    if let Some(physical) = finding.source.first().map(|source| physical(source)) {
        location["physicalLocation"] = physical;
    }
    result.insert("locations".to_owned(), json!([location]));
    let related: Vec<Value> = finding
        .source
        .iter()
        .enumerate()
        .skip(1)
        .map(|(id, source)| json!({ "id": id, "physicalLocation": physical(source) }))
        .collect();
    if !related.is_empty() {
        result.insert("relatedLocations".to_owned(), json!(related));
    }
    if finding.affected.fired > 0 {
        result.insert("occurrenceCount".to_owned(), json!(finding.affected.fired));
    }
    result.insert("partialFingerprints".to_owned(), json!({ "finding/v1": finding.fingerprint }));
    if let Some(state) = finding.baseline_state {
        let state = match state {
            BaselineState::New => "new",
            BaselineState::Unchanged => "unchanged",
            BaselineState::Better | BaselineState::Worse => "updated",
        };
        result.insert("baselineState".to_owned(), json!(state));
    }
    if let Some(high) = finding.gain.high_pct {
        result.insert("rank".to_owned(), json!(high.clamp(0.0, 100.0)));
    }
    result.insert("properties".to_owned(), serde_json::to_value(finding)?);
    Ok(Value::Object(result))
}

/// A finding that an ignore entry of a rule file suppresses.
fn suppressed(ignored: &IgnoredFinding, index: Option<usize>) -> Value {
    let mut result = json!({
        "ruleId": ignored.code,
        "level": level(ignored.severity),
        "message": { "text": format!("{}. {}", ignored.title.trim_end_matches('.'), ignored.message) },
        "locations": [{ "logicalLocations": [{ "name": "run", "kind": "run" }] }],
        "partialFingerprints": { "finding/v1": ignored.fingerprint },
        "suppressions": [{
            "kind": "external",
            "status": "accepted",
            "justification": ignored.reason,
            "properties": { "at": ignored.at, "until": ignored.until },
        }],
    });
    if let Some(index) = index {
        result["ruleIndex"] = json!(index);
    }
    result
}

/// Notifications: notes about the trace, unknown verdicts and warnings.
fn notifications(report: &Report) -> Vec<Value> {
    let mut all = Vec::new();
    for note in report.notes() {
        let text = format!("{}. {}", note.title.trim_end_matches('.'), note.message);
        let mut notification = notification(&note.code, level(note.severity), &text);
        notification["properties"] = json!({ "verdict": "fire", "advice": note.advice });
        all.push(notification);
    }
    for unknown in &report.unknown {
        let text = format!("{} {}: {}", unknown.code, unknown.name, unknown.reason);
        let mut notification = notification(&unknown.code, "note", &text);
        notification["properties"] = json!({ "verdict": "unknown" });
        all.push(notification);
    }
    for warning in &report.warnings {
        let mut notification = notification(&warning.code, "warning", &warning.message);
        notification["properties"] = json!({ "count": warning.count });
        if !warning.file.is_empty() {
            notification["locations"] = json!([{ "physicalLocation": { "artifactLocation": { "uri": uri(&warning.file) } } }]);
        }
        all.push(notification);
    }
    all
}

fn notification(id: &str, level: &str, text: &str) -> Value {
    json!({ "descriptor": { "id": id }, "level": level, "message": { "text": text } })
}

/// The affected rows as logical locations: `rank 1, device 0`.
fn logical(finding: &Finding) -> Vec<Value> {
    let rows = finding.affected.worst.iter().map(
        |row| json!({ "name": row.label, "fullyQualifiedName": row.label, "kind": finding.scope }),
    );
    let mut rows: Vec<Value> = rows.collect();
    if rows.is_empty() {
        rows.push(json!({ "name": "run", "kind": "run" }));
    }
    rows
}

fn physical(source: &str) -> Value {
    let (file, line) = phrases::split_location(source);
    let mut location = json!({ "artifactLocation": { "uri": uri(file) } });
    if let Some(line) = line {
        location["region"] = json!({ "startLine": line });
    }
    location
}

/// A path as a URI: relative paths stay relative, absolute paths get the scheme `file`, addresses keep theirs.
/// Characters that are not allowed in a URI are percent-encoded.
fn uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let is_address = path.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric())
    });
    let bytes = path.as_bytes();
    let has_drive =
        bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && bytes[2] == b'/';
    let mut uri = String::new();
    if has_drive {
        uri.push_str("file:///");
    } else if path.starts_with('/') {
        uri.push_str("file://");
    }
    for (i, byte) in path.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        let is_scheme = byte == b':' && (is_address || (has_drive && i == 1));
        if is_plain || is_scheme {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::{run_id, uri};

    #[test]
    fn run_id_has_no_folders_of_the_machine() {
        assert_eq!(run_id("runs/a"), "runs/a");
        assert_eq!(run_id("/home/me/runs/a"), "a");
        assert_eq!(run_id("s3://bucket/run/"), "s3://bucket/run/");
    }

    #[test]
    fn uri_of_paths_and_addresses() {
        for (path, expected) in [
            ("train.py", "train.py"),
            ("src/my train.py", "src/my%20train.py"),
            ("/home/me/train.py", "file:///home/me/train.py"),
            (r"C:\me\train.py", "file:///C:/me/train.py"),
            ("<string>", "%3Cstring%3E"),
            ("javascript:alert(1)", "javascript%3Aalert%281%29"),
            ("s3://bucket/a b.json", "s3://bucket/a%20b.json"),
            ("Größe.py", "Gr%C3%B6%C3%9Fe.py"),
        ] {
            assert_eq!(uri(path), expected);
        }
    }
}
