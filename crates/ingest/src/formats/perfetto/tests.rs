//! Traces that the tests write field by field, valid and damaged.

mod limits;
mod rocprof;

use std::io::Write as _;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use trace_model::{Dataset, Warning};

/// A message under construction.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn new() -> Self {
        Self::default()
    }

    fn varint(mut self, field: u64, value: u64) -> Self {
        push_varint(&mut self.0, field << 3);
        push_varint(&mut self.0, value);
        self
    }

    fn fixed64(mut self, field: u64, value: u64) -> Self {
        push_varint(&mut self.0, field << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: impl AsRef<[u8]>) -> Self {
        push_varint(&mut self.0, field << 3 | 2);
        push_varint(&mut self.0, bytes.as_ref().len() as u64);
        self.0.extend(bytes.as_ref());
        self
    }

    fn message(self, field: u64, message: Self) -> Self {
        self.bytes(field, message.0)
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Returns the bytes of a trace of these packets.
fn trace(packets: &[Message]) -> Vec<u8> {
    packets.iter().fold(Message::new(), |trace, packet| trace.message(1, packet.clone())).0
}

// Field numbers of packets.
const TIMESTAMP: u64 = 8;
const SEQUENCE: u64 = 10;
const TRACK_EVENT: u64 = 11;
const INTERNED: u64 = 12;
const FLAGS: u64 = 13;
const CLOCK: u64 = 58;

fn packet(ts_ns: u64) -> Message {
    Message::new().varint(TIMESTAMP, ts_ns).varint(SEQUENCE, 1)
}

fn annotation(name: &str, value: u64) -> Message {
    Message::new().bytes(10, name).varint(4, value)
}

fn begin(ts_ns: u64, track: u64, category: &str, name: &str, args: &[Message]) -> Message {
    let event = Message::new().varint(9, 1).varint(11, track).bytes(22, category).bytes(23, name);
    let event = args.iter().fold(event, |event, arg| event.message(4, arg.clone()));
    packet(ts_ns).message(TRACK_EVENT, event)
}

fn end(ts_ns: u64, track: u64) -> Message {
    packet(ts_ns).message(TRACK_EVENT, Message::new().varint(9, 2).varint(11, track))
}

/// Returns a packet that declares a track for thread 11 of process 10.
fn thread_track(uuid: u64) -> Message {
    let thread = Message::new().varint(1, 10).varint(2, 11).bytes(5, "main");
    Message::new().message(60, Message::new().varint(1, uuid).message(4, thread))
}

fn read(bytes: &[u8]) -> Result<Dataset, crate::Error> {
    read_with(bytes, &crate::Options::default())
}

fn read_with(bytes: &[u8], options: &crate::Options) -> Result<Dataset, crate::Error> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("trace.pftrace"), bytes).unwrap();
    crate::read_run(folder.path(), options, &crate::NoProgress)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Returns a packet that contains compressed packets.
fn bundle(packets: &[Message]) -> Message {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&trace(packets)).unwrap();
    Message::new().bytes(50, encoder.finish().unwrap())
}

fn codes(dataset: &Dataset) -> Vec<(&str, u64)> {
    dataset.warnings.iter().map(|Warning { code, count, .. }| (&**code, *count)).collect()
}

fn texts(dataset: &Dataset, table: &str, column: &str) -> Vec<String> {
    let batches = dataset.tables.get(table).iter();
    let column = |batch: &trace_model::RecordBatch| {
        let array = batch.column_by_name(column).unwrap();
        let dictionary = array.as_dictionary::<Int32Type>();
        let values = dictionary.values().as_string::<i32>();
        let text = |key: Option<usize>| key.map_or("-".to_owned(), |key| values.value(key).into());
        (0..dictionary.keys().len()).map(|row| text(dictionary.key(row))).collect::<Vec<_>>()
    };
    batches.flat_map(column).collect()
}

