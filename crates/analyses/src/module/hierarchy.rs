//! `module_hierarchy`: what the operators of each module amount to, where operators name their modules.
//!
//! With `with_modules=True` an operator called by a scripted module carries `Module Hierarchy`: the modules
//! around it, outermost first, `.` between them. There are no calls of modules to look at, only operators.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use query::rust_view::Result;
use query::view_error;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use super::forest::{Forest, Kind};
use super::load::{Modules, load};
use query::columns::ints;
use query::rust_view::ViewInputs;

/// What the operators of a module, and of modules inside it, amount to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) operator_count: i64,
    pub(super) host_total_ns: i64,
    pub(super) host_self_ns: i64,
    pub(super) device_total_ns: i64,
    pub(super) device_self_ns: i64,
}

/// Sums by path. `paths` are by event; operators without one belong to that of the operator around.
pub(super) fn sums(forest: &Forest, paths: &FxHashMap<i64, String>) -> BTreeMap<String, Sum> {
    let mut found: BTreeMap<String, Sum> = BTreeMap::new();
    // The path of the nearest operator that has one, itself included.
    let mut at: Vec<Option<&str>> = Vec::with_capacity(forest.events.len());
    for (i, event) in forest.events.iter().enumerate() {
        let around = forest.parents[i].and_then(|parent| at[parent as usize]);
        let path = paths.get(&event.id).map(String::as_str);
        let path = path.filter(|_| event.kind == Kind::Operator);
        at.push(path.or(around));
        let Some(path) = path.filter(|path| Some(*path) != around) else { continue };
        let (host_ns, device_ns) = (event.end_ns - event.ts_ns, forest.sums[i].device_total_ns);
        for prefix in prefixes(path) {
            let sum = found.entry(prefix.to_owned()).or_default();
            // What lies in an operator of the same module counts there already.
            if around.is_none_or(|around| !prefixes(around).any(|known| known == prefix)) {
                sum.host_total_ns = sum.host_total_ns.saturating_add(host_ns);
                sum.device_total_ns = sum.device_total_ns.saturating_add(device_ns);
            }
            if prefix == path {
                sum.operator_count += 1;
                sum.host_self_ns = sum.host_self_ns.saturating_add(host_ns);
                sum.device_self_ns = sum.device_self_ns.saturating_add(device_ns);
            }
        }
        if let Some(sum) = around.and_then(|around| found.get_mut(around)) {
            sum.host_self_ns -= host_ns;
            sum.device_self_ns -= device_ns;
        }
    }
    found
}

/// `a`, `a.b` and `a.b.c` of `a.b.c`; a dot in parentheses is part of a name.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    let mut open = 0_i32;
    let ends = path.char_indices().filter_map(move |(i, c)| {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            '.' if open == 0 => return Some(i),
            _ => {}
        }
        None
    });
    ends.chain([path.len()]).map(|end| &path[..end])
}

/// The text of `Module Hierarchy` in the arguments of an operator.
fn hierarchy(args: &str) -> Option<&str> {
    let (_, rest) = args.split_once("\"Module Hierarchy\"")?;
    let text = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let text = &text[..text.find('"')?];
    (!text.is_empty()).then_some(text)
}

pub(super) fn compute(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let batch = inputs.batch("named")?;
    let (rank, id) = (ints(batch, "rank")?, ints(batch, "event_id")?);
    let args = batch.column_by_name("args").ok_or_else(|| view_error!("no args"))?;
    let args = cast(args, &DataType::LargeUtf8)?;
    let args = args.as_string::<i64>();
    let mut paths: BTreeMap<i64, FxHashMap<i64, String>> = BTreeMap::new();
    for row in (0..args.len()).filter(|&row| args.is_valid(row)) {
        if let Some(path) = hierarchy(args.value(row)) {
            paths.entry(rank.value(row)).or_default().insert(id.value(row), path.to_owned());
        }
    }
    let mut rows: Vec<(i64, String, Sum)> = Vec::new();
    if !paths.is_empty() {
        let tables = load(inputs, Modules::Frames)?;
        for (rank, paths) in &paths {
            let Some(forest) = tables.forests.get(rank) else { continue };
            rows.extend(sums(forest, paths).into_iter().map(|(path, sum)| (*rank, path, sum)));
        }
    }
    let long = |value: fn(&Sum) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(|(.., sum)| Some(value(sum))).collect::<Int64Array>())
    };
    let parent = |path: &str| prefixes(path).filter(|p| *p != path).last().map(ToOwned::to_owned);
    let depth = |path: &str| prefixes(path).count() as i32 - 1;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("rank", Arc::new(rows.iter().map(|r| Some(r.0 as i32)).collect::<Int32Array>())),
        ("path", Arc::new(rows.iter().map(|r| Some(r.1.as_str())).collect::<StringArray>())),
        ("parent_path", Arc::new(rows.iter().map(|r| parent(&r.1)).collect::<StringArray>())),
        ("depth", Arc::new(rows.iter().map(|r| Some(depth(&r.1))).collect::<Int32Array>())),
        ("operator_count", long(|sum| sum.operator_count)),
        ("host_total_ns", long(|sum| sum.host_total_ns)),
        ("host_self_ns", long(|sum| sum.host_self_ns)),
        ("device_total_ns", long(|sum| sum.device_total_ns)),
        ("device_self_ns", long(|sum| sum.device_self_ns)),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::{Sum, hierarchy, prefixes, sums};
    use crate::nesting::forest::{Event, Forest, Kind, Work};

    #[test]
    fn a_path_begins_with_those_around() {
        let path = "TOP(my.Net)::forward.fc(Linear)::forward";
        let expected = ["TOP(my.Net)::forward", path];
        assert_eq!(prefixes(path).collect::<Vec<_>>(), expected);
        let args = r#"{"stream":0,"Module Hierarchy": "TOP(Net)::forward.fc(Linear)::forward"}"#;
        assert_eq!(hierarchy(args), Some("TOP(Net)::forward.fc(Linear)::forward"));
        assert_eq!(hierarchy(r#"{"Module Hierarchy":""}"#), None);
        assert_eq!(hierarchy(r#"{"Module Hierarchy":"#), None);
    }

    #[test]
    fn an_operator_counts_once_for_each_module_around_it() {
        let event = |id, parent, ts_ns, end_ns| {
            let kind = if id == 9 { Kind::Launch } else { Kind::Operator };
            Event { id, parent, ts_ns, end_ns, kind, row: 0 }
        };
        let events = vec![
            event(1, None, 0, 100),
            event(2, Some(1), 10, 40),
            event(3, Some(1), 50, 60),
            event(4, None, 200, 205),
            event(9, Some(2), 15, 20),
        ];
        let forest = Forest::new(events, &[Work { launch: Some(9), op: None, dur_ns: 7 }]);
        let paths: FxHashMap<i64, String> = [(1, "a"), (2, "a.b"), (3, "a"), (4, "a.b")]
            .into_iter()
            .map(|(id, path)| (id, path.to_owned()))
            .collect();
        let found = sums(&forest, &paths);
        let outer = Sum {
            operator_count: 1,
            host_total_ns: 105,
            host_self_ns: 70,
            device_total_ns: 7,
            device_self_ns: 0,
        };
        let inner = Sum {
            operator_count: 2,
            host_total_ns: 35,
            host_self_ns: 35,
            device_total_ns: 7,
            device_self_ns: 7,
        };
        assert_eq!(found["a"], outer);
        assert_eq!(found["a.b"], inner);
        assert_eq!(found.len(), 2);
    }
}
