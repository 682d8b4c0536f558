//! Loads rules and checks them against the metrics of the built-in views.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use advisor::{
    EvidenceQuery, Inactive, Problem, RuleFiles, RuleQuery, RuleSet, RuleSource, are_shipped_rules,
    shipped_rules,
};
use query::{Params, QueryDiagnostic, Session, query_table};
use serde::{Deserialize, Serialize};
use trace_model::{MetricTable, RecordBatch, TableSet, Unit};

/// Maximum rows of a rule's query.
const MAX_ROWS: usize = 1_000_000;

/// The shipped rules as they are after loading, which takes a third of the time of a check of an almost empty trace. A
/// test holds them current (`UPDATE=1` rewrites them).
const PREPARED_RULES: &[u8] = include_bytes!("prepared_rules.bin");

/// The content of [`PREPARED_RULES`], and a checksum of the files that it was made from.
#[derive(Serialize, Deserialize)]
struct PreparedRules {
    checksum: u32,
    rules: RuleSet,
}

/// The shipped rules.
///
/// # Panics
/// If they are invalid, which the tests exclude.
pub fn default_rules() -> RuleSet {
    load_rules(&[]).unwrap_or_else(|problems| {
        let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
        panic!("the shipped rules: {}", list.join("\n"))
    })
}

/// The shipped rules, changed and extended by rule files in this order.
///
/// # Errors
/// Every mistake in every file.
pub fn load_rules(files: &[RuleSource]) -> Result<RuleSet, Vec<Problem>> {
    let mut sources = shipped_rules();
    sources.extend_from_slice(files);
    load_only(&sources)
}

/// Loads the rules of these files only. The queries of rules are planned against the built-in tables and views.
///
/// # Errors
/// Every mistake in every file, in order of place.
pub fn load_only(sources: &[RuleSource]) -> Result<RuleSet, Vec<Problem>> {
    if are_shipped_rules(sources)
        && let (Ok(prepared), checksum) =
            rayon::join(|| postcard::from_bytes(PREPARED_RULES), checksum)
        && let PreparedRules { checksum: expected, rules } = prepared
        && checksum == expected
    {
        return Ok(rules);
    }
    check_and_load(sources)
}

/// The checksum of the shipped rules, and of the views whose columns they name.
fn checksum() -> u32 {
    let mut checksum = crc32fast::Hasher::new();
    let rules = shipped_rules();
    let views = analyses::catalog().views().iter().map(|view| &view.text);
    for text in rules.iter().map(|source| &source.text).chain(views) {
        checksum.update(text.as_bytes());
    }
    checksum.finalize()
}

/// The queries of rules that are not disabled, those of the shipped rules left out: these are known to run.
pub fn own_rule_queries(rules: &RuleSet) -> Vec<RuleQuery> {
    let shipped: BTreeSet<String> =
        default_rules().all().iter().filter_map(|rule| rule.sql.clone()).collect();
    let enabled = rules.all().iter().filter(|r| rules.inactive(r) != Some(Inactive::Disabled));
    enabled.filter_map(RuleQuery::of).filter(|query| !shipped.contains(&query.sql)).collect()
}

fn check_and_load(sources: &[RuleSource]) -> Result<RuleSet, Vec<Problem>> {
    // Half a megabyte of TOML, and as much of views.
    let (files, mut metrics) =
        rayon::join(|| RuleFiles::read(sources), || analyses::catalog().metrics());
    metrics.extend(compare::metrics());
    let mut problems = Vec::new();
    for stated in files.queries() {
        match plan(&stated.query) {
            Ok(columns) => metrics.push(stated.query.metric(columns)),
            Err(mistake) => {
                let QueryDiagnostic { span, message, help, .. } = mistake;
                let help = help.map(|help| help.to_string());
                problems.push(stated.problem(sources, span, message, help));
            }
        }
    }
    match files.load(&metrics) {
        Ok(rules) if problems.is_empty() => Ok(rules),
        Ok(_) => Err(problems),
        Err(more) => {
            problems.extend(more);
            let file = |p: &Problem| sources.iter().position(|s| s.name == p.file);
            problems.sort_by_key(|p| (file(p), p.span.start));
            Err(problems)
        }
    }
}

/// The columns of a query, found by running it on empty tables.
fn plan(query: &RuleQuery) -> Result<Vec<(String, Unit)>, QueryDiagnostic> {
    static EMPTY: LazyLock<Result<Session, query::Error>> = LazyLock::new(|| {
        Session::new(analyses::catalog(), TableSet::default(), &Params::default())
    });
    let mistake =
        |message| QueryDiagnostic { sql: query.sql.clone(), span: None, message, help: None };
    let session = EMPTY.as_ref().map_err(|e| mistake(e.to_string()))?;
    let batches = session.rule_sql(&query.sql).map_err(|error| match error {
        query::Error::Query(diagnostic) => *diagnostic,
        error => mistake(error.to_string()),
    })?;
    let table = metric_table(query, &batches).map_err(mistake)?;
    let schema = batches.first().map(RecordBatch::schema);
    let judged = schema.and_then(|s| s.field_with_name(&query.column).ok().cloned());
    if let Some(field) = judged.filter(|f| !f.data_type().is_numeric() && !f.data_type().is_null())
    {
        let message = format!("`{}` is not a number, but {}", query.column, field.data_type());
        return Err(mistake(message));
    }
    Ok(table.columns)
}