fn ints(dataset: &Dataset, table: &str, column: &str) -> Vec<i64> {
    let batches = dataset.tables.get(table).iter();
    let values = |batch: &trace_model::RecordBatch| {
        batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().values().to_vec()
    };
    batches.flat_map(values).collect()
}

/// Returns two nested operators, the launch of a kernel, and the kernel.
fn program() -> Vec<Message> {
    vec![
        thread_track(5),
        begin(1000, 5, "cpu_op", "aten::linear", &[]),
        begin(2000, 5, "cpu_op", "aten::mm", &[annotation("External id", 7)]),
        begin(3000, 5, "cuda_runtime", "cudaLaunchKernel", &[annotation("correlation", 4)]),
        end(4000, 5),
        end(5000, 5),
        end(6000, 5),
        render_stage(7000, 500),
    ]
}

/// Returns a kernel with interned names on stream 7 of GPU 1.
fn render_stage(ts_ns: u64, dur_ns: u64) -> Message {
    let text = |iid, text: &str| Message::new().varint(1, iid).bytes(2, text);
    let interned = Message::new()
        .message(24, text(1, "Kernel").varint(4, 2))
        .message(24, text(100, "[07] stream 7"))
        .message(1000, Message::new().varint(1, 3).bytes(3, "ampere_sgemm"))
        .message(1001, text(1, "registers_per_thread"));
    let dim = |x| Message::new().varint(1, x).varint(2, 1).varint(3, 1);
    let registers = Message::new().varint(1, 1).varint(4, 32);
    let launch = Message::new().message(1, dim(64)).message(2, dim(128)).message(3, registers);
    let extra = |name: &str, value: &str| Message::new().bytes(1, name).bytes(2, value);
    let stage = Message::new()
        .varint(1, 9)
        .varint(2, dur_ns)
        .varint(11, 1)
        .varint(13, 100)
        .varint(14, 1)
        .varint(19, 3)
        .message(21, launch)
        .message(6, extra("stream id", "7"))
        .message(6, extra("correlation", "4"))
        .message(6, extra("arch", "sm_90"));
    packet(ts_ns).varint(FLAGS, 1).message(INTERNED, interned).message(53, stage)
}

#[test]
fn slices_nest_and_kernels_find_their_launch() {
    let dataset = read(&trace(&program())).unwrap();
    assert_eq!(codes(&dataset), []);
    assert_eq!(texts(&dataset, "cpu_ops", "name"), ["aten::linear", "aten::mm"]);
    assert_eq!(ints(&dataset, "cpu_ops", "dur_ns"), [5000, 3000]);
    assert_eq!(ints(&dataset, "cpu_ops", "self_dur_ns"), [2000, 2000]);
    assert_eq!(ints(&dataset, "cpu_ops", "external_id")[1], 7);
    assert_eq!(texts(&dataset, "kernels", "name"), ["ampere_sgemm"]);
    assert_eq!(texts(&dataset, "kernels", "op_name"), ["aten::mm"]);
    assert_eq!(texts(&dataset, "kernels", "grid"), ["[64, 1, 1]"]);
    assert_eq!(ints(&dataset, "kernels", "dur_ns"), [500]);
    assert_eq!(ints(&dataset, "kernels", "blocks"), [64]);
    assert_eq!(texts(&dataset, "devices", "name"), ["sm_90"]);
    assert_eq!(dataset.run.sources[0].format, "perfetto");
    let held = texts(&dataset, "capabilities", "capability");
    assert!(held.contains(&"launch_links".to_owned()), "{held:?}");
    for missing in ["device_properties", "memory_events", "forward_backward_links"] {
        assert!(!held.contains(&missing.to_owned()), "{missing}");
    }
}

