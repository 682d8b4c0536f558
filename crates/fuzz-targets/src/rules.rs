//! Target for untrusted rule files: loads them, runs the rules' own tests, and evaluates the rules on rows with extreme
//! values. The caller limits time and memory.

use advisor::{RuleSet, RuleSource, evaluate};
use trace_model::{MetricSpec, MetricTable, RunInfo, Scope, Unit, Value};

const VIEW: &str = "gpu";

/// Columns of the view that rules may read, with every unit.
fn columns() -> Vec<(String, Unit)> {
    let columns = [
        ("rank", Unit::None),
        ("device", Unit::None),
        ("name", Unit::None),
        ("idle_ratio", Unit::Ratio),
        ("idle_ns", Unit::Ns),
        ("used_bytes", Unit::Bytes),
        ("launch_count", Unit::Count),
        ("blocks_per_sm", Unit::Number),
    ];
    columns.map(|(name, unit)| (name.to_owned(), unit)).into()
}

fn metrics() -> Vec<MetricSpec> {
    let metric = |(column, unit): &(String, Unit)| MetricSpec {
        view: VIEW.to_owned(),
        column: column.clone(),
        unit: *unit,
        scope: Scope::Device,
        doc: String::new(),
        columns: columns(),
        requires: Vec::new(),
    };
    columns().iter().filter(|(_, unit)| *unit != Unit::None).map(metric).collect()
}

fn rows() -> MetricTable {
    let row = |device: i64, name: &str, ratio: Value, number: i64| {
        let mut row = vec![Value::Int(0), Value::Int(device), Value::Text(name.to_owned()), ratio];
        // Time, bytes and count.
        row.extend([number; 3].map(Value::Int));
        row.push(Value::Float(number as f64));
        row
    };
    let rows = vec![
        row(0, "gemm", Value::Float(0.9), 1_000_000),
        row(1, "", Value::Null, 0),
        row(2, "\u{1b}[2J{{ name }}\u{202e}", Value::Float(1e300), i64::MAX),
        row(3, "é", Value::Float(-1.0), i64::MIN),
    ];
    MetricTable { view: VIEW.to_owned(), columns: columns(), rows, when_empty: String::new() }
}

/// Loads the file and evaluates its rules.
pub(crate) fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let source = RuleSource { name: "rules.toml".to_owned(), text: text.to_owned() };
    match RuleSet::load(&[source], &metrics()) {
        Ok(rules) => {
            rules.test();
            let report = evaluate(&rules, &[rows()], &RunInfo::default(), &[]);
            let report = serde_json::to_string(&report).expect("a report is JSON");
            serde_json::from_str::<serde_json::Value>(&report).expect("JSON that can be read");
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            for problem in problems {
                assert!(!problem.message.is_empty() && problem.line >= 1, "{problem}");
                assert!(problem.span.start <= text.len().max(1), "{problem}");
            }
        }
    }
}
