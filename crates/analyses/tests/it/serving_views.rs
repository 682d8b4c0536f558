//! Steps of inference engines, in the names that each server gives them.

use crate::support::{Run, rows};

const COUNTS: [&str; 7] = [
    "kind",
    "prefill_request_count",
    "prefill_token_count",
    "decode_request_count",
    "decode_token_count",
    "kv_token_count",
    "attention_pair_count",
];

fn counts(name: &str) -> Vec<String> {
    let mut run = Run::default();
    run.rank(0).annotation(0, name, 0, 100);
    rows(&run.open(), "serving_steps", &COUNTS)
}

#[test]
fn names_of_servers_state_the_batch() {
    for (name, expected) in [
        ("execute_context_1(512)_generation_0(0)", "prefill 1 512 0 0 - -"),
        ("execute_context_0(0)_generation_8(8)", "decode 0 0 8 8 - -"),
        ("execute_34_context_2(30)_generation_4(4)", "mixed 2 30 4 4 - -"),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            "decode 0 0 32 32 55086 55086",
        ),
        (
            "execute_64_context_1(sq62sk62sqsq3844sqsk3844)_generation_2(sq2sk90sqsq2sqsk90)",
            "mixed 1 62 2 2 152 2043",
        ),
        ("step[DECODE bs=32]", "decode 0 0 32 32 - -"),
        ("step[EXTEND bs=3 toks=400]", "prefill 3 400 0 0 - -"),
        ("step[EXTEND bs=3]", "prefill 3 - 0 0 - -"),
    ] {
        assert_eq!(counts(name), [expected], "{name}");
    }
    for name in [
        "step[",
        "step[DECODE]",
        "execute_context_x(1)_generation_2(2)",
        "execute_context_1(1)_generation_",
    ] {
        assert_eq!(counts(name), [""; 0], "{name}");
    }
}

#[test]
fn one_server_that_records_both_names_counts_once() {
    let mut run = Run::default();
    run.rank(0).annotation(0, "execute_context_0(0)_generation_8(8)", 0, 100).annotation(
        0,
        "step[DECODE bs=8]",
        20,
        70,
    );
    assert_eq!(
        rows(&run.open(), "serving_steps", &["name"]),
        ["execute_context_0(0)_generation_8(8)"]
    );
}

#[test]
fn tokens_per_second_count_the_time_between_steps() {
    let mut run = Run::default();
    // Two decode steps, whose work is 500 ns apart, then a prefill step, whose work is a microsecond later.
    run.rank(0)
        .annotation(0, "execute_context_0(0)_generation_8(8)", 0, 600)
        .kernel(0, "computation", 700, 100, Some((10, 5)))
        .annotation(0, "execute_context_0(0)_generation_8(8)", 1_000, 600)
        .kernel(0, "reshape_and_cache_flash_kernel", 1_200, 50, Some((1_100, 5)))
        // Between the steps: of none.
        .kernel(0, "computation", 1_900, 100, Some((1_700, 5)))
        .annotation(0, "execute_context_2(100)_generation_0(0)", 2_000, 500)
        .kernel(0, "computation", 2_200, 300, Some((2_100, 5)));
    let session = run.open();
    assert_eq!(
        rows(&session, "serving_steps", &["kernel_count", "device_ns", "cache_write_ns"]),
        ["1 100 0", "1 50 50", "1 300 0"]
    );
    let columns = [
        "kind",
        "step_count",
        "mean_ns",
        "mean_work_ns",
        "decode_token_count",
        "decode_tokens_per_s",
        "prefill_tokens_per_s",
        "device_ratio",
    ];
    assert_eq!(
        rows(&session, "serving_summary", &columns),
        ["decode 2 750 75 16 10666666.666667 0 0.1", "prefill 1 - 300 0 - - -"]
    );
}

#[test]
fn steps_without_device_work_are_timed_on_the_host() {
    let mut run = Run::default();
    run.rank(0).annotation(0, "step[DECODE bs=8]", 0, 600).annotation(
        0,
        "step[DECODE bs=8]",
        1_000,
        600,
    );
    let columns = ["mean_ns", "mean_work_ns", "decode_tokens_per_s", "device_ratio"];
    assert_eq!(rows(&run.open(), "serving_summary", &columns), ["1000 600 8000000 0"]);
}

#[test]
fn layers_begin_at_the_norm_before_the_projection() {
    let mut run = Run::default();
    run.rank(0).annotation(0, "step[DECODE bs=8]", 0, 1_000);
    let layer =
        ["rms_norm", "gemm_qkv", "norm_of_keys", "reshape_and_cache", "attention", "gemm_out"];
    let kernels = ["embedding"].into_iter().chain(layer).chain(["rms_norm", "gemm_up"]);
    let kernels = kernels.chain(layer).chain(["rms_norm", "gemm_up", "rms_norm", "gemm_logits"]);
    for (i, name) in kernels.enumerate() {
        let at = 10 * i as i64;
        run.kernel(0, name, 2_000 + at, 1 + i as i64 % 2, Some((at, 5)));
    }
    let columns = [
        "place",
        "layer",
        "step_count",
        "kernel_count",
        "device_ns",
        "attention_ns",
        "cache_write_ns",
        "matmul_ns",
        "norm_ns",
        "other_ns",
    ];
    assert_eq!(
        rows(&run.open(), "serving_layers", &columns),
        [
            "before -1 1 1 1 0 0 0 0 1",
            "layer 0 1 8 12 2 1 3 6 0",
            "layer 1 1 8 12 2 1 3 6 0",
            "after 2 1 2 3 0 0 1 2 0",
        ]
    );
}