#[test]
fn compressed_packets_and_files_read_the_same() {
    let whole = bundle(&program());
    let bundled = trace(std::slice::from_ref(&whole));
    // Each packet is in a separate bundle, with plain packets between some bundles.
    let one_by_one = program()
        .into_iter()
        .enumerate()
        .map(|(at, packet)| if at % 3 == 0 { packet } else { bundle(&[packet]) });
    let one_by_one = trace(&one_by_one.collect::<Vec<_>>());
    for bytes in [gzip(&trace(&program())), gzip(&bundled), bundled, one_by_one] {
        let dataset = read(&bytes).unwrap();
        assert_eq!(codes(&dataset), []);
        assert_eq!(ints(&dataset, "cpu_ops", "dur_ns"), [5000, 3000]);
        assert_eq!(dataset.tables.rows("kernels"), 1);
    }
    // One file is cut inside the compressed bytes, the other has packets that are compressed twice.
    let mut cut = whole.0[whole.0.len() - 60..].to_vec();
    cut.truncate(30);
    let damaged = trace(&[thread_track(5), Message::new().bytes(50, cut)]);
    assert!(read(&damaged).is_err(), "no events are left");
    let twice = bundle(&[whole]);
    let packets = [program(), vec![twice]].concat();
    assert_eq!(codes(&read(&trace(&packets)).unwrap()), [("malformed-packet", 1)]);
}

#[test]
fn at_one_moment_an_end_comes_after_what_stands_before_it_in_the_file() {
    // PyTorch writes all begins first. Perfetto nests an operator that begins when the previous operator ends inside that operator.
    let packets = [
        thread_track(5),
        begin(0, 5, "cpu_op", "first", &[]),
        begin(10, 5, "cpu_op", "second", &[]),
        end(10, 5),
        end(20, 5),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(ints(&dataset, "cpu_ops", "dur_ns"), [20, 0]);
}

#[test]
fn ends_in_the_order_of_their_begins_belong_to_these_begins() {
    // PyTorch writes a range that begins inside one function and ends inside another, and an operator that begins when another ends.
    let slices = [
        (0, 90, "python_function", "torch/profiler/profiler.py(821): step"),
        (10, 80, "python_function", "torch/autograd/profiler.py(751): __enter__"),
        (50, 340, "user_annotation", "ProfilerStep#6"),
        (100, 150, "cpu_op", "aten::empty_strided"),
        (150, 200, "cpu_op", "aten::copy_"),
        (300, 400, "python_function", "torch/autograd/profiler.py(757): __exit__"),
    ];
    let mut packets = vec![thread_track(5)];
    packets.extend(slices.map(|(ts_ns, _, category, name)| begin(ts_ns, 5, category, name, &[])));
    packets.extend(slices.map(|(_, end_ns, ..)| end(end_ns, 5)));
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), []);
    assert_eq!(ints(&dataset, "annotations", "dur_ns"), [290]);
    assert_eq!(ints(&dataset, "cpu_ops", "dur_ns"), [50, 50]);
    assert_eq!(ints(&dataset, "python_frames", "dur_ns"), [90, 70, 100]);
    assert_eq!(ints(&dataset, "steps", "dur_ns"), [290]);
}

