//! Sharded parameters, and mixtures of experts.

use crate::support::{Run, rows};

#[test]
fn fsdp_collectives_belong_to_the_innermost_range_and_show_what_nothing_hides() {
    let mut run = Run::default();
    run.rank(0).step(0, 1, 0, 10_000, true);
    // A gather for the next layer inside the range of this one; computation hides 300 of its 400 ns.
    run.annotation(0, "FSDP::pre_forward (layers.0)", 0, 1_000)
        .annotation(0, "FSDP::all_gather (layers.0)", 100, 200)
        .kernel_on(0, "communication", (0, 8), 1_000, 100, Some((150, 10)), Some(1), "AllGather")
        .as_collective("all_gather", "0", 64)
        .annotation(0, "FSDP::all_gather (layers.1)", 400, 200)
        .kernel_on(0, "communication", (0, 8), 1_200, 400, Some((450, 10)), Some(1), "AllGather")
        .as_collective("all_gather", "0", 64)
        .kernel_in_step(0, 1, 1_150, 200, (700, 10))
        .kernel_in_step(0, 1, 1_300, 200, (720, 10))
        // Of another library: not in a range of FSDP.
        .kernel_on(0, "communication", (0, 8), 2_000, 400, Some((900, 10)), Some(1), "AllGather")
        .as_collective("all_gather", "0", 64);
    run.annotation(0, "FSDP::post_backward_reduce", 3_000, 200)
        .kernel_on(
            0,
            "communication",
            (0, 8),
            3_500,
            50,
            Some((3_100, 10)),
            Some(1),
            "ReduceScatter",
        )
        .as_collective("reduce_scatter", "0", 64)
        .kernel_in_step(0, 1, 3_400, 100, (3_050, 10));
    let session = run.open();
    assert_eq!(
        rows(&session, "fsdp_collectives", &["module", "name", "dur_ns", "exposed_ns"]),
        [
            "layers.0 all_gather 100 100",
            "layers.1 all_gather 400 100",
            "(root) reduce_scatter 50 50"
        ]
    );
    let columns = [
        "module_count",
        "gather_count",
        "gather_ns",
        "gather_exposed_ns",
        "first_exposed_ns",
        "later_exposed_ratio",
        "reduce_exposed_ns",
        "worst_module",
    ];
    assert_eq!(rows(&session, "fsdp_overlap", &columns), ["2 2 500 200 100 0.01 50 layers.0"]);
}

/// Ranks that multiply groups of tokens in two calls each, for 100 ns a thousand tokens.
fn expert_run(tokens: &[[i64; 2]]) -> Run {
    let mut run = Run::default();
    for (rank, calls) in tokens.iter().enumerate() {
        let rank = rank as i32;
        run.rank(rank);
        for (i, count) in calls.iter().enumerate() {
            let start = 1_000 * i as i64;
            run.op(rank, "aten::_grouped_mm", start, 100)
                .with_input_dims(&format!("[[{count}, 64], [8, 64, 128], [8], [], []]"))
                .kernel(rank, "computation", start + 200, count / 10, Some((start + 10, 5)))
                .launched_by_op();
        }
    }
    run
}

#[test]
fn tokens_of_experts_compare_between_ranks() {
    let columns = [
        "rank",
        "rank_count",
        "token_count",
        "mean_token_count",
        "imbalance",
        "has_most",
        "expert_ns",
    ];
    assert_eq!(
        rows(
            &expert_run(&[[1_000, 1_000], [1_000, 4_000], [1_000, 1_000]]).open(),
            "moe_ranks",
            &columns
        ),
        [
            "0 3 2000 3000 1.666667 false 200",
            "1 3 5000 3000 1.666667 true 500",
            "2 3 2000 3000 1.666667 false 200"
        ]
    );
    assert_eq!(rows(&expert_run(&[[1_000, 1_000]]).open(), "moe_ranks", &["imbalance"]), ["-"]);
}
