//! `module_hierarchy`: totals by module, of operators that name their modules.
//!
//! With `with_modules=True` an operator called by a scripted module carries `Module Hierarchy`: the modules
//! around it, outermost first, separated by `.`. Such traces hold no calls of modules, only operators.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use query::columns::ints;
use query::rust_view::{Result, ViewInputs};
use query::view_error;
use rustc_hash::FxHashMap;
use trace_model::RecordBatch;

use crate::call_tree::{CallForest, EventKind, ModuleSource, load_forests};

/// Totals over the operators of a module and of modules inside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ModuleTotals {
    pub(super) operator_count: i64,
    pub(super) host_total_ns: i64,
    pub(super) host_self_ns: i64,
    pub(super) device_total_ns: i64,
    pub(super) device_self_ns: i64,
}

/// Totals by path. `paths` are by event id; an operator without a path has the path of the operator around it.
pub(super) fn totals_by_path(
    forest: &CallForest,
    paths: &FxHashMap<i64, String>,
) -> BTreeMap<String, ModuleTotals> {
    let mut found: BTreeMap<String, ModuleTotals> = BTreeMap::new();
    // The path of the nearest operator that has one, itself included.
    let mut at: Vec<Option<&str>> = Vec::with_capacity(forest.events.len());
    for (i, event) in forest.events.iter().enumerate() {
        let outer = forest.parents[i].and_then(|parent| at[parent as usize]);
        let path = paths.get(&event.id).map(String::as_str);
        let path = path.filter(|_| event.kind == EventKind::Operator);
        at.push(path.or(outer));
        let Some(path) = path.filter(|path| Some(*path) != outer) else { continue };
        let (host_ns, device_ns) = (event.end_ns - event.ts_ns, forest.totals[i].device_total_ns);
        for prefix in prefixes(path) {
            let sum = found.entry(prefix.to_owned()).or_default();
            // An operator inside an operator of the same module counts there already.
            if outer.is_none_or(|outer| !prefixes(outer).any(|known| known == prefix)) {
                sum.host_total_ns = sum.host_total_ns.saturating_add(host_ns);
                sum.device_total_ns = sum.device_total_ns.saturating_add(device_ns);
            }
            if prefix == path {
                sum.operator_count += 1;
                sum.host_self_ns = sum.host_self_ns.saturating_add(host_ns);
                sum.device_self_ns = sum.device_self_ns.saturating_add(device_ns);
            }
        }
        if let Some(sum) = outer.and_then(|outer| found.get_mut(outer)) {
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
fn module_path(args: &str) -> Option<&str> {
    let (_, rest) = args.split_once("\"Module Hierarchy\"")?;
    let text = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let text = &text[..text.find('"')?];
    (!text.is_empty()).then_some(text)
}

pub(super) fn hierarchy(inputs: &ViewInputs<'_>) -> Result<RecordBatch> {
    let batch = inputs.batch("module_paths")?;
    let (rank, id) = (ints(batch, "rank")?, ints(batch, "event_id")?);
    let args =
        batch.column_by_name("args").ok_or_else(|| view_error!("there is no column `args`"))?;
    let args = cast(args, &DataType::LargeUtf8)?;
    let args = args.as_string::<i64>();
    let mut paths: BTreeMap<i64, FxHashMap<i64, String>> = BTreeMap::new();
    for row in (0..args.len()).filter(|&row| args.is_valid(row)) {
        if let Some(path) = module_path(args.value(row)) {
            paths.entry(rank.value(row)).or_default().insert(id.value(row), path.to_owned());
        }
    }
    let mut rows: Vec<(i64, String, ModuleTotals)> = Vec::new();
    if !paths.is_empty() {
        let forests = load_forests(inputs, ModuleSource::Frames)?;
        for (rank, paths) in &paths {
            let Some(forest) = forests.forests.get(rank) else { continue };
            rows.extend(
                totals_by_path(forest, paths).into_iter().map(|(path, sum)| (*rank, path, sum)),
            );
        }
    }
    let int64 = |value: fn(&ModuleTotals) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(|(.., sum)| Some(value(sum))).collect::<Int64Array>())
    };
    let parent = |path: &str| prefixes(path).filter(|p| *p != path).last().map(ToOwned::to_owned);
    let depth = |path: &str| prefixes(path).count() as i32 - 1;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("rank", Arc::new(rows.iter().map(|r| Some(r.0 as i32)).collect::<Int32Array>())),
        ("path", Arc::new(rows.iter().map(|r| Some(r.1.as_str())).collect::<StringArray>())),
        ("parent_path", Arc::new(rows.iter().map(|r| parent(&r.1)).collect::<StringArray>())),
        ("depth", Arc::new(rows.iter().map(|r| Some(depth(&r.1))).collect::<Int32Array>())),
        ("operator_count", int64(|sum| sum.operator_count)),
        ("host_total_ns", int64(|sum| sum.host_total_ns)),
        ("host_self_ns", int64(|sum| sum.host_self_ns)),
        ("device_total_ns", int64(|sum| sum.device_total_ns)),
        ("device_self_ns", int64(|sum| sum.device_self_ns)),
    ];
    Ok(RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )?)
}

#[cfg(test)]
mod tests {
    use rustc_hash::FxHashMap;

    use super::{ModuleTotals, module_path, prefixes, totals_by_path};
    use crate::call_tree::{Activity, CallForest, EventKind, ForestEvent};

    #[test]
    fn prefixes_split_at_dots_outside_parentheses() {
        let path = "TOP(my.Net)::forward.fc(Linear)::forward";
        let expected = ["TOP(my.Net)::forward", path];
        assert_eq!(prefixes(path).collect::<Vec<_>>(), expected);
        let args = r#"{"stream":0,"Module Hierarchy": "TOP(Net)::forward.fc(Linear)::forward"}"#;
        assert_eq!(module_path(args), Some("TOP(Net)::forward.fc(Linear)::forward"));
        assert_eq!(module_path(r#"{"Module Hierarchy":""}"#), None);
        assert_eq!(module_path(r#"{"Module Hierarchy":"#), None);
    }

    #[test]
    fn totals_by_path_count_an_operator_once_per_module_around_it() {
        let event = |id, parent, ts_ns, end_ns| {
            let kind = if id == 9 { EventKind::Launch } else { EventKind::Operator };
            ForestEvent { id, parent, ts_ns, end_ns, kind, row: 0 }
        };
        let events = vec![
            event(1, None, 0, 100),
            event(2, Some(1), 10, 40),
            event(3, Some(1), 50, 60),
            event(4, None, 200, 205),
            event(9, Some(2), 15, 20),
        ];
        let forest = CallForest::new(events, &[Activity { launch: Some(9), op: None, dur_ns: 7 }]);
        let paths: FxHashMap<i64, String> = [(1, "a"), (2, "a.b"), (3, "a"), (4, "a.b")]
            .into_iter()
            .map(|(id, path)| (id, path.to_owned()))
            .collect();
        let found = totals_by_path(&forest, &paths);
        let outer = ModuleTotals {
            operator_count: 1,
            host_total_ns: 105,
            host_self_ns: 70,
            device_total_ns: 7,
            device_self_ns: 0,
        };
        let inner = ModuleTotals {
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
