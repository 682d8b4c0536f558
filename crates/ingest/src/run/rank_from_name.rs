//! Ranks and workers in the names of files.

/// The rank that a file name states: `rank-3`, `rank_3`, `rank3`, or, as Determined marks what it
/// uploads, `worker#3.1619.pt.trace.json`.
pub(crate) fn rank_from_file_name(file: &str) -> Option<i32> {
    let name = file.rsplit('/').next()?.to_ascii_lowercase();
    let marked = name.rsplit_once('#').and_then(|(_, rest)| {
        let (digits, _) = rest.split_once('.')?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    });
    if marked.is_some() {
        return marked;
    }
    name.match_indices("rank").find_map(|(at, word)| {
        let rest = name[at + word.len()..].trim_start_matches(['-', '_', '.']);
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        rest[..digits].parse().ok()
    })
}

/// The worker of a name as TensorBoard's handler writes it, `<worker>.<time>.pt.trace.json`, or ours,
/// `<worker>_cycle<number>.pt.trace.json`: files of one worker are profile cycles of one rank. Other names: the whole
/// name.
pub(crate) fn worker_name(file: &str) -> &str {
    let stem = file.strip_suffix(".gz").unwrap_or(file);
    let without = |ending| stem.strip_suffix(ending);
    let stem = without(".pt.trace.json").or_else(|| without(".pt.trace.pftrace")).unwrap_or(stem);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts = stem.rsplit_once('.').or_else(|| stem.rsplit_once("_cycle"));
    parts.filter(|(_, number)| is_number(number)).map_or(stem, |(worker, _)| worker)
}

/// Returns the name of a file without the endings that state its format. Files of the same recording differ only in these endings.
pub(crate) fn recording_name(file: &str) -> &str {
    const ENDINGS: [&str; 3] = [".json", ".pftrace", ".perfetto-trace"];
    let stem = file.strip_suffix(".gz").unwrap_or(file);
    ENDINGS.into_iter().find_map(|ending| stem.strip_suffix(ending)).unwrap_or(stem)
}

/// The number at the end of a worker name: `node0_3` is 3. It may be a rank or a process id.
pub(crate) fn trailing_number(worker: &str) -> Option<i32> {
    let digits = worker.len() - worker.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    worker[worker.len() - digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_from_file_name_reads_common_patterns() {
        assert_eq!(rank_from_file_name("rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"), Some(34));
        assert_eq!(rank_from_file_name("sub/rank0_iter16.json"), Some(0));
        assert_eq!(rank_from_file_name("sampled_rank-1.json.gz"), Some(1));
        assert_eq!(rank_from_file_name("rank_not_found.json"), None);
        assert_eq!(rank_from_file_name("frank.json"), None);
    }

    #[test]
    fn rank_from_file_name_reads_marks_of_determined() {
        let marked = |rank: i32| {
            [
                format!("host_1234#{rank}.1619499959628.pt.trace.json"),
                format!("host_1234#{rank}.1619499959628.pt.trace.json.gz"),
                format!("worker0#{rank}.pt.trace.json"),
                format!("2022_05_13_15_25_41/ip-172-31-8-212#{rank}.input_pipeline.pb"),
                format!("a/b/host_7#{rank}.trace.json.gz"),
                format!("rank9#{rank}.json"),
            ]
        };
        for rank in [0, 3] {
            for name in marked(rank) {
                assert_eq!(rank_from_file_name(&name), Some(rank), "{name}");
            }
        }
        assert_eq!(rank_from_file_name("events.out.tfevents.123.host"), None);
        assert_eq!(rank_from_file_name("a#3/host.json"), None);
        assert_eq!(rank_from_file_name("issue#12"), None);
        assert_eq!(rank_from_file_name("a#b3.json"), None);
        assert_eq!(rank_from_file_name("a#.json"), None);
        assert_eq!(rank_from_file_name("a#99999999999.json"), None);
    }

    #[test]
    fn worker_name_strips_time_and_suffixes() {
        assert_eq!(worker_name("worker0.1623143089861.pt.trace.json.gz"), "worker0");
        assert_eq!(worker_name("node0_3.17952.pt.trace.json"), "node0_3");
        assert_eq!(worker_name("node0_3.17952.pt.trace.pftrace"), "node0_3");
        assert_eq!(worker_name("rank3_cycle12.pt.trace.json.gz"), "rank3");
        assert_eq!(worker_name("motor_cycle.pt.trace.json"), "motor_cycle");
        assert_eq!(worker_name("eager_trace.json"), "eager_trace.json");
        assert_eq!(recording_name("a/x.pt.trace.json.gz"), recording_name("a/x.pt.trace.pftrace"));
        assert_ne!(recording_name("a/x.json"), recording_name("b/x.pftrace"));
        assert_eq!(trailing_number("node0_3"), Some(3));
        assert_eq!(trailing_number("host"), None);
    }
}
