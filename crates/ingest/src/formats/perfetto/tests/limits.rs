//! Limits on hostile files.

use super::{
    FLAGS, INTERNED, Message, SEQUENCE, TIMESTAMP, TRACK_EVENT, begin, bundle, codes, end, gzip,
    packet, push_varint, read, read_with, texts, thread_track, trace,
};

/// Compressed packets have the same limit in a plain file and in a file that is compressed as a whole.
#[test]
fn compressed_packets_count_against_the_limit_of_the_file() {
    let name = "x".repeat(100_000);
    let long = begin(0, 5, "cpu_op", &name, &[]);
    let bundles = trace(&vec![bundle(&[thread_track(5), long, end(1, 5)]); 3]);
    assert!(bundles.len() < 10_000, "{}", bundles.len());
    for bytes in [gzip(&bundles), bundles] {
        let limit = |max_json_bytes| crate::Options { max_json_bytes, ..Default::default() };
        let error = read_with(&bytes, &limit(250_000)).unwrap_err().to_string();
        assert!(error.contains("expands to far more"), "{error}");
        let dataset = read_with(&bytes, &limit(400_000)).unwrap();
        assert_eq!(dataset.tables.rows("cpu_ops"), 3);
    }
}

#[test]
fn waits_beyond_any_usual_number_are_counted() {
    let waits = |count: u64| {
        let mut packed = Vec::new();
        (0..count).for_each(|_| push_varint(&mut packed, 1));
        packed
    };
    let stage = |ts_ns, number, waits: Vec<u8>| {
        let stage = Message::new().varint(1, number).varint(2, 10).bytes(17, "k");
        packet(ts_ns).message(53, stage.message(21, Message::new()).bytes(18, waits))
    };
    let packets = [stage(0, 1, waits(0)), stage(10, 2, waits(5000)), stage(30, 3, waits(1))];
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), [("many-declarations", 5000 - 4096)]);
    assert_eq!(dataset.tables.rows("flows"), 2 * (4096 + 1));
}

#[test]
fn architectures_beyond_any_usual_number_are_counted() {
    let stage = |number: u64| {
        let extra = Message::new().bytes(1, "arch").bytes(2, format!("sm_{number}"));
        let stage = Message::new().varint(2, 10).varint(11, 1).bytes(17, "k");
        packet(number * 100).message(53, stage.message(21, Message::new()).message(6, extra))
    };
    let packets: Vec<_> = (0..1100).map(stage).collect();
    let dataset = read(&trace(&packets)).unwrap();
    assert_eq!(codes(&dataset), [("many-declarations", 1100 - 1024)]);
    assert_eq!(dataset.tables.rows("kernels"), 1100);
}

/// Each event uses the interned data of its sequence, and then the state of the sequence is cleared.
#[test]
fn sequences_that_begin_anew_keep_their_names() {
    let named = |sequence: u64, at: u64| {
        let text = Message::new().varint(1, 1).bytes(2, format!("{sequence} {at}"));
        let event = Message::new().varint(9, 1).varint(11, 5).varint(10, 1).bytes(22, "cpu_op");
        Message::new()
            .varint(TIMESTAMP, 10 * at + sequence)
            .varint(SEQUENCE, sequence)
            .varint(FLAGS, 1)
            .message(INTERNED, Message::new().message(2, text))
            .message(TRACK_EVENT, event)
    };
    let mut packets = vec![thread_track(5)];
    let mut expected = Vec::new();
    for at in 1..20 {
        for sequence in 1..4 {
            packets.extend([named(sequence, at), end(10 * at + sequence, 5)]);
            expected.push(format!("{sequence} {at}"));
        }
    }
    for bytes in [trace(&packets), trace(&[bundle(&packets)])] {
        assert_eq!(texts(&read(&bytes).unwrap(), "cpu_ops", "name"), expected);
    }
}
