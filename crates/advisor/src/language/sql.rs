//! The SQL behind the numbers of a finding, to check them.

use std::fmt::Write as _;

use trace_model::{MetricTable, Row, Value};

use crate::language::expr;
use crate::language::rule::Rule;

/// Selects rows of a rule's table by their keys, with the columns of the thresholds, the gain, the title and
/// the message.
pub(crate) fn of_rows(
    rule: &Rule,
    table: &MetricTable,
    column: &str,
    gain: &[String],
    rows: &[Row<'_>],
) -> String {
    let keys = rule.metric.scope.keys().iter().copied();
    let env = expr::environment();
    let in_texts: Vec<String> =
        [&rule.title, &rule.message].iter().flat_map(|text| text.reads(&env)).collect();
    let mut columns: Vec<&str> = Vec::new();
    let wanted = keys.chain([column]).chain(gain.iter().chain(&in_texts).map(String::as_str));
    for name in wanted.filter(|name| table.index(name).is_some()) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    let columns: Vec<String> = columns.into_iter().map(name).collect();
    let mut query = format!("SELECT {} FROM {}", columns.join(", "), origin(rule));
    let mut conditions: Vec<String> =
        rows.iter().map(|row| condition(rule, table, row.values)).collect();
    conditions.dedup();
    match conditions.as_slice() {
        [only] if only.is_empty() => {}
        [only] => {
            let _ = write!(query, " WHERE {only}");
        }
        several => {
            let several: Vec<String> = several.iter().map(|c| format!("({c})")).collect();
            let _ = write!(query, " WHERE {}", several.join(" OR "));
        }
    }
    query
}

/// The lines of the program with most of a column, over some ranks.
pub(crate) fn lines(view: &str, column: &str, ranks: &[i64], limit: usize) -> String {
    let (view, column) = (name(view), name(column));
    format!(
        "SELECT source, sum({column}) AS {column} FROM {view}{} GROUP BY source \
         ORDER BY {column} DESC, source LIMIT {limit}",
        of_ranks(ranks)
    )
}

/// The longest time ranges of a query, over some ranks, with the number of all ranges and their sum.
pub(crate) fn longest_ranges(query: &str, ranks: &[i64], limit: usize) -> String {
    format!(
        "SELECT *, count(*) OVER () AS {RANGE_COUNT}, sum(dur_ns) OVER () AS {RANGES_NS} \
         FROM {}{} ORDER BY dur_ns DESC, ts_ns, rank LIMIT {limit}",
        nested(query),
        of_ranks(ranks)
    )
}

/// Columns that [`longest_ranges`] adds to each row: the number of time ranges, and their sum.
pub(crate) const RANGE_COUNT: &str = "range_count";
pub(crate) const RANGES_NS: &str = "ranges_ns";

fn of_ranks(ranks: &[i64]) -> String {
    if ranks.is_empty() {
        return String::new();
    }
    let ranks: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    format!(" WHERE rank IN ({})", ranks.join(", "))
}

/// The source of the rows: the view, or the rule's query.
fn origin(rule: &Rule) -> String {
    rule.sql.as_deref().map_or_else(|| name(rule.table()), nested)
}

/// A query inside of another. It may end in a comment, or in a semicolon.
fn nested(query: &str) -> String {
    format!("(\n{}\n)", query.trim().trim_end_matches(';').trim_end())
}

/// A condition that only this row meets: its keys, and more columns if the keys are not unique.
fn condition(rule: &Rule, table: &MetricTable, row: &[Value]) -> String {
    let keys = rule.metric.scope.keys().iter().filter_map(|key| table.index(key));
    let mut chosen: Vec<usize> = keys.collect();
    let mut rivals: Vec<&Vec<Value>> =
        table.rows.iter().filter(|r| chosen.iter().all(|&i| r[i] == row[i])).collect();
    for i in 0..table.columns.len() {
        if rivals.len() < 2 {
            break;
        }
        // The text of a float need not round-trip.
        if chosen.contains(&i) || matches!(row[i], Value::Float(_)) {
            continue;
        }
        let before = rivals.len();
        rivals.retain(|r| r[i] == row[i]);
        if rivals.len() < before {
            chosen.push(i);
        }
    }
    let equal = chosen.iter().map(|&i| {
        let column = name(&table.columns[i].0);
        match &row[i] {
            Value::Null => format!("{column} IS NULL"),
            value => format!("{column} = {}", literal(value)),
        }
    });
    equal.collect::<Vec<_>>().join(" AND ")
}

/// A name as an SQL identifier, quoted if necessary.
fn name(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if is_plain && !RESERVED.contains(&text) {
        text.to_owned()
    } else {
        format!("\"{}\"", text.replace('"', "\"\""))
    }
}

/// Words that are names only in quotes.
const RESERVED: [&str; 32] = [
    "all", "and", "as", "between", "by", "case", "distinct", "else", "end", "exists", "from",
    "full", "group", "having", "in", "is", "join", "left", "like", "limit", "not", "null", "on",
    "or", "order", "right", "select", "then", "union", "using", "when", "where",
];

/// A value as an SQL literal. Control characters are written by their code points.
fn literal(value: &Value) -> String {
    let Value::Text(text) = value else { return value.to_string() };
    let mut parts: Vec<String> = Vec::new();
    let mut plain = String::new();
    for c in text.chars() {
        let is_hidden = c.is_control()
            || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}');
        if is_hidden {
            if !plain.is_empty() {
                parts.push(format!("'{}'", std::mem::take(&mut plain)));
            }
            parts.push(format!("chr({})", u32::from(c)));
        } else {
            plain.push(c);
            if c == '\'' {
                plain.push(c);
            }
        }
    }
    if !plain.is_empty() || parts.is_empty() {
        parts.push(format!("'{plain}'"));
    }
    if let [one] = parts.as_slice() { one.clone() } else { format!("({})", parts.join(" || ")) }
}

#[cfg(test)]
mod tests {
    use trace_model::Value;

    use super::{literal, longest_ranges, name};

    #[test]
    fn names_and_literals_are_escaped() {
        let text = |t: &str| literal(&Value::Text(t.to_owned()));
        assert_eq!(text("aten::mm"), "'aten::mm'");
        assert_eq!(text("it's; --"), "'it''s; --'");
        assert_eq!(text(""), "''");
        assert_eq!(text("a\u{1b}[2J'"), "('a' || chr(27) || '[2J''')");
        assert_eq!(literal(&Value::Int(-3)), "-3");
        assert_eq!(name("busy_ratio"), "busy_ratio");
        assert_eq!(name("end"), "\"end\"");
        assert_eq!(name("x\" FROM y"), "\"x\"\" FROM y\"");
    }

    #[test]
    fn longest_ranges_nests_queries_with_any_ending() {
        let query = longest_ranges("SELECT 1 AS rank -- one\n;", &[0, 2], 3);
        assert!(
            query.contains("FROM (\nSELECT 1 AS rank -- one\n) WHERE rank IN (0, 2) ORDER BY"),
            "{query}"
        );
    }
}
