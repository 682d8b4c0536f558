//! Views on what devices could do, on tables written by hand; every number is worked out in the comments.

use query::{Params, Session};
use trace_model::retiming::{FittedEffect, FixEdits, FixEffect, RetimingRequest};

use crate::support::{Run, rows};

/// A device that computes 1 TFLOP/s in 16 bit and moves 100 GB/s, of which 50 % and all can be had.
const TABLE: &str = "[[device]]\nname = \"Test\"\nmatch = [\"H100\"]\nmemory_gb_per_s = 100\n\
                     tflops = { bf16 = 1, fp32 = 0.1, tf32 = 0.5, fp8 = 2 }\n\
                     achievable = { tflops = 0.5, memory = 1.0 }\nsources = [\"this test\"]\n";

fn params() -> Params {
    let mut params = Params::default();
    params.set("device_table", TABLE);
    params
}

/// An operator with shapes, and the kernel that it launches.
trait Call {
    fn call(self, name: &str, ts_ns: i64, dims: &str, types: &str, kernel_ns: i64) -> Self;
}

impl Call for Run {
    fn call(mut self, name: &str, ts_ns: i64, dims: &str, types: &str, kernel_ns: i64) -> Self {
        self.op(0, name, ts_ns, 10).with_input_dims(dims).with_input_types(types);
        self.kernel(0, "computation", ts_ns + 100, kernel_ns, Some((ts_ns + 1, 2)));
        self.launched_by_op().launched_by_thread(2);
        self
    }
}

const BF16: &str = r#"["c10::BFloat16", "c10::BFloat16"]"#;
const FP32: &str = r#"["float", "float"]"#;

/// A device, and no steps: the recording counts as one step.
fn run() -> Run {
    let mut run = stepless();
    run.step_from("trace", 0, 0, 0, 10_000_000_000, true);
    run
}

fn stepless() -> Run {
    let mut run = Run::default();
    run.rank(0).device(0, 1 << 36);
    run
}

#[test]
fn matmul_efficiency_is_relative_to_the_device() {
    // 2 * 1000^3 = 2 * 10^9 operations at 0.5 TFLOP/s: 4 ms. It took 8 ms, and once more.
    let dims = "[[1000, 1000], [1000, 1000]]";
    let session = run()
        .call("aten::mm", 0, dims, BF16, 8_000_000)
        .call("aten::mm", 10_000_000, dims, BF16, 8_000_000)
        .open_with(&params());
    let columns = [
        "name",
        "kind",
        "dtype",
        "shapes",
        "call_count",
        "kernel_ns",
        "tflops_per_s",
        "bound",
        "peak",
        "efficiency_ratio",
        "is_implausible",
        "loss_ns",
    ];
    assert_eq!(
        rows(&session, "op_roofline", &columns),
        ["aten::mm gemm bf16 1000x1000, 1000x1000 2 16000000 0.25 compute Test 0.5 false 8000000"]
    );
    // 4 * 10^9 operations in 18 ms (from the first launch to the end of the last kernel), peak 1 TFLOP/s.
    assert_eq!(
        rows(
            &session,
            "gpu_roofline",
            &["kernel_ns", "modeled_ratio", "matmul_modeled_ratio", "implausible_count"]
        ),
        ["16000000 1 1 0"]
    );
}

/// The rule passes over calls of less than 10 us, so that their loss is no part of its gain.
#[test]
fn loss_of_a_device_leaves_out_short_calls() {
    let mut run = stepless();
    run.step_from("trace", 0, 0, 0, 1_000_000, true);
    let session = run
        .call("aten::mm", 0, "[[100, 100], [100, 100]]", BF16, 20_000)
        .call("aten::bmm", 30_000, "[[1, 50, 100], [1, 100, 100]]", BF16, 9_999)
        .open_with(&params());
    let columns = ["call_ns", "loss_ratio", "device_loss_ratio"];
    let found = rows(&session, "op_below_roofline", &columns);
    let cells: Vec<Vec<&str>> = found.iter().map(|row| row.split(' ').collect()).collect();
    let long = cells.iter().find(|row| row[0] == "20000").unwrap();
    let short = cells.iter().find(|row| row[0] == "9999").unwrap();
    assert_ne!(short[1], "0", "{found:?}");
    assert_eq!((long[2], short[2]), (long[1], long[1]), "{found:?}");
}

