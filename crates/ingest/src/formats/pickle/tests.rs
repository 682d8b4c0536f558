//! Tests of the pickle machine: pickles as Python writes them, and hostile ones.

use proptest::prelude::*;

use super::problem::Problem;
use super::{Graph, Kind, Value, read};
use crate::formats::memory::Encoding;
use crate::input::decompress::JsonInput;

/// A snapshot as protocols 0 to 5 write it, and older layouts.
const FILES: [&[u8]; 9] = [
    include_bytes!("../../../../../tests/fixtures/memory/torch2_protocol0.pickle"),
    include_bytes!("../../../../../tests/fixtures/memory/torch2_protocol1.pickle"),
    include_bytes!("../../../../../tests/fixtures/memory/torch2_protocol2.pickle"),
    include_bytes!("../../../../../tests/fixtures/memory/torch2_protocol3.pickle"),
    include_bytes!("../../../../../tests/fixtures/memory/torch2_protocol4.pickle"),
    include_bytes!("../../../../../tests/fixtures/memory/torch2_protocol5.pickle"),
    include_bytes!("../../../../../tests/fixtures/memory/torch20_rank3.pickle"),
    include_bytes!("../../../../../tests/fixtures/memory/torch113.pickle"),
    include_bytes!("../../../../../tests/fixtures/memory/segments_only.pickle"),
];

fn pickle(bytes: &[u8]) -> Result<Graph, Problem> {
    read(JsonInput::Whole(bytes.to_vec()), &|_| {}).map(|(graph, _)| graph)
}