#[test]
fn slices_without_an_end_and_ends_without_a_slice_are_counted() {
    let packets = [
        thread_track(5),
        end(5, 5),
        begin(10, 5, "cpu_op", "whole", &[]),
        end(20, 5),
        begin(30, 5, "cpu_op", "open", &[]),
        begin(40, 6, "cpu_op", "elsewhere", &[]),
        end(50, 6),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    let expected = [("unknown-track", 1), ("unmatched-begin-end", 1), ("unmatched-end", 1)];
    let mut found = codes(&dataset);
    found.sort_unstable();
    assert_eq!(found, expected);
    assert_eq!(texts(&dataset, "cpu_ops", "name"), ["whole", "elsewhere"]);
    assert_eq!(texts(&dataset, "unpaired_events", "name"), ["open"]);
}

#[test]
fn arguments_become_json() {
    let list = |values: &[Message]| {
        values.iter().fold(Message::new(), |list, value| list.message(12, value.clone()))
    };
    let number = |value| Message::new().varint(4, value);
    let shapes = list(&[list(&[number(2), number(3)]), Message::new()]);
    let shapes =
        Message(Message::new().bytes(10, "Input Dims").0.into_iter().chain(shapes.0).collect());
    let parent = Message::new().bytes(10, "Python parent id").bytes(6, "null");
    let quoted = Message::new().bytes(10, "a \"key\"").bytes(6, "a\nb");
    let share = Message::new().bytes(10, "share").fixed64(5, 0.5_f64.to_bits());
    let args = [shapes, parent, quoted, share];
    let mut deep = number(1);
    for _ in 0..100 {
        deep = Message::new().message(12, deep);
    }
    let deep = Message(Message::new().bytes(10, "deep").0.into_iter().chain(deep.0).collect());
    let packets = [
        thread_track(5),
        begin(0, 5, "cpu_op", "aten::mm", &args),
        end(1, 5),
        begin(2, 5, "cpu_op", "aten::add", &[deep]),
        end(3, 5),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), [("deep-argument", 1)]);
    assert_eq!(texts(&dataset, "cpu_ops", "input_dims")[0], "[[2, 3], []]");
    let args = &dataset.tables.get("cpu_ops")[0];
    let args = args.column_by_name("args").unwrap().as_string::<i64>();
    let parsed: serde_json::Value = serde_json::from_str(args.value(0)).unwrap();
    assert_eq!(parsed["a \"key\""], "a\nb");
    assert_eq!(parsed["share"], 0.5);
    serde_json::from_str::<serde_json::Value>(args.value(1)).unwrap();
}

#[test]
fn names_that_were_lost_are_counted() {
    let event = |name, category| {
        Message::new().varint(9, 1).varint(11, 5).varint(10, name).varint(3, category)
    };
    let interned = |iid, name: &str| {
        let text = Message::new().varint(1, iid).bytes(2, name);
        packet(0).varint(FLAGS, 1).message(INTERNED, Message::new().message(2, text))
    };
    let begin = |ts_ns, name| packet(ts_ns).varint(FLAGS, 2).message(TRACK_EVENT, event(name, 1));
    let packets = [
        thread_track(5),
        begin(0, 1),
        interned(1, "one"),
        begin(10, 1),
        end(20, 5),
        // From here on, the number refers to another name.
        interned(1, "two"),
        begin(30, 1),
        end(40, 5),
        begin(50, 9),
        end(60, 5),
        packet(65).varint(42, 1),
        begin(70, 1),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(texts(&dataset, "spans", "name"), ["one", "two", "-"]);
    // Missing declarations are three categories and a name. Lost packets are the first event, the loss and the event after it.
    assert_eq!(codes(&dataset), [("lost-packets", 3), ("missing-declaration", 4)]);
}

#[test]
fn times_are_put_on_the_clock_of_the_trace() {
    let reading = |clock, timestamp| Message::new().varint(1, clock).varint(2, timestamp);
    let snapshot = Message::new()
        .message(1, reading(6, 1_000_000))
        .message(1, reading(1, 1_700_000_000_001_000_000))
        .message(1, reading(64, 10).varint(3, 1).varint(4, 1000));
    let with_clock = |message: Message, clock| message.varint(CLOCK, clock);
    let packets = [
        thread_track(5),
        Message::new().varint(SEQUENCE, 1).message(6, snapshot),
        with_clock(begin(5, 5, "cpu_op", "one", &[]), 64),
        with_clock(end(2, 5), 64),
        with_clock(begin(5, 5, "cpu_op", "lost", &[]), 99),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), [("unknown-clock", 1)]);
    assert_eq!(ints(&dataset, "cpu_ops", "dur_ns"), [2000]);
    let absolute =
        ints(&dataset, "cpu_ops", "ts_ns")[0] + ints(&dataset, "ranks", "base_time_ns")[0];
    assert_eq!(absolute, 1_700_000_000_001_005_000);
}

