//! Suggestions for misspelled names.

use crate::spec::Unit;

/// Words under this length are only near to what is one letter away: `end` is not `kind`.
const SHORT: usize = 5;
/// Columns that a suggestion lists.
const MAX_LISTED: usize = 20;

/// Names of one thing, those of our columns first. The first that is there is meant.
const SYNONYMS: [&[&str]; 6] = [
    &[
        "ts_ns",
        "start_ns",
        "ts",
        "start",
        "start_ts",
        "start_time",
        "begin",
        "timestamp",
        "time",
        "time_ns",
    ],
    &["end_ns", "end", "end_ts", "end_time", "stop"],
    &[
        "dur_ns",
        "sum_ns",
        "mean_ns",
        "dur",
        "duration",
        "duration_ns",
        "elapsed",
        "time",
        "time_ns",
        "total_ns",
    ],
    &["bytes", "allocated_bytes", "peak_bytes", "size", "size_bytes", "nbytes"],
    &["call_count", "event_count", "count", "calls", "n"],
    &["device", "gpu", "device_id", "gpu_id"],
];

/// The candidate nearest to `word`, ignoring case, if few letters differ: at most a third of those of the longer of the two,
/// rounded up, and one for a short word. Two letters in the wrong order count as one. Of candidates at the same
/// distance, the first in alphabetical order.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let most = |candidate: &str| match word.len() {
        ..SHORT => 1,
        length => length.max(candidate.len()).div_ceil(3),
    };
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|&(distance, candidate)| distance <= most(candidate))
        .min()
        .map(|(_, candidate)| candidate)
}

/// The column that `word` means: one with another name for the same thing, else the nearest one. A word with a unit means
/// a column in that unit.
pub fn nearest_column<'a>(word: &str, columns: &[&'a str]) -> Option<&'a str> {
    let lower = word.to_lowercase();
    let find = |name: &str| columns.iter().copied().find(|column| *column == name);
    let groups = SYNONYMS.iter().filter(|names| names.contains(&lower.as_str()));
    if let Some(column) = groups.flat_map(|names| names.iter()).find_map(|name| find(name)) {
        return Some(column);
    }
    let lacks_unit = |column: &&str| {
        column.rsplit_once('_').is_some_and(|(stem, _)| stem == lower) && has_unit(column)
    };
    if let Some(column) = columns.iter().copied().find(lacks_unit) {
        return Some(column);
    }
    let Some((stem, suffix)) = lower.rsplit_once('_').filter(|_| has_unit(&lower)) else {
        return nearest(word, columns.iter().copied());
    };
    let stems = columns.iter().filter_map(|column| column.rsplit_once('_'));
    let near = nearest(stem, stems.filter(|(_, unit)| *unit == suffix).map(|(stem, _)| stem))?;
    find(&format!("{near}_{suffix}"))
}

/// What helps with a column that does not exist: `near`, the expression that is meant, if known, and what columns there
/// are, those like `word` first.
pub fn column_help(word: &str, near: Option<&str>, columns: &[&str]) -> String {
    let unlikeness = |column: &&str| match *column {
        column if near == Some(column) => 0,
        column if share_a_word(word, column) => 1,
        column if has_unit(word) && Unit::of_undeclared(word) == Unit::of_undeclared(column) => 2,
        _ => 3,
    };
    let mut columns = columns.to_vec();
    columns.sort_by_key(unlikeness);
    let listed = columns[..columns.len().min(MAX_LISTED)].join(", ");
    let more = match columns.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    match near {
        Some(near) => format!("did you mean `{near}`? The columns are {listed}{more}"),
        None => format!("the columns are {listed}{more}"),
    }
}

fn has_unit(column: &str) -> bool {
    Unit::of_undeclared(column) != Unit::None
}

/// Whether a word of one name begins with a word of the other: `duration` and `dur_ns`.
fn share_a_word(a: &str, b: &str) -> bool {
    let words = |name: &str| -> Vec<String> {
        let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() >= 3);
        words.map(str::to_lowercase).collect()
    };
    let (a, b) = (words(a), words(b));
    a.iter().any(|a| b.iter().any(|b| a.starts_with(b.as_str()) || b.starts_with(a.as_str())))
}

#[cfg(test)]
mod tests {
    use super::{column_help, nearest, nearest_column};

    #[test]
    fn nearest_finds_misspelled_names() {
        let names = ["gpu_kernels", "gpu_utilization", "step_time", "IN001"];
        assert_eq!(nearest("gpu_utilisation", names), Some("gpu_utilization"));
        assert_eq!(nearest("in001", names), Some("IN001"));
        assert_eq!(nearest("advise", ["advice", "title", "why"]), Some("advice"));
        assert_eq!(nearest("nmae", ["kind", "name"]), Some("name"));
    }

    #[test]
    fn nearest_rejects_distant_names() {
        assert_eq!(nearest("memory", ["gpu_utilization", "step_time", "IN001"]), None);
        assert_eq!(nearest("colour", ["advice", "title", "why"]), None);
        assert_eq!(nearest("x", ["gpu_kernels"]), None);
        assert_eq!(nearest("end", ["kind"]), None);
        assert_eq!(nearest("time", ["name"]), None);
    }

    #[test]
    fn nearest_column_knows_other_names_and_units() {
        let kernels = ["rank", "name", "kind", "ts_ns", "dur_ns", "launch_ts_ns", "args"];
        for (word, column) in [
            ("start_ns", Some("ts_ns")),
            ("start", Some("ts_ns")),
            ("TS", Some("ts_ns")),
            ("time", Some("ts_ns")),
            ("duration", Some("dur_ns")),
            ("lanch_ts_ns", Some("launch_ts_ns")),
            ("dur_n", Some("dur_ns")),
            ("launch_ts", Some("launch_ts_ns")),
            ("nam", Some("name")),
            ("end", None),
            ("end_ns", None),
        ] {
            assert_eq!(nearest_column(word, &kernels), column, "{word}");
        }
        let sums = ["name", "sum_ns", "std_ns", "ratio", "rank_count"];
        assert_eq!(nearest_column("duration", &sums), Some("sum_ns"));
        assert_eq!(nearest_column("start_ns", &sums), None);
    }

    #[test]
    fn column_help_lists_columns_like_the_word_first() {
        assert_eq!(
            column_help("kernel_name", None, &["rank", "dur_ns", "op_name"]),
            "the columns are op_name, rank, dur_ns"
        );
        assert_eq!(
            column_help("start_ns", Some("ts_ns"), &["rank", "dur_ns", "ts_ns"]),
            "did you mean `ts_ns`? The columns are ts_ns, dur_ns, rank"
        );
        let many = ["rank"; 23];
        assert!(column_help("x", None, &many).ends_with("rank, and 3 more"));
    }
}
