//! Views of what PyTorch's Flight Recorder dumped, on tiny runs, with expectations worked out by hand.

use crate::support::{Run, rows};

const WORLD: (&str, &str) = ("0", "");
const PAIR: (&str, &str) = ("1", "0,1");

/// Four ranks that have called two collectives; the first completed.
fn waiting() -> Run {
    let mut run = Run::default();
    for rank in 0..4 {
        run.flight_dump(rank, 0).flight_call(WORLD, 1, "all_reduce", "completed", 10).flight_call(
            WORLD,
            2,
            "all_gather",
            "started",
            20,
        );
    }
    run
}

fn verdicts(run: Run) -> Vec<String> {
    let columns =
        ["group_name", "seq", "verdict", "missing_ranks", "mismatch", "disagreeing_ranks"];
    rows(&run.open(), "flight_collectives", &columns)
}

#[test]
fn collective_that_all_ranks_called_is_unfinished() {
    assert_eq!(verdicts(waiting()), ["0 1 complete - - -", "0 2 unfinished - - -"]);
    assert_eq!(rows(&waiting().open(), "flight_missing", &["rank"]), [""; 0]);
}

#[test]
fn rank_that_called_less_is_missing_and_its_last_call_is_named() {
    let mut run = Run::default();
    for rank in 0..3 {
        run.flight_dump(rank, 0).flight_call(WORLD, 1, "all_reduce", "completed", 10);
        if rank != 1 {
            run.flight_call(WORLD, 2, "barrier", "scheduled", 20);
        }
    }
    let session = run.open();
    assert_eq!(
        rows(
            &session,
            "flight_missing",
            &[
                "seq",
                "rank",
                "kind",
                "call",
                "waiting_count",
                "last_call",
                "last_progress",
                "last_source"
            ]
        ),
        ["2 1 never called barrier 2 all_reduce of [8, 4] Float completed train.py:10"]
    );
    assert_eq!(
        rows(
            &session,
            "flight_summary",
            &["missing_count", "missing_ranks", "last_rank", "last_is_complete", "hidden_count"]
        ),
        ["1 1 1 true 0"]
    );
}

/// Rank 1 of the pair waits in the world, in which rank 2 is missing: that is where to look.
#[test]
fn missing_rank_that_itself_waits_is_not_named_first() {
    let mut run = Run::default();
    run.flight_dump(0, 0).flight_group("1", "0,1").flight_call(
        PAIR,
        1,
        "all_reduce",
        "scheduled",
        10,
    );
    run.flight_dump(1, 0).flight_call(WORLD, 1, "barrier", "scheduled", 20);
    run.flight_dump(2, 0).flight_call(("2", "2"), 1, "all_reduce", "completed", 30);
    assert_eq!(
        rows(
            &run.open(),
            "flight_summary",
            &["missing_count", "missing_group_name", "missing_ranks", "last_rank", "last_source"]
        ),
        ["3 0 0, 2 2 train.py:30"]
    );
}

/// Rank 0 overwrote its record of the first collective, and rank 1 all records of the group. No rank is missing.
#[test]
fn overwritten_record_is_unknown_not_missing() {
    let mut run = Run::default();
    run.flight_dump(0, 5).flight_call(WORLD, 2, "all_reduce", "completed", 10);
    run.flight_dump(1, 7).flight_call(("9", "1"), 4, "all_reduce", "completed", 10);
    run.flight_dump(2, 0).flight_call(WORLD, 1, "all_reduce", "completed", 10).flight_call(
        WORLD,
        2,
        "all_reduce",
        "started",
        10,
    );
    assert_eq!(verdicts(run), ["0 1 complete - - -", "0 2 unknown - - -", "9 4 complete - - -"]);
}

/// With `TORCH_INCLUDE_ONLY_ACTIVE`, a record that is not there may be complete.
#[test]
fn dump_with_gaps_has_no_missing_collective() {
    let mut run = waiting();
    run.flight_dump(4, 0).flight_call(WORLD, 1, "all_reduce", "started", 10);
    run.with_left_out_records();
    assert_eq!(verdicts(run), ["0 1 unfinished - - -", "0 2 unknown - - -"]);
}