#[test]
fn packets_without_an_event_advance_a_clock_of_differences() {
    let reading = |clock, timestamp| Message::new().varint(1, clock).varint(2, timestamp);
    let incremental = reading(64, 1000).varint(3, 1);
    let snapshot = Message::new().message(1, reading(6, 1000)).message(1, incremental);
    // Programs with Perfetto's SDK use a clock of differences by default.
    let defaults = Message::new().varint(58, 64);
    let start = Message::new().varint(SEQUENCE, 1).varint(FLAGS, 1);
    // As in Perfetto, the time of the snapshot packet itself does not count.
    let start = start.varint(TIMESTAMP, 100).message(6, snapshot).message(59, defaults);
    let descriptor = thread_track(5).varint(TIMESTAMP, 5000).varint(SEQUENCE, 1);
    // The interned data of this packet cannot be read, but its time can.
    let damaged = packet(20).bytes(INTERNED, [0x0a, 0x7f]);
    let packets = [
        thread_track(5),
        start,
        begin(10, 5, "cpu_op", "first", &[]),
        descriptor,
        end(0, 5),
        begin(0, 5, "cpu_op", "second", &[]),
        damaged,
        end(1, 5),
        // After this loss, packets that refer to interned data are not read, and neither are their times.
        packet(0).varint(42, 1),
        packet(7).varint(FLAGS, 2),
        begin(1, 5, "cpu_op", "third", &[]),
        end(2, 5),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), [("malformed-packet", 1), ("lost-packets", 1)]);
    assert_eq!(ints(&dataset, "cpu_ops", "dur_ns"), [5000, 21, 2]);
    let starts = ints(&dataset, "cpu_ops", "ts_ns");
    assert_eq!((starts[1] - starts[0], starts[2] - starts[0]), (5000, 5022));
}

#[test]
fn counters_and_instants_are_read() {
    let counter =
        Message::new().varint(1, 8).bytes(2, "queue").message(8, Message::new().varint(4, 10));
    let sample = Message::new().varint(9, 4).varint(11, 8).varint(30, 3);
    let instant = Message::new().varint(9, 3).varint(11, 5).bytes(23, "mark");
    let spec = Message::new().varint(1, 0).bytes(2, "Power (W)");
    let counters =
        Message::new().varint(1, 1).message(2, Message::new().message(1, spec)).varint(3, 2);
    let value = Message::new().varint(1, 0).fixed64(3, 350.5_f64.to_bits());
    let gpu = Message::new().varint(4, 1).message(2, value);
    let packets = [
        thread_track(5),
        begin(0, 5, "cpu_op", "aten::mm", &[]),
        end(5, 5),
        Message::new().message(60, counter),
        packet(10).message(TRACK_EVENT, sample),
        packet(20).message(TRACK_EVENT, instant),
        packet(30)
            .varint(FLAGS, 1)
            .message(INTERNED, Message::new().message(47, counters))
            .message(52, gpu),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), []);
    assert_eq!(texts(&dataset, "counters", "name"), ["queue", "Power (W)"]);
    assert_eq!(texts(&dataset, "counters", "device"), ["-", "GPU 2"]);
    assert_eq!(texts(&dataset, "instants", "name"), ["mark"]);
    let values = dataset.tables.get("counters")[0].column_by_name("value").unwrap();
    let values = values.as_primitive::<arrow_array::types::Float64Type>();
    assert_eq!(values.values().to_vec(), [30.0, 350.5]);
}

