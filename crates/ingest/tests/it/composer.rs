//! Composer's profiles: pairs, ranks, clocks, joins and system metrics, on files written here.

use crate::support::{column, read_files, read_text, warnings};

/// A moment of the recording, in microseconds since 1970.
const NOW_US: i64 = 1_795_256_055_000_000;
/// Kineto's base for that moment.
const BASE_US: i64 = 1_790_857_026_000_000;

/// One file under construction: events in the order in which they are written.
#[derive(Clone)]
pub(crate) struct File {
    rank: i32,
    process: i64,
    events: Vec<String>,
}

impl File {
    pub(crate) fn new(rank: i32, process: i64) -> Self {
        Self { rank, process, events: Vec::new() }
    }

    fn event(mut self, phase: &str, name: &str, at_us: i64, rest: &str) -> Self {
        let Self { rank, process, .. } = self;
        let ts = NOW_US + at_us;
        self.events.push(format!(
            r#"{{"name": "{name}", "cat": "", "ph": "{phase}", "ts": {ts}, "pid": {rank}, "tid": {process}{rest}}}"#
        ));
        self
    }

    fn half(self, phase: &str, name: &str, at_us: i64, batch: i64) -> Self {
        self.event(phase, name, at_us, &format!(r#", "args": {{"epoch": 0, "batch": {batch}}}"#))
    }

    fn span(self, name: &str, begin_us: i64, end_us: i64, batch: i64) -> Self {
        self.half("B", name, begin_us, batch).half("E", name, end_us, batch)
    }

    /// Loader from `at_us` for `loader_us`, then the batch.
    pub(crate) fn batch(self, batch: i64, at_us: i64, loader_us: i64, batch_us: i64) -> Self {
        let begin = at_us + loader_us;
        self.span("event/dataloader", at_us, begin, batch)
            .half("B", "event/batch", begin, batch)
            .span("event/forward", begin + 1, begin + 5, batch)
            .half("E", "event/batch", begin + batch_us, batch + 1)
    }

    fn sample(self, name: &str, at_us: i64, values: &str) -> Self {
        self.event("C", name, at_us, &format!(r#", "args": {{{values}}}"#))
    }

    pub(crate) fn described(self, at_us: i64, sync_us: i64) -> Self {
        let rank = self.rank;
        let title = format!(r#", "args": {{"name": "Rank {rank} training loop process"}}"#);
        let value = |value: i64| format!(r#", "args": {{"value": {value}}}"#);
        self.event("M", "process_name", at_us, &title)
            .event("M", "global_rank", at_us, &value(i64::from(rank)))
            .event("M", "clock_sync_timestamp_us", at_us, &value(NOW_US + sync_us))
    }

    fn raw(mut self, event: String) -> Self {
        self.events.push(event);
        self
    }

    pub(crate) fn text(&self) -> String {
        format!("[\n{}\n]\n", self.events.join(",\n"))
    }
}

/// A complete event of PyTorch's, as a copy of it is in a Composer file.
fn torch_copy(rank: i32, tid: i64, name: &str, ts: &str, dur: i64) -> String {
    let category = if name.starts_with("aten") { "cpu_op" } else { "user_annotation" };
    format!(
        r#"{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": {rank}, "tid": {tid}, "ts": {ts}, "dur": {dur}}}"#
    )
}

fn torch_file(process: i64, base_us: i64, events: &[String]) -> String {
    let base = base_us * 1000;
    format!(
        r#"{{"schemaVersion": 1, "global_rank": 0, "baseTimeNanoseconds": {base}, "traceEvents": [{}], "with_stack": 1}}"#,
        events.join(",").replace(r#""pid": 0"#, &format!(r#""pid": {process}"#))
    )
}

#[test]
fn markers_ends_without_begins_are_unpaired() {
    let text = File::new(0, 71)
        .half("B", "event/epoch", 0, 0)
        .half("E", "event/dataloader", 5, 0)
        .half("E", "event/batch", 9, 1)
        .described(10, 10)
        .batch(1, 10, 20, 30)
        .half("E", "event/epoch", 70, 2)
        .half("B", "event/fit", 71, 2)
        .text();
    let dataset = read_text(&text).unwrap();
    assert_eq!(
        column(&dataset, "annotations", "name"),
        ["event/epoch", "event/dataloader", "event/batch", "event/forward"]
    );
    assert_eq!(
        column(&dataset, "annotations", "dur_ns"),
        ["70000", "20000", "30000", "4000"],
        "the epoch lasts, though other ends came first"
    );
    assert_eq!(column(&dataset, "annotations", "depth"), ["0", "1", "1", "2"]);
    let mut begin_end_events = column(&dataset, "unpaired_events", "name");
    begin_end_events.sort();
    assert_eq!(begin_end_events, ["event/batch", "event/dataloader", "event/fit"]);
    assert_eq!(column(&dataset, "steps", "source"), ["composer"]);
    assert_eq!(column(&dataset, "steps", "step"), ["1"]);
    assert_eq!(column(&dataset, "steps", "dur_ns"), ["50000"]);
    assert_eq!(column(&dataset, "ranks", "vendor"), ["-"], "nothing is known of devices");
    assert_eq!(column(&dataset, "threads", "process_name"), ["Rank 0 training loop process"]);
    assert_eq!(warnings(&dataset), []);
}

#[test]
fn markers_pair_across_files_of_a_process() {
    let first =
        File::new(0, 71).described(0, 0).batch(0, 0, 10, 10).half("B", "event/epoch", 30, 1);
    let second = File::new(0, 71).half("E", "event/epoch", 90, 2).batch(7, 100, 10, 10);
    let files = [("b.json", first.text()), ("a.json", second.text())];
    let files: Vec<(&str, &[u8])> = files.iter().map(|(n, t)| (*n, t.as_bytes())).collect();
    let dataset = read_files(&files).unwrap();
    let names = column(&dataset, "annotations", "name");
    let epoch = names.iter().position(|name| name == "event/epoch").unwrap();
    assert_eq!(column(&dataset, "annotations", "dur_ns")[epoch], "60000");
    assert_eq!(column(&dataset, "steps", "step"), ["0", "7"]);
    assert_eq!(dataset.tables.rows("unpaired_events"), 0);
    let sources: Vec<&str> = dataset.run.sources.iter().map(|s| s.file.as_str()).collect();
    assert_eq!(sources, ["b.json", "a.json"], "in order of time");
    assert!(dataset.run.sources.iter().all(|source| source.format == "composer"));
}

#[test]
fn steps_need_a_batch_after_the_loader_call() {
    let text = File::new(0, 71)
        .described(0, 0)
        .batch(0, 0, 10, 10)
        .span("event/dataloader", 30, 35, 1)
        .batch(1, 50, 10, 10)
        .text();
    let dataset = read_text(&text).unwrap();
    assert_eq!(column(&dataset, "steps", "ts_ns"), ["0", "50000"]);
    assert_eq!(column(&dataset, "steps", "dur_ns"), ["20000", "20000"]);
}

#[test]
fn steps_start_at_the_marker_around_the_batch() {
    // Releases 0.7 and 0.8: the generator is suspended inside the marker.
    let text = File::new(0, 71)
        .described(0, 0)
        .half("B", "dataloader/train", 0, 0)
        .half("B", "event/batch", 40, 0)
        .half("E", "event/batch", 60, 1)
        .half("E", "dataloader/train", 61, 1)
        .text();
    let dataset = read_text(&text).unwrap();
    assert_eq!(column(&dataset, "steps", "ts_ns"), ["0"]);
    assert_eq!(column(&dataset, "steps", "dur_ns"), ["60000"]);
}

#[test]
fn counters_of_composer_have_units() {
    let text = File::new(0, 71)
        .described(0, 0)
        .sample("cpu", 1, r#""cpu_percent": 33.5"#)
        .sample("memory/virtual", 2, r#""used_gb": 2.0, "available_gb": 4.5"#)
        .sample("memory/cuda/current_allocated_mem", 3, r#""current_allocated_mem": 0.25"#)
        .sample("memory/cuda/alloc_retries", 3, r#""alloc_retries": 3"#)
        .sample("disk/vda/write_bytes", 4, r#""field_name": 4096"#)
        .sample("network/lo/kb_sent", 5, r#""kb_sent": 1.5"#)
        .sample("user/queue", 6, r#""depth": 3, "fill": 0.5"#)
        .text();
    let dataset = read_text(&text).unwrap();
    let column = |name| column(&dataset, "counters", name);
    assert_eq!(
        column("metric"),
        [
            "cpu_util",
            "host_memory_used",
            "host_memory_free",
            "gpu_memory_current_allocated",
            "gpu_alloc_retries",
            "disk_write",
            "net_sent",
            "-",
            "-"
        ]
    );
    assert_eq!(
        column("unit"),
        ["percent", "bytes", "bytes", "bytes", "count", "bytes", "bytes", "-", "-"]
    );
    assert_eq!(
        column("value"),
        ["33.5", "1024", "2304", "250000000", "3", "4096", "12", "3", "0.5"]
    );
    assert_eq!(
        column("is_cumulative"),
        ["false", "false", "false", "false", "false", "true", "true", "false", "false"]
    );
    assert_eq!(column("device")[5..7], ["vda", "lo"]);
}

#[test]
fn composer_copied_trace_is_put_on_the_clock_of_its_file() {
    let inside = NOW_US - BASE_US + 12;
    let text = File::new(0, 71)
        .described(0, 0)
        .batch(0, 0, 10, 30)
        .raw(torch_copy(0, 71, "aten::mm", &format!("{inside}.250"), 2))
        .raw(torch_copy(0, 99, "aten::add", &format!("{inside}.500"), 2))
        .text();
    let dataset = read_text(&text).unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "ts_ns"), ["12250", "12500"]);
    assert_eq!(column(&dataset, "cpu_ops", "step"), ["0", "0"]);
    assert_ne!(column(&dataset, "cpu_ops", "parent")[0], "-", "inside event/forward");
    assert_eq!(column(&dataset, "ranks", "vendor"), ["cpu"]);
    assert_eq!(warnings(&dataset), []);
}

#[test]
fn composer_original_trace_replaces_its_copy() {
    let inside = NOW_US - BASE_US + 12;
    let op = |pid| torch_copy(pid, 71, "aten::mm", &format!("{inside}.250"), 2);
    let composer = File::new(0, 71).described(0, 0).batch(0, 0, 10, 30).raw(op(0)).text();
    let torch = torch_file(71, BASE_US, &[op(0)]);
    let dataset = read_files(&[
        ("torch_traces/rank0.7.pt.trace.json", torch.as_bytes()),
        ("traces/ep0-ba7-rank0.json", composer.as_bytes()),
        ("traces/merged_trace.json", composer.as_bytes()),
    ])
    .unwrap();
    assert_eq!(column(&dataset, "cpu_ops", "ts_ns"), ["12250"]);
    assert_eq!(column(&dataset, "threads", "pid"), ["71"], "one lane for both");
    assert_eq!(column(&dataset, "threads", "process_name"), ["Rank 0 training loop process"]);
    assert_ne!(column(&dataset, "cpu_ops", "parent")[0], "-");
    assert_eq!(warnings(&dataset), [("duplicate-rank", 1)]);
    let formats: Vec<&str> = dataset.run.sources.iter().map(|s| s.format.as_ref()).collect();
    assert_eq!(formats, ["kineto", "composer"]);
    let shifts: Vec<i64> = dataset.run.sources.iter().map(|s| s.shift_ns).collect();
    assert_eq!(shifts, [(BASE_US - NOW_US) * 1000, -NOW_US * 1000]);
}

#[test]
fn composer_joins_host_cycles_and_reads_one_device_cycle() {
    let composer = File::new(0, 71).described(0, 0).batch(0, 0, 10, 30).batch(5, 500, 10, 30);
    let step = |number: i64, at: i64| {
        torch_copy(
            0,
            71,
            &format!("ProfilerStep#{number}"),
            &(NOW_US - BASE_US + at).to_string(),
            40,
        )
    };
    let kernel = |at: i64| {
        let ts = NOW_US - BASE_US + at;
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {ts}, "dur": 3, "args": {{"device": 0, "stream": 7, "correlation": {at}}}}}"#
        )
    };
    let read = |first: Vec<String>, second: Vec<String>| {
        let (first, second) = (torch_file(71, BASE_US, &first), torch_file(71, BASE_US, &second));
        read_files(&[
            ("c.json", composer.text().as_bytes()),
            ("rank0.1.pt.trace.json", first.as_bytes()),
            ("rank0.2.pt.trace.json", second.as_bytes()),
        ])
        .unwrap()
    };
    let host = read(vec![step(1, 0)], vec![step(6, 500)]);
    assert_eq!(column(&host, "steps", "step"), ["1", "6"]);
    assert_eq!(warnings(&host), []);
    let device = read(vec![step(1, 0), kernel(5)], vec![step(6, 500), kernel(505)]);
    assert_eq!(column(&device, "steps", "step"), ["6"]);
    assert_eq!(warnings(&device), [("several-cycles", 1)]);
    assert_eq!(column(&device, "annotations", "name").len(), 7, "Composer's of both");
}

#[test]
fn composer_ranks_follow_threads_in_live_merges() {
    let mine = File::new(0, 71).described(0, 0).batch(0, 0, 10, 30);
    let theirs = File::new(1, 72).described(0, 0).batch(0, 5, 10, 30);
    let merged = |theirs: &File| {
        let events: Vec<String> = mine.events.iter().chain(&theirs.events).cloned().collect();
        format!("[\n{}\n]", events.join(",\n"))
    };
    let right = read_text(merged(&theirs)).unwrap();
    assert_eq!(column(&right, "steps", "rank"), ["0", "1"]);
    assert_eq!(warnings(&right), []);
    // The second cycle's merge reads the first one's output as if all of it were rank 0.
    let mut lost = theirs.clone();
    for event in &mut lost.events {
        if !event.contains("global_rank") {
            *event = event.replace(r#""pid": 1"#, r#""pid": 0"#);
        }
    }
    let repaired = read_text(merged(&lost)).unwrap();
    assert_eq!(column(&repaired, "steps", "rank"), ["0", "1"]);
    assert_eq!(column(&repaired, "steps", "ts_ns"), ["0", "5000"]);
    assert_eq!(warnings(&repaired), [("repaired-rank", 6)]);
}

#[test]
fn composer_ranks_are_aligned_by_the_common_barrier() {
    let skew = 3_600_000_000;
    let mine = File::new(0, 71).described(0, 100).batch(0, 0, 10, 30).text();
    let theirs = File::new(1, 72).described(skew, skew + 101).batch(0, skew + 5, 10, 30).text();
    let dataset =
        read_files(&[("r0.json", mine.as_bytes()), ("r1.json", theirs.as_bytes())]).unwrap();
    assert_eq!(column(&dataset, "steps", "ts_ns"), ["0", "4000"]);
    assert_eq!(column(&dataset, "ranks", "clock"), ["synchronized", "synchronized"]);
}

#[test]
fn composer_truncated_array_keeps_complete_events() {
    let text = File::new(0, 71).described(0, 0).batch(0, 0, 10, 10).batch(1, 20, 10, 10).text();
    let whole = read_text(&text).unwrap();
    let end = text.rfind("\n]").unwrap();
    for cut in [&text[..end], &format!("{},\n", &text[..end]), &text[..end - 20]] {
        let dataset = read_text(cut).unwrap();
        let missing = usize::from(cut.len() < end);
        let begin_end_events = dataset.tables.rows("unpaired_events");
        let events = dataset.tables.rows("annotations") * 2 + begin_end_events;
        assert_eq!(events, whole.tables.rows("annotations") * 2 - missing);
        assert_eq!(warnings(&dataset), [("truncated-json", 1)]);
    }
}

/// A hostile event costs itself at most: the others stay, and a warning or a row accounts for the event.
#[test]
fn composer_hostile_events_leave_the_others_alone() {
    let text = File::new(0, 71).described(0, 0).batch(0, 0, 10, 10).batch(1, 20, 10, 10).text();
    let whole = read_text(&text).unwrap();
    assert_eq!(warnings(&whole), []);
    let end = text.rfind("\n]").unwrap();
    let deep = "[".repeat(10_000);
    for event in [
        r#"{"name": "event/batch", "ph": "B"}"#.to_owned(),
        r#"{"name": "event/batch", "ph": "E", "ts": "x", "pid": {}, "tid": [1]}"#.to_owned(),
        r#"{"name": "event/batch", "ph": "B", "ts": 9e99, "pid": 0, "tid": 1}"#.to_owned(),
        r#"{"name": "event/batch", "ph": "B", "ts": 1, "pid": -5, "tid": 1}"#.to_owned(),
        format!(r#"{{"name": "cpu", "ph": "C", "ts": 1, "args": {{"cpu_percent": {deep}}}}}"#),
        r#"{"name": "memory/virtual", "ph": "C", "ts": 1, "pid": 99999999999999, "tid": 1, "args": {"used_gb": "NaN", "available_gb": 1e400}}"#.to_owned(),
    ] {
        let hostile = format!("{},\n{event}\n]", &text[..end]);
        let dataset = read_text(&hostile).unwrap();
        let rows = |table: &str| dataset.tables.rows(table);
        let told = format!("{:?}: {:?}", event.chars().take(60).collect::<String>(), warnings(&dataset));
        assert_eq!(rows("annotations"), whole.tables.rows("annotations"), "{told}");
        let added = rows("unpaired_events") + rows("counters");
        assert!(added <= 2 && added + warnings(&dataset).len() > 0, "{added} rows, {told}");
    }
}