/// Python's `repr`, nearly.
fn repr(graph: &Graph, value: Value, depth: u32) -> String {
    let Value::Object(object) = value else {
        return match value {
            Value::Str(id) => format!("{:?}", graph.strings.get(id)),
            Value::None => "None".to_owned(),
            Value::Bool(b) => if b { "True" } else { "False" }.to_owned(),
            Value::Int(i) => i.to_string(),
            Value::HugeInt => "huge".to_owned(),
            Value::Float(f) => format!("{f:?}"),
            Value::Bytes => "bytes".to_owned(),
            Value::Object(_) => String::new(),
        };
    };
    if depth == 0 {
        return "...".to_owned();
    }
    let items: Vec<String> = graph.items(object).map(|v| repr(graph, v, depth - 1)).collect();
    match graph.kind(object) {
        Kind::List => format!("[{}]", items.join(", ")),
        Kind::Tuple => format!("({})", items.join(", ")),
        Kind::Set => format!("set({})", items.join(", ")),
        Kind::Dict => {
            let pairs: Vec<String> = items.chunks(2).map(|p| p.join(": ")).collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    let graph = pickle(bytes).unwrap();
    repr(&graph, graph.root(), 12)
}

#[test]
fn read_gives_the_same_data_in_all_protocols() {
    let first = shown(FILES[0]);
    assert!(
        first.starts_with("{\"segments\": [{\"device\": 0, \"address\": 139637976727552"),
        "{first}"
    );
    for file in &FILES[1..6] {
        assert_eq!(shown(file), first);
    }
}

/// Output of `pickle.dumps(x, protocol)` of `CPython` 3.11, with instructions that snapshots do not use.
#[test]
fn read_builds_all_kinds_of_plain_data() {
    let cases: [(&[u8], &str); 16] = [
        (b"\x80\x02]q\x00(K\x01J\xff\xff\xff\xffM\xe8\x03\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00e.", "[1, -1, 1000, -1]"),
        (b"\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80.", "-9223372036854775808"),
        (b"\x80\x02\x8a\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01.", "huge"),
        (b"\x80\x02\x8a\x00.", "0"),
        (b"(lp0\nI1\naI00\naI01\naL12L\naL-3\naF1.5\naNa.", "[1, False, True, 12, -3, 1.5, None]"),
        (b"(dp0\nS'a\\x41'\np1\nI1\nsVb\\u00e9\np2\ng1\ns.", "{\"aA\": 1, \"b\u{e9}\": \"aA\"}"),
        (b"\x80\x04\x8f\x94(K\x01K\x02\x90.", "set(1, 2)"),
        (b"\x80\x04(K\x01\x91\x94.", "set(1)"),
        (b"\x80\x02K\x01K\x02K\x03\x87q\x00.", "(1, 2, 3)"),
        (b"(I1\nI2\nI3\nI4\ntp0\n.", "(1, 2, 3, 4)"),
        (b"\x80\x02).", "()"),
        (b"\x80\x03C\x02ab.", "bytes"),
        (b"\x80\x05\x96\x02\x00\x00\x00\x00\x00\x00\x00ab.", "bytes"),
        (b"\x80\x02G?\xf8\x00\x00\x00\x00\x00\x00.", "1.5"),
        (b"\x80\x04\x8d\x01\x00\x00\x00\x00\x00\x00\x00\xff.", "\"\u{fffd}\""),
        (b"\x80\x02(K\x01K\x02l2a1K\x05.", ""),
    ];
    for (bytes, expected) in &cases[..15] {
        assert_eq!(shown(bytes), *expected);
    }
    // Nothing may be popped below a mark, nor a mark that is not there.
    assert!(matches!(pickle(cases[15].0), Err(Problem::Malformed(..))));
    // POP, DUP and POP_MARK.
    assert_eq!(shown(b"K\x01K\x020(K\x03K\x04120(0."), "1");
}

#[test]
fn read_refuses_code_by_name() {
    let cases: [(&[u8], &str); 12] = [
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94\x93\x94.", "os.system"),
        (
            b"\x80\x04\x95\x01\0\0\0\0\0\0\0\x8c\x15numpy.core.multiarray\x8c\x06scalar\x93.",
            "numpy.core.multiarray.scalar",
        ),
        (b"(ibuiltins\neval\n.", "builtins.eval"),
        (b"\x80\x02K\x01)R.", "an object of a class"),
        (b"\x80\x02K\x01)\x81.", "an object of a class"),
        (b"\x80\x02K\x01}b.", "an object of a class"),
        (b"(K\x01o.", "an object of a class"),
        (b"Pelsewhere\n.", "persistent id"),
        (b"\x80\x02K\x01Q.", "persistent id"),
        (b"\x80\x02\x82\x01.", "extension registry"),
        (b"\x80\x05\x97.", "a buffer"),
    ];
    for (bytes, name) in cases {
        match pickle(bytes) {
            Err(problem @ Problem::Refused(..)) => {
                let text = problem.to_string();
                assert!(text.contains(name) && text.contains("run code"), "{text}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn read_does_not_trust_lengths_and_numbers() {
    let cases: [&[u8]; 12] = [
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"\x80\x04\x8d\xff\xff\xff\x0f\x00\x00\x00\x00.",
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x80\x02X\xff\xff\xff\x7f.",
        b"\x80\x02\x8b\xff\xff\xff\x7f.",
        b"\x80\x02B\xff\xff\xff\xff.",
        b"\x80\x02K\x01r\xff\xff\xff\xff.",
        b"\x80\x02K\x01p999999999999\n.",
        b"\x80\x02h\x07.",
        b"\x80\x02j\xff\xff\xff\xff.",
        b"\x80\x09.",
        b"V",
    ];
    for bytes in cases {
        assert!(pickle(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn read_keeps_sharing_small_and_preserves_cycles() {
    // Each list holds the one before it twice: 2^200 ends.
    let mut laughs = b"\x80\x02]q\x00".to_vec();
    for i in 0..200_u8 {
        laughs.extend([b']', b'q', i + 1, b'(', b'h', i, b'h', i, b'e']);
    }
    laughs.push(b'.');
    // 201 values are left below the last one: as in Python, that is not an error.
    assert_eq!(pickle(&laughs).unwrap().object_count(), 201);
    assert_eq!(shown(b"\x80\x02]q\x00h\x00a."), repr_of_a_list_in_itself());
}

fn repr_of_a_list_in_itself() -> String {
    format!("{}...{}", "[".repeat(12), "]".repeat(12))
}

#[test]
fn read_refuses_data_far_larger_than_the_pickle() {
    // 4 MB of empty lists would be kept, 40 MB would not: no data looks like this.
    let lists = |count: usize| {
        let mut bytes = b"\x80\x02(".to_vec();
        bytes.resize(count, b']');
        bytes.extend(b"l.");
        pickle(&bytes).map(|graph| graph.object_count())
    };
    assert_eq!(lists(500_000), Ok(500_000 - 3 + 1));
    assert_eq!(lists(40_000_000), Err(Problem::TooMuch));
    assert!(matches!(
        pickle(&b"(".repeat(100_000)),
        Err(Problem::Malformed("nested too deeply", _))
    ));
}

#[test]
fn read_detects_every_truncation() {
    for file in FILES {
        for end in 0..file.len() {
            let problem = pickle(&file[..end]).unwrap_err();
            assert_eq!(problem, Problem::Truncated, "cut at {end}");
        }
        assert!(pickle(file).is_ok());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = pickle(&bytes);
    }

    /// Only instructions, no arguments to speak of: more of them are valid.
    #[test]
    fn random_instructions_never_panic(
        ops in proptest::collection::vec(proptest::sample::select(
            b"(.012K\x01NM])}lteuadshqpgrj\x85\x86\x87\x8f\x90\x91\x94\x95I0\n\x88X\x00\x00\x00".to_vec(),
        ), 0..200),
    ) {
        if let Ok(graph) = pickle(&ops) {
            let _ = repr(&graph, graph.root(), 5);
        }
    }

    #[test]
    fn damage_never_panics(
        file in 0..FILES.len(),
        at in any::<prop::sample::Index>(),
        bytes in proptest::collection::vec(any::<u8>(), 1..4),
    ) {
        let mut damaged = FILES[file].to_vec();
        let at = at.index(damaged.len());
        let end = (at + bytes.len()).min(damaged.len());
        damaged.splice(at..end, bytes);
        let dump = crate::formats::memory::snapshot::read(Encoding::Pickle, JsonInput::Whole(damaged), &|_| {});
        if let Ok(dump) = dump {
            let mut tables = trace_model::TableSet::default();
            dump.into_tables(&mut tables, (0, 0), "x", 0);
        }
    }
}