#[test]
fn call_above_the_data_sheet_is_a_fault_without_gain() {
    // 2 * 10^9 operations at 1 TFLOP/s are 2 ms: 1 ms cannot be. 3 ms is faster than what is called achievable (4 ms).
    let dims = "[[1000, 1000], [1000, 1000]]";
    let session = run()
        .call("aten::mm", 0, dims, BF16, 1_000_000)
        .call("aten::bmm", 10_000_000, "[[1, 1000, 1000], [1, 1000, 1000]]", BF16, 3_000_000)
        .open_with(&params());
    assert_eq!(
        rows(&session, "op_roofline", &["name", "efficiency_ratio", "is_implausible", "loss_ns"]),
        ["aten::mm 4 true -", "aten::bmm 1 false 0"]
    );
    assert_eq!(
        rows(&session, "op_below_roofline", &["op_name", "efficiency_ratio"]),
        ["aten::bmm 1", "aten::mm -"]
    );
    let columns = ["implausible_count", "implausible_ratio", "matmul_modeled_ratio"];
    assert_eq!(rows(&session, "gpu_roofline", &columns), ["1 0.25 0.75"]);
}

#[test]
fn call_with_cached_data_is_not_a_fault() {
    let table = TABLE.replace("memory_gb_per_s = 100", "memory_gb_per_s = 100\ncache_mib = 1");
    let mut params = Params::default();
    params.set("device_table", table);
    // 3 * 40,000 bytes in 600 ns are 200 GB/s: twice the memory's, but a cache of 1 MiB holds them all.
    let session = run().call("aten::add", 0, "[[10000], [10000]]", FP32, 600).open_with(&params);
    assert_eq!(
        rows(&session, "op_roofline", &["bound", "efficiency_ratio", "is_implausible", "reason"]),
        ["cache - false its tensors may lie in a cache, whose speed is in no table"]
    );
}

#[test]
fn tf32_is_recognized_by_the_kernel_name() {
    let dims = "[[1000, 1000], [1000, 1000]]";
    let mut run = run().call("aten::mm", 0, dims, FP32, 1_000_000_000);
    run.on_tensor_cores("yes");
    let mut run = run.call("aten::mm", 2_000_000_000, dims, FP32, 1_000_000_000);
    run.on_tensor_cores("no");
    let mut run = run.call("aten::mm", 4_000_000_000, dims, FP32, 1_000_000_000);
    run.on_tensor_cores("unknown");
    let mut found =
        rows(&run.open_with(&params()), "op_roofline", &["dtype", "peak_tflops", "reason"]);
    found.sort();
    assert_eq!(
        found,
        [
            "- - the names of its kernels do not tell on which units it multiplies",
            "fp32 0.1 -",
            "tf32 0.5 -"
        ]
    );
}

#[test]
fn unknown_device_has_rates_without_efficiency() {
    let mut run = run();
    run.device_named(0, "Mystery 9000");
    let session = run.call("aten::mm", 0, "[[1000, 1000], [1000, 1000]]", BF16, 8_000_000).open();
    assert_eq!(
        rows(&session, "op_roofline", &["tflops_per_s", "efficiency_ratio", "reason"]),
        [
            "0.25 - the table of devices does not know this device, its rates are derived as a range: add it with --devices FILE"
        ]
    );
}