#[test]
fn rank_without_a_dump_makes_a_waiting_collective_unknown() {
    let mut run = Run::default();
    for rank in [0, 1] {
        run.flight_dump(rank, 0).flight_group("1", "0,1,7").flight_call(
            ("1", "0,1,7"),
            1,
            "barrier",
            "scheduled",
            20,
        );
    }
    let session = run.open();
    assert_eq!(rows(&session, "flight_missing", &["rank", "kind", "last_call"]), ["7 no dump -"]);
    assert_eq!(
        rows(
            &session,
            "flight_summary",
            &["rank_count", "no_dump_count", "no_dump_ranks", "hidden_count"]
        ),
        ["3 1 7 1"]
    );
}

#[test]
fn ranks_that_call_different_collectives_disagree() {
    let mut run = Run::default();
    for rank in 0..3 {
        let operation = if rank == 2 { "broadcast" } else { "all_reduce" };
        run.flight_dump(rank, 0).flight_call(
            WORLD,
            1,
            operation,
            "scheduled",
            10 + i64::from(rank / 2),
        );
    }
    let session = run.open();
    assert_eq!(
        rows(
            &session,
            "flight_collectives",
            &["verdict", "mismatch", "disagreeing_ranks", "calls"]
        ),
        [
            "mismatch operation 2 ranks 0, 1: all_reduce of [8, 4] Float (train.py:10); rank 2: broadcast of [8, 4] Float (train.py:11)"
        ]
    );
}

/// Sizes of an uneven exchange differ; their sums must not.
#[test]
fn sizes_are_compared_where_they_must_agree() {
    let verdict = |operation: &str, sizes: [(i64, i64); 2]| {
        let mut run = Run::default();
        for (rank, (inputs, outputs)) in sizes.into_iter().enumerate() {
            run.flight_dump(rank as i32, 0)
                .flight_call(WORLD, 1, operation, "completed", 10)
                .of_elements(inputs, outputs);
        }
        verdicts(run).remove(0)
    };
    assert_eq!(verdict("all_gather", [(4, 8), (4, 8)]), "0 1 complete - - -");
    assert_eq!(verdict("all_gather", [(4, 8), (3, 8)]), "0 1 mismatch - size 1");
    assert_eq!(verdict("all_to_all", [(4, 6), (4, 2)]), "0 1 complete - - -");
    assert_eq!(verdict("all_to_all", [(4, 6), (4, 3)]), "0 1 mismatch - size -");
    assert_eq!(verdict("scatter", [(8, 4), (0, 4)]), "0 1 complete - - -");
    assert_eq!(verdict("gather", [(4, 8), (4, 0)]), "0 1 complete - - -");
    assert_eq!(verdict("reduce_scatter_v", [(4, 8), (5, 1)]), "0 1 complete - - -");
}

/// A coalesced call has several records of one number.
#[test]
fn operations_of_a_coalesced_call_are_one_collective() {
    let mut run = Run::default();
    for rank in 0..2 {
        run.flight_dump(rank, 0).flight_call(WORLD, 1, "all_reduce", "completed", 10).flight_call(
            WORLD,
            1,
            "broadcast",
            "completed",
            11,
        );
    }
    assert_eq!(
        rows(&run.open(), "flight_collectives", &["operation", "verdict", "completed_count"]),
        ["all_reduce + broadcast complete 2"]
    );
}

#[test]
fn send_without_a_receive_is_found_in_both_directions() {
    let mut run = Run::default();
    run.flight_dump(0, 0)
        .flight_message("send", 0, 1, "completed")
        .flight_message("send", 0, 1, "scheduled")
        .flight_message("send", 0, 1, "scheduled")
        .flight_message("recv", 1, 0, "started");
    run.flight_dump(1, 0).flight_message("recv", 0, 1, "completed").flight_message(
        "recv",
        0,
        1,
        "scheduled",
    );
    assert_eq!(
        rows(
            &run.open(),
            "flight_messages",
            &[
                "source_rank",
                "target_rank",
                "pending_send_count",
                "pending_receive_count",
                "missing",
                "missing_rank",
                "waiting_rank",
                "call"
            ]
        ),
        ["0 1 2 1 recv 1 0 send of [8, 4] Float", "1 0 0 1 send 1 0 recv of [8, 4] Float"]
    );
}
