//! A selection means the same part of a run to every table and view.

use query::{Params, Range, Ranges, Selection, SelectionError, Session};
use trace_model::{RunInfo, TableSet};

use crate::support::Run;

/// Two ranks, steps 5 to 7 of 10 us; in each one operator and one kernel of 1 us, on stream 7 or 8.
fn run() -> TableSet {
    let mut run = Run::default();
    for rank in 0..2 {
        run.rank_with_cut(rank, 3, 20_000);
        for step in 5..8 {
            let start = (step - 5) * 10_000;
            run.step(rank, step, start, 10_000, step == 7)
                .op(rank, "aten::mm", start + 1_000, 500)
                .kernel_in_step(rank, step, start + 2_000, 1_000, (start + 1_100, 100));
        }
    }
    run.tables()
}

fn count(selection: &Selection, query: &str) -> i64 {
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    let tables = selection.apply(&run()).unwrap();
    let session = Session::new(analyses::catalog(), tables, &Params::default()).unwrap();
    session.sql(query).unwrap()[0].column(0).as_primitive::<Int64Type>().value(0)
}

fn ranges(text: &str) -> Ranges {
    text.parse().unwrap()
}

fn range(text: &str) -> Range {
    text.parse().unwrap()
}

const KERNELS: &str = "SELECT count(*) FROM kernels";
const ACTIVITIES: &str = "SELECT count(*) FROM device_activities";
const OPS: &str = "SELECT count(*) FROM cpu_ops";
const STEPS: &str = "SELECT count(*) FROM steps";

#[test]
fn selection_default_is_everything() {
    let everything = Selection::default();
    assert!(everything.is_everything());
    assert_eq!(count(&everything, KERNELS), 6);
    // Work that the last step launched is left out, as always.
    assert_eq!(count(&everything, ACTIVITIES), 4);
}

#[test]
fn selection_by_rank_filters_every_table() {
    let one = Selection { ranks: Some(ranges("1")), ..Selection::default() };
    for query in [KERNELS, OPS, STEPS] {
        assert_eq!(count(&one, query), 3, "{query}");
    }
    assert_eq!(count(&one, "SELECT CAST(min(rank) AS BIGINT) FROM events"), 1);
}

#[test]
fn selection_by_step_includes_the_last_step() {
    for (text, kept) in [("6", 1), ("6-7", 2), ("6..", 2), ("..5", 1)] {
        let some = Selection { steps: Some(range(text)), ..Selection::default() };
        for query in [KERNELS, ACTIVITIES, STEPS] {
            assert_eq!(count(&some, query), 2 * kept, "{text}: {query}");
        }
    }
}

#[test]
fn selection_of_steps_keeps_their_times() {
    use crate::support::rows;

    let mut run = Run::default();
    run.rank(0);
    for step in 0..5_i64 {
        let start_ns = step * 1_000;
        // As read: the end of the device work of the step before.
        run.step(0, step, start_ns, 1_000, step == 4).ready_at(start_ns + 400);
        run.kernel_in_step(0, step, start_ns + 1_300, 100, (start_ns + 10, 5));
    }
    let tables = run.tables();
    let times = |selection: Selection| {
        let tables = selection.apply(&tables).unwrap();
        let session = Session::new(analyses::catalog(), tables, &Params::default()).unwrap();
        rows(&session, "step_time", &["step", "ts_ns", "dur_ns", "is_anchored"])
    };
    let all = times(Selection::default());
    assert_eq!(all[2], "2 2400 1000 true");
    let steps = Some(range("2-3"));
    assert_eq!(times(Selection { steps, ..Selection::default() }), all[2..4]);
    let between = Some(Range::time("1900ns..4400ns").unwrap());
    assert_eq!(times(Selection { between, ..Selection::default() }), all[2..4]);
}

#[test]
fn selection_by_time_keeps_rows_inside() {
    // The kernel at 12 to 13 us lies in it, the one that would end a nanosecond later does not.
    let selection = |text: &str| {
        let between = Some(Range::time(text).unwrap());
        Selection { between, ..Selection::default() }
    };
    let error = selection("12us..12.999us").apply(&run()).unwrap_err();
    assert!(error.to_string().starts_with("no event is selected: between 12us.."), "{error}");
    for (text, kept) in [("12us..13us", 1), ("10us..", 2)] {
        let some = selection(text);
        assert_eq!(count(&some, KERNELS), 2 * kept, "{text}");
        assert_eq!(count(&some, ACTIVITIES), 2 * kept, "{text}");
    }
}

#[test]
fn selection_by_stream_and_name_filters_events() {
    let streams = Selection { streams: Some(ranges("7")), ..Selection::default() };
    assert_eq!(count(&streams, KERNELS), 6);
    assert_eq!(count(&streams, OPS), 6, "host events have no stream");
    let name = Some("^aten::".parse().unwrap());
    let names = Selection { name, ..Selection::default() };
    assert_eq!((count(&names, OPS), count(&names, KERNELS), count(&names, STEPS)), (6, 0, 6));
}

#[test]
fn selection_keeps_counters_and_launches_of_kernels() {
    use crate::support::rows;

    let open = |selection: &Selection| {
        let mut run = Run::default();
        run.rank(0);
        for value in 0..3 {
            run.measured_kernel(0, "aten::linear", "aten::mm", &[("fma", f64::from(value))]);
        }
        let tables = selection.apply(&run.tables()).unwrap();
        rows(
            &Session::new(analyses::catalog(), tables, &Params::default()).unwrap(),
            "cupti_counters",
            &["value"],
        )
    };
    let between = Some(Range { first: 1_000, last: 1_500 });
    assert_eq!(open(&Selection { between, ..Selection::default() }), ["1"]);
    let name = |pattern: &str| Some(pattern.parse().unwrap());
    assert_eq!(open(&Selection { name: name("k"), ..Selection::default() }), ["0", "1", "2"]);
    assert_eq!(open(&Selection { name: name("other"), ..Selection::default() }), [""; 0]);
}

#[test]
fn selection_of_missing_parts_is_an_error() {
    let error = |selection: Selection| -> String {
        let error: SelectionError = selection.apply(&run()).unwrap_err();
        error.to_string()
    };
    let everything = Selection::default;
    assert_eq!(
        error(Selection { ranks: Some(ranges("2-3,9")), ..everything() }),
        "no rank is in 2-3,9: the run has ranks 0 to 1"
    );
    assert_eq!(
        error(Selection { steps: Some(range("0-4")), ..everything() }),
        "no step is in 0-4: the run has steps 5 to 7"
    );
    assert_eq!(
        error(Selection { streams: Some(ranges("1")), ..everything() }),
        "no stream is in 1: the run has stream 7"
    );
}

#[test]
fn selection_is_part_of_the_run_info() {
    let selection = Selection {
        ranks: Some(ranges("1")),
        steps: Some(range("6..")),
        between: Some(Range::time("10us..25us").unwrap()),
        ..Selection::default()
    };
    let mut info = RunInfo { ranks: vec![0, 1], steps: 3, wall_ns: 30_000, ..RunInfo::default() };
    selection.describe(&selection.apply(&run()).unwrap(), &mut info);
    assert_eq!((info.ranks, info.steps, info.wall_ns), (vec![1], 1, 15_000));
    assert_eq!(info.selection, "ranks 1, steps 6.., between 10us..25us");
}