#[test]
fn nodes_of_graphs_get_arrows_from_those_they_waited_for() {
    let stage = |ts_ns, number, waits: &[u64]| {
        let message = Message::new()
            .varint(1, number)
            .varint(2, 10)
            .bytes(17, "k")
            .message(21, Message::new());
        let message = waits.iter().fold(message, |message, &wait| message.varint(18, wait));
        packet(ts_ns).message(53, message)
    };
    let packets = [stage(0, 1, &[]), stage(10, 2, &[1]), stage(30, 3, &[1, 2, 99])];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), [("missing-declaration", 1)]);
    assert_eq!(dataset.tables.rows("kernels"), 3);
    assert_eq!(texts(&dataset, "flows", "phase"), ["s", "f", "s", "f", "s", "f"]);
    assert_eq!(ints(&dataset, "flows", "ts_ns"), [10, 10, 10, 30, 20, 30]);
    let ids = ints(&dataset, "flows", "id");
    assert_eq!((ids[0], ids[5]), (1 << 40, (1 << 40) + 2));
}

#[test]
fn legacy_events_are_those_of_chrome_traces() {
    let legacy = |phase: u8| Message::new().varint(2, phase.into());
    let event = |legacy: Message, name: &str| {
        Message::new().varint(11, 5).bytes(22, "cpu_op").bytes(23, name).message(6, legacy)
    };
    let packets = [
        thread_track(5),
        packet(0).message(TRACK_EVENT, event(legacy(b'X').varint(3, 7), "complete")),
        packet(10_000).message(TRACK_EVENT, event(legacy(b'B'), "begun")),
        packet(12_000).message(TRACK_EVENT, event(legacy(b'E'), "")),
        packet(13_000).message(TRACK_EVENT, event(legacy(b'X'), "without duration")),
        packet(14_000).message(TRACK_EVENT, event(legacy(b'?'), "unknown")),
    ];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(texts(&dataset, "cpu_ops", "name"), ["complete", "begun"]);
    assert_eq!(ints(&dataset, "cpu_ops", "dur_ns"), [7000, 2000]);
    assert_eq!(codes(&dataset), [("missing-duration", 1), ("unknown-phase", 1)]);
}

#[test]
fn truncation_keeps_whole_packets_and_never_panics() {
    let packets = program();
    let whole = trace(&packets);
    let ends: Vec<usize> = (0..packets.len()).map(|count| trace(&packets[..count]).len()).collect();
    for length in 0..whole.len() {
        if let Ok(dataset) = read(&whole[..length]) {
            // A trace may end between packets.
            assert!(
                ends.contains(&length) || !dataset.warnings.is_empty(),
                "cut at {length} went unnoticed"
            );
            assert!(dataset.tables.rows("cpu_ops") <= 2);
        }
    }
    // One packet is longer than the file, the other is longer than the limit.
    for length in [&[0xff, 0x01][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]] {
        let mut bytes = whole.clone();
        bytes.push(0x0a);
        bytes.extend(length);
        let dataset = read(&bytes).unwrap();
        assert_eq!(codes(&dataset), [("truncated-packets", 1)]);
        assert_eq!(dataset.tables.rows("cpu_ops"), 2);
    }
}

#[test]
fn damaged_bytes_never_panic() {
    let whole = trace(&program());
    for at in 0..whole.len() {
        for value in [0x00, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            // The result does not matter.
            let _ = read(&bytes);
        }
    }
}

#[test]
fn json_is_read_where_a_run_holds_both() {
    let json = r#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 10,
        "tid": 11, "ts": 1, "dur": 5}]}"#;
    // The files have the same name, or two names that state the same rank.
    for name in ["rank0.json", "rank0.steps.json"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), json).unwrap();
        std::fs::write(folder.path().join("rank0.pftrace"), trace(&program())).unwrap();
        let dataset =
            crate::read_run(folder.path(), &crate::Options::default(), &crate::NoProgress).unwrap();
        assert_eq!(codes(&dataset), [("second-copy", 1)], "{name}");
        let Warning { file, message, .. } = &dataset.warnings[0];
        assert!(file == "rank0.pftrace" || message.contains("rank0.pftrace"), "{message}");
        assert_eq!(dataset.run.sources.len(), 1);
        assert_eq!(dataset.run.sources[0].format, "kineto");
    }
}