/// The rows of a rule's query as a metric table.
pub(crate) fn metric_table(
    query: &RuleQuery,
    batches: &[RecordBatch],
) -> Result<MetricTable, String> {
    let keys = query.scope.keys().iter().copied();
    let needed: Vec<&str> = std::iter::once(query.column.as_str()).chain(keys).collect();
    let mut table = table(&query.name, &needed, batches)?;
    for (_, unit) in table.columns.iter_mut().filter(|(name, _)| *name == query.column) {
        *unit = query.unit;
    }
    Ok(table)
}

/// The time ranges of a rule's evidence query as a metric table.
pub(crate) fn evidence_table(
    query: &EvidenceQuery,
    batches: &[RecordBatch],
) -> Result<MetricTable, String> {
    table(&query.name, &["rank", "ts_ns", "dur_ns"], batches)
}

fn table(name: &str, needed: &[&str], batches: &[RecordBatch]) -> Result<MetricTable, String> {
    let count: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if count > MAX_ROWS {
        return Err(format!("it returns {count} rows; at most {MAX_ROWS} are allowed"));
    }
    let table = query_table(name, batches).map_err(|e| e.to_string())?;
    if let Some(missing) = needed.iter().find(|needed| table.index(needed).is_none()) {
        let names: Vec<&str> = table.columns.iter().map(|(name, _)| name.as_str()).collect();
        return Err(format!("it has no column `{missing}`; it returns {}", names.join(", ")));
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use advisor::{RuleQuery, RuleSource, are_shipped_rules, shipped_rules};
    use arrow::array::{ArrayRef, Float64Array, Int32Array};
    use trace_model::{RecordBatch, Scope, Unit, Value};

    use super::{PREPARED_RULES, PreparedRules, check_and_load, checksum, load_only, metric_table};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
    fn prepared_rules_are_the_shipped_ones() {
        let sources = shipped_rules();
        let rules = check_and_load(&sources).unwrap();
        let fresh = PreparedRules { checksum: checksum(), rules };
        let fresh = postcard::to_stdvec(&fresh).unwrap();
        if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/prepared_rules.bin");
            return std::fs::write(path, fresh).unwrap();
        }
        assert!(
            PREPARED_RULES == fresh,
            "prepared_rules.bin is stale: run this test with UPDATE=1"
        );
        let loaded = format!("{:?}", load_only(&sources).unwrap());
        assert!(loaded == format!("{:?}", check_and_load(&sources).unwrap()));
    }

    #[test]
    fn copies_of_shipped_rules_change_nothing() {
        let shipped = shipped_rules();
        let copy = RuleSource { name: "copy.toml".to_owned(), text: shipped[0].text.clone() };
        let mut sources = shipped.clone();
        sources.push(copy);
        assert!(are_shipped_rules(&sources));
        // They are loaded in the same way as the shipped files alone.
        assert!(format!("{:?}", load_only(&sources)) == format!("{:?}", load_only(&shipped)));
        // Places are those of the copy.
        let places = |rules: String| rules.replace("copy.toml:", "rules/GU.toml:");
        let with_copy = places(format!("{:?}", check_and_load(&sources).unwrap()));
        assert!(with_copy == format!("{:?}", check_and_load(&shipped).unwrap()));

        sources[shipped.len()].text.push_str("[rule.dataloader-wait]\nenabled = false\n");
        assert!(!are_shipped_rules(&sources) && !are_shipped_rules(&shipped[1..]));
    }

    #[test]
    fn metric_table_has_the_rows_of_the_query() {
        let rank: ArrayRef = Arc::new(Int32Array::from(vec![0, 1]));
        let idle: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.25), None]));
        let batch = RecordBatch::try_from_iter([("rank", rank), ("idle_ratio", idle)]).unwrap();
        let mut query = RuleQuery {
            name: "own".to_owned(),
            sql: String::new(),
            column: "idle_ratio".to_owned(),
            unit: Unit::Ratio,
            scope: Scope::Rank,
        };
        let table = metric_table(&query, std::slice::from_ref(&batch)).unwrap();
        assert_eq!(table.view, "own");
        assert_eq!(table.columns[1], ("idle_ratio".to_owned(), Unit::Ratio));
        assert_eq!(table.rows[0], [Value::Int(0), Value::Float(0.25)]);
        assert_eq!(table.rows[1], [Value::Int(1), Value::Null]);

        query.scope = Scope::Device;
        let problem = metric_table(&query, &[batch]).unwrap_err();
        assert_eq!(problem, "it has no column `device`; it returns rank, idle_ratio");
    }
}