#[test]
fn nested_matmuls_count_kernels_once() {
    // `linear` holds `addmm`, whose kernel counts; the copy next to it is its own; unknown operators stay unknown.
    let mut run = run();
    run.op(0, "aten::linear", 0, 1_000)
        .with_input_dims("[[64, 32], [16, 32], [16]]")
        .with_input_types(r#"["float", "float", "float"]"#);
    let run = run.call(
        "aten::addmm",
        10,
        "[[16], [64, 32], [32, 16]]",
        r#"["float", "float", "float"]"#,
        50,
    );
    let run = run.call("aten::copy_", 500, "[[64, 16], [64, 16]]", FP32, 50);
    let run = run.call("mine::shuffle", 700, "[[64, 16]]", r#"["float"]"#, 50);
    let session = run.open_with(&params());
    assert_eq!(
        rows(&session, "roofline_calls", &["name", "kernel_count", "flops"]),
        ["aten::addmm 1 65536", "aten::copy_ 1 0"]
    );
    assert_eq!(rows(&session, "gpu_roofline", &["modeled_ns", "kernel_ns"]), ["100 150"]);
}

#[test]
fn outer_operator_counts_if_no_inner_one_is_modeled() {
    let mut run = run();
    run.op(0, "aten::linear", 0, 1_000)
        .with_input_dims("[[64, 32], [16, 32]]")
        .with_input_types(FP32);
    let session = run.call("mine::gemm", 10, "[]", "[]", 50).open_with(&params());
    assert_eq!(rows(&session, "roofline_calls", &["name", "flops"]), ["aten::linear 65536"]);
}

#[test]
fn recomputed_flops_are_not_model_flops() {
    let dims = "[[100, 100], [100, 100]]";
    let mut run = stepless();
    run.step(0, 1, 0, 1_000_000, true);
    // Forward: numbered by autograd.
    let run = run.call("aten::mm", 10, dims, BF16, 100);
    let mut run = in_step(run);
    // Backward, one product for each factor, and between them forward once more.
    run.op(0, "autograd::engine::evaluate_function: MmBackward0", 1_000, 5_000);
    let run = in_step(run.call("aten::mm", 1_100, dims, BF16, 100));
    let mut run = in_step(run.call("aten::mm", 2_000, dims, BF16, 100));
    run.with_sequence(7);
    let session = in_step(run.call("aten::mm", 3_000, dims, BF16, 100)).open_with(&params());
    assert_eq!(
        rows(&session, "roofline_calls", &["ts_ns", "pass"]),
        ["110 forward", "1200 backward", "2100 recompute", "3100 backward"]
    );
    // 8 * 10^6 operations, 6 of them the model's, in 1 ms, of 10^9 at the peak: 100 ns are too short for 2 * 10^6.
    let columns = ["step", "step_ns", "flops", "model_flops"];
    assert_eq!(rows(&session, "gpu_mfu", &columns), ["1 1000000 0 0"]);
}

fn in_step(mut run: Run) -> Run {
    run.with_step(1);
    run
}

#[test]
fn mfu_is_model_flops_over_the_peak() {
    let dims = "[[1000, 1000], [1000, 1000]]";
    let mut run = stepless();
    run.step(0, 1, 0, 20_000_000, true);
    let run = in_step(run.call("aten::mm", 10, dims, BF16, 8_000_000));
    let session = run.open_with(&params());
    // 2 * 10^9 operations in 20 ms: 0.1 TFLOP/s of 1.
    let columns =
        ["dtype", "model_tflops_per_s", "mfu_ratio", "hfu_ratio", "matmul_modeled_ratio", "reason"];
    assert_eq!(rows(&session, "gpu_mfu", &columns), ["bf16 0.1 0.1 0.1 1 -"]);
    assert_eq!(rows(&session, "step_mfu", &["measured_count", "mfu_ratio"]), ["1 0.1"]);
}

#[test]
fn mfu_is_absent_if_a_matmul_has_no_shapes() {
    let mut run = stepless();
    run.step(0, 1, 0, 20_000_000, true);
    let mut run =
        in_step(run.call("aten::mm", 10, "[[1000, 1000], [1000, 1000]]", BF16, 8_000_000));
    // A product of which nothing is known.
    run.kernel_on(
        0,
        "computation",
        (0, 7),
        9_000_000,
        2_000_000,
        Some((20, 1)),
        Some(1),
        "sgemm_128x64",
    );
    let session = run.open_with(&params());
    let reason = "the operations of less than 90 % of the time of its products, convolutions and attention are known";
    assert_eq!(rows(&session, "gpu_mfu", &["mfu_ratio", "reason"]), [format!("- {reason}")]);
    let nothing = Run::default().open();
    assert!(rows(&nothing, "op_roofline", &["name"]).is_empty());
}

#[test]
fn pointwise_chains_on_the_same_data_are_fusible() {
    // 10^6 elements of 2 bytes: `mul` moves 6 MB, `add` 6 MB. Fused: 3 inputs and 1 result, 8 MB at 85 GB/s: 94.1 us.
    let dims = "[[1000, 1000], [1000, 1000]]";
    let session = run()
        .call("aten::mul", 0, dims, BF16, 100_000)
        .call("aten::add", 200_000, dims, BF16, 100_000)
        .call("aten::mm", 400_000, dims, BF16, 5_000_000)
        .call("aten::add", 6_000_000, "[[500], [500]]", BF16, 5_000)
        .open_with(&params());
    let columns =
        ["name", "chain_count", "kernel_count", "kernel_ns", "moved_bytes", "external_bytes"];
    let chains = rows(&session, "roofline_chains", &columns);
    // One input of `add` is the result of `mul`: 6 + 6 - 2 (written) - 2 (read).
    assert_eq!(chains, ["mul > add 1 2 200000 12000000 8000000"]);
    let gains = rows(&session, "op_fusable_chains", &["fused_ns", "gain_ns"]);
    assert_eq!(gains, ["94117.647059 105882.352941"]);
}

#[test]
fn unfused_attention_is_found() {
    let (qk, pv) = ("[[8, 128, 64], [8, 64, 128]]", "[[8, 128, 128], [8, 128, 64]]");
    let session = run()
        .call("aten::bmm", 0, qk, BF16, 100_000)
        .call("aten::mul", 200_000, "[[8, 128, 128], []]", r#"["c10::BFloat16", "double"]"#, 10_000)
        .call(
            "aten::_softmax",
            400_000,
            "[[8, 128, 128], [], []]",
            r#"["c10::BFloat16", "Scalar", "Scalar"]"#,
            20_000,
        )
        .call("aten::bmm", 600_000, pv, BF16, 100_000)
        // A softmax alone, as in a loss.
        .call(
            "aten::_softmax",
            800_000,
            "[[8, 1000], [], []]",
            r#"["c10::BFloat16", "Scalar", "Scalar"]"#,
            20_000,
        )
        .open_with(&params());
    // Two products of 2 * 8 * 128 * 128 * 64 operations at half of 1 TFLOP/s: 67.1 us.
    let columns =
        ["pass", "scores", "dtype", "kernel_ns", "matmul_ns", "kernel_count", "flops", "fused_ns"];
    assert_eq!(
        rows(&session, "roofline_attention", &columns),
        ["forward 8 x 128 x 128 bf16 230000 200000 4 33554432 67108.864"]
    );
}

/// Attention that `scaled_dot_product_attention` computes without a fused kernel is not unfused attention of the program, in both passes.
#[test]
fn math_fallback_of_sdpa_is_not_unfused_attention() {
    let (qk, pv) = ("[[8, 128, 64], [8, 64, 128]]", "[[8, 128, 128], [8, 128, 64]]");
    let softmax = ("[[8, 128, 128], [], []]", r#"["c10::BFloat16", "Scalar", "Scalar"]"#);
    let backward = (
        "[[8, 128, 128], [8, 128, 128], [], []]",
        r#"["c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"]"#,
    );
    let mut run = run();
    run.op(0, "aten::_scaled_dot_product_attention_math", 0, 700_000);
    let session = run
        .call("aten::bmm", 10, qk, BF16, 100_000)
        .call("aten::_softmax", 400_000, softmax.0, softmax.1, 20_000)
        .call("aten::bmm", 600_000, pv, BF16, 100_000)
        .call("aten::bmm", 1_000_000, pv, BF16, 100_000)
        .call("aten::bmm", 1_200_000, qk, BF16, 100_000)
        .call("aten::_softmax_backward_data", 1_400_000, backward.0, backward.1, 20_000)
        .call("aten::bmm", 1_600_000, pv, BF16, 100_000)
        .call("aten::bmm", 1_800_000, pv, BF16, 100_000)
        .open_with(&params());
    let columns = ["math_ns", "written_out_count", "written_out_ns"];
    // 220 us forward, 420 us backward.
    assert_eq!(rows(&session, "op_attention", &columns), ["640000 0 0"]);
}

#[test]
fn math_fallback_of_sdpa_is_measured() {
    let mut run = run();
    run.op(0, "aten::_scaled_dot_product_attention_math", 1_000, 1_000);
    // Launched inside on the thread of operators, inside on another thread, and after.
    let kernels = [(1_500, 2_000_000_000, 2), (1_600, 500, 1), (2_500, 700, 2)];
    for (launch_ns, dur_ns, thread) in kernels {
        run.kernel(0, "computation", launch_ns + 100, dur_ns, Some((launch_ns, 1)));
        run.launched_by_thread(thread);
    }
    // Without shapes nothing is known of its products: three quarters are taken.
    let columns = ["math_ns", "fused_ns", "written_out_ratio", "math_gain_ratio"];
    let answer = rows(&run.open_with(&params()), "op_attention", &columns);
    assert_eq!(answer, ["2000000000 0 - 0.15"]);
}

#[test]
fn wave_tail_is_the_idle_part_of_the_last_wave() {
    // 132 multiprocessors of 2048 threads, 65,536 registers: 8 warps of 64 registers a thread take 16,384: 4 at once.
    let mut run = run();
    run.kernel(0, "computation", 0, 1_000, Some((0, 1))).with_launch_shape(
        "[660, 1, 1]",
        "[256, 1, 1]",
        64,
        5.0,
    );
    // One wave: there is no tail.
    run.kernel(0, "computation", 2_000, 1_000, Some((0, 1))).with_launch_shape(
        "[132, 1, 1]",
        "[256, 1, 1]",
        64,
        1.0,
    );
    let columns = ["block_count", "resident_count", "waves", "tail_efficiency_ratio"];
    assert_eq!(rows(&run.open(), "kernel_tail_waves", &columns), ["660 4 1.25 0.625"]);
}

#[test]
fn invalid_device_table_is_an_error() {
    let mut params = Params::default();
    params.set("device_table", "[[device]]\nname = 3\n");
    let error = run().open_with(&params).analyze("roofline_calls").unwrap_err().to_string();
    assert!(error.contains("the table of devices: line 2"), "{error}");
}

/// A matmul of 8192 x 8192 x 8192, 1.0995 * 10^12 operations, in 16 bits.
fn large_matmul(run: Run, kernel_ns: i64) -> Run {
    run.call("aten::mm", 0, "[[8192, 8192], [8192, 8192]]", BF16, kernel_ns)
}

const RANGE: [&str; 6] = [
    "peak_source",
    "peak_tflops",
    "peak_low_tflops",
    "peak_high_tflops",
    "achievable_low_tflops",
    "observed_tflops",
];

fn rates(session: &Session, dtype: &str) -> Vec<String> {
    let columns: Vec<&str> = ["dtype"].into_iter().chain(RANGE).collect();
    let rows = rows(session, "roofline_devices", &columns).into_iter();
    rows.filter(|row| row.starts_with(&format!("{dtype} "))).collect()
}

#[test]
fn device_in_no_table_has_a_range_of_peaks() {
    // 132 multiprocessors of 2,048 multiply-adds a clock, at 1.5 to 2 GHz; good programs reach at least 70 %.
    let slow = large_matmul(run(), 10_000_000).open();
    assert_eq!(rates(&slow, "bf16"), ["bf16 derived - 811.008 1081.344 567.7056 109.951163"]);
    // At 1.2 ms it does 916 TFLOP/s: the clock is 1.695 GHz at least.
    let fast = large_matmul(run(), 1_200_000).open();
    assert_eq!(rates(&fast, "bf16"), ["bf16 derived - 916.25969 1081.344 916.25969 916.25969"]);
    assert!(
        rates(&fast, "fp32")[0].starts_with("fp32 derived - 57."),
        "{:?}",
        rates(&fast, "fp32")
    );
    // No such chip is twice as fast: something is wrong, and nothing is derived.
    let wrong = large_matmul(run(), 500_000).open();
    assert_eq!(rows(&wrong, "roofline_devices", &["peak_source", "dtype"]), ["- -"]);
    // An unknown compute capability.
    let mut unknown = run();
    unknown.of_chip((99, 0), 132);
    let unknown = large_matmul(unknown, 10_000_000).open();
    assert_eq!(rows(&unknown, "roofline_devices", &["peak_source", "dtype"]), ["- -"]);
    // A listed device has no range.
    let own = large_matmul(run(), 2_000_000_000).open_with(&params());
    assert_eq!(rates(&own, "bf16"), ["bf16 own file 1 1 1 0.5 0.549756"]);
    let mut listed = run();
    listed.device_named(0, "NVIDIA H100 80GB HBM3");
    let listed = large_matmul(listed, 10_000_000).open();
    assert_eq!(rates(&listed, "bf16"), ["bf16 table 989.4 989.4 989.4 791.52 109.951163"]);
}

#[test]
fn views_say_that_a_peak_is_derived() {
    // 110 TFLOP/s; good programs reach 567.7 to 973.2.
    let mut run = large_matmul(run(), 10_000_000);
    run.with_step(0);
    let session = run.open();
    let columns = [
        "peak_source",
        "peak",
        "efficiency_ratio",
        "efficiency_low_ratio",
        "efficiency_high_ratio",
    ];
    assert_eq!(rows(&session, "op_roofline", &columns), ["derived - - 0.112978 0.193676"]);
    let reasons = rows(&session, "op_roofline", &["reason"]);
    assert!(reasons[0].contains("derived as a range: add it with --devices"), "{reasons:?}");
    // Rules judge the efficiency, which is absent.
    assert_eq!(rows(&session, "op_below_roofline", &["efficiency_ratio", "loss_ns"]), ["- -"]);
    let mfu = rows(&session, "gpu_mfu", &["peak_source", "mfu_ratio", "reason"]);
    assert!(mfu[0].starts_with("derived - the table of devices does not know"), "{mfu:?}");
}

/// The shipped fix of this name, as it is re-timed.
fn effect(session: &Session, name: &str) -> FixEffect {
    let rules = trace_advisor::default_rules();
    let fix = rules.fixes().iter().find(|fix| fix.name == name).expect("a fix");
    let edits = FixEdits {
        name: fix.name.clone(),
        edits: fix.edits.clone(),
        weight: 1.0,
        is_certain: true,
        instead_of: Vec::new(),
        effect: FittedEffect::default(),
    };
    let request = RetimingRequest { fixes: vec![edits], ..RetimingRequest::default() };
    let ranks = || what_if::RetimingRanks::load(session, &[]);
    let retimed = what_if::retime(session, &request, ranks).unwrap();
    assert_eq!(retimed.left_out.len(), 0, "{:?}", retimed.left_out);
    retimed.retiming.fixes.into_iter().next().expect("an effect")
}

/// A recording of this length, without steps.
fn run_of(dur_ns: i64) -> Run {
    let mut run = stepless();
    run.step_from("trace", 0, 0, 0, dur_ns, true);
    run
}

/// A matmul of 2048 x 2048 x 2048 in 32 bits, 1.718 * 10^10 operations, on ordinary units.
fn single_precision_matmul(mut run: Run, kernel_ns: i64) -> Run {
    run = run.call("aten::mm", 0, "[[2048, 2048], [2048, 2048]]", FP32, kernel_ns);
    run.on_tensor_cores("no").kernel_named("ampere_sgemm_128x64_tn");
    run
}

#[test]
fn gain_of_16_bits_is_unknown_on_an_unknown_gpu() {
    let mut run = run_of(1_300_200);
    run.device_named(0, "NVIDIA Future 1").of_chip((99, 0), 46);
    let session = single_precision_matmul(run, 1_300_000).open();
    for name in ["mixed-precision", "tf32"] {
        let effect = effect(&session, name);
        let unknown = effect.unknown.expect("an unknown effect");
        assert_eq!(
            unknown.reason,
            "the GPU (NVIDIA Future 1) is not in the device table: add it with --devices FILE"
        );
        assert!(unknown.time_pct > 90.0 && !effect.is_planned, "{unknown:?}");
    }
    // A share of the time is not a gain.
    let columns = ["missed_ns", "missed_gain_ratio", "tf32_gain_ratio"];
    assert_eq!(rows(&session, "gpu_tensor_cores", &columns), ["1300000 - -"]);
}

#[test]
fn gain_of_16_bits_on_an_unlisted_gpu_is_a_range_below_its_peak() {
    let mut run = run_of(1_300_200);
    // 46 multiprocessors of 256 multiply-adds, at 2.3 to 2.65 GHz: 54.2 to 62.4 TFLOP/s. The recording shows 13.2.
    run.device_named(0, "NVIDIA GeForce RTX 4071").of_chip((8, 9), 46);
    let session = single_precision_matmul(run, 1_300_000).open();
    let FixEffect { alone_pct, unknown, .. } = effect(&session, "mixed-precision");
    assert_eq!(unknown, None);
    assert!(alone_pct.low < 40.0 && alone_pct.high > 50.0, "{alone_pct:?}");
    assert!(alone_pct.high <= 100.0 * (1.0 - 13.2 / 62.4), "{alone_pct:?}");
}

#[test]
fn gain_of_16_bits_is_unknown_for_replayed_kernels_without_shapes() {
    let mut run = run_of(2_001_100);
    run.device_named(0, "NVIDIA A100-SXM4-80GB").of_chip((8, 0), 108);
    run.kernel(0, "computation", 1_000, 2_000_000, Some((500, 100)));
    run.launched_by_graph(1).on_tensor_cores("no").kernel_named("ampere_sgemm_128x64_nn");
    let session = run.open();
    let unknown = effect(&session, "mixed-precision").unknown.expect("an unknown effect");
    assert!(unknown.reason.starts_with("replayed kernels have no shapes"), "{unknown:?}");
    assert_eq!(
        rows(&session, "gpu_tensor_cores", &["missed_ns", "missed_gain_ratio"]),
        ["2000000 -"]
    );
}

#[test]
fn gain_of_16_bits_does_not_exceed_the_peak() {
    let mut run = run_of(2_600_200);
    // 6.6 TFLOP/s of 65: a tenth is left.
    run.device_named(0, "Tesla T4").of_chip((7, 5), 40);
    let session = single_precision_matmul(run, 2_600_000).open();
    let effect = effect(&session, "mixed-precision");
    let left_pct = 100.0 * 2.0 * 2048.0_f64.powi(3) / 65e12 / 2.6e-3;
    assert!(effect.alone_pct.high <= 100.0 - left_pct + 0.1, "{effect:?}");
    assert!(effect.alone_pct.low > 50.0, "{effect:?}");
    // The plan says the same.
    let left_ns = 2.0 * 2048.0_f64.powi(3) / 65e3;
    assert!(effect.step_ns.low >= left_ns - 1.0, "{effect:?}");
}

/// If up to a quarter of the targets of a fix is unknown, the rest gives a number.
#[test]
fn gain_is_known_if_most_of_the_time_is() {
    let mut run = run_of(2_510_100);
    run.device_named(0, "NVIDIA A100-SXM4-80GB").of_chip((8, 0), 108);
    let mut run = single_precision_matmul(run, 2_000_000);
    run.kernel(0, "computation", 2_010_000, 500_000, Some((10_000, 10)));
    run.launched_by_graph(1).on_tensor_cores("no").kernel_named("ampere_sgemm_128x64_nn");
    let known = effect(&run.open(), "mixed-precision");
    assert_eq!(known.unknown, None);
    assert!(known.alone_pct.mid > 30.0 && known.alone_pct.high < 100.0, "{known:?}");
}
