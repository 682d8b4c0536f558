//! Views of hardware counters that were sampled while kernels ran, by interval, step, kernel family and device, and of clocks.

use query::Session;

use crate::support::{Run, rows};

const TENSOR: &str = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed";
const DRAM: &str = "DRAM BW (%)";
/// Start of the work of the second step.
const WORK_START_NS: i64 = 10_100;

/// A run of three steps, each with a matmul of 400 ns and an element-wise kernel of 300 ns. The second step has a sample every
/// 100 ns for 1 us.
fn sampled() -> Run {
    let mut run = Run::default();
    run.rank_with_cut(0, 3, 20_000).device(0, 1_000).device_named(0, "NVIDIA A100-SXM4-40GB");
    for step in 0..3 {
        let start = step * 10_000;
        run.step(0, step, start, 9_000, step == 2);
        kernel(&mut run, start + 100, 400, "ampere_bf16_s16816gemm");
        kernel(&mut run, start + 500, 300, "vectorized_elementwise_kernel");
    }
    for place in 0..=10 {
        let (tensor, dram, mhz) = match place {
            ..4 => (2.0, 30.0, 1_000.0),
            4..7 => (0.0, 92.0, 1_410.0),
            _ => (0.0, 0.0, 1_410.0),
        };
        let ts_ns = WORK_START_NS + 100 * place;
        run.hardware_counter(0, TENSOR, ts_ns, tensor)
            .hardware_counter(0, DRAM, ts_ns, dram)
            .hardware_counter(0, "SM Clock (MHz)", ts_ns + 50, mhz);
    }
    run
}

fn kernel(run: &mut Run, ts_ns: i64, dur_ns: i64, name: &str) {
    run.kernel_on(0, "computation", (0, 7), ts_ns, dur_ns, Some((ts_ns - 20, 10)), None, name);
}

fn samples(session: &Session) -> Vec<String> {
    let columns =
        ["ts_ns", "dur_ns", "step", "tensor_ratio", "dram_ratio", "matmul_ns", "pointwise_ns"];
    rows(session, "gpu_counter_samples", &columns)
}

#[test]
fn each_interval_has_its_counters_and_what_ran() {
    let samples = samples(&sampled().open());
    assert_eq!(samples.len(), 10, "the last sample has no end: {samples:?}");
    assert_eq!(samples[0], "10100 100 1 0.02 0.3 100 0");
    assert_eq!(samples[6], "10700 100 1 0 0.92 0 100");
    assert_eq!(samples[9], "11000 100 1 0 0 0 0");
}

#[test]
fn intervals_after_which_samples_are_missing_are_left_out() {
    let mut run = sampled();
    // The sample at 1 us is followed by a sample at 2 us, so the interval between them is left out.
    run.hardware_counter(0, TENSOR, WORK_START_NS + 2_000, 2.0).hardware_counter(
        0,
        TENSOR,
        WORK_START_NS + 2_100,
        2.0,
    );
    let samples = samples(&run.open());
    assert_eq!(samples.len(), 11, "{samples:?}");
    assert!(samples[10].starts_with("12100 100 "), "{samples:?}");
}

#[test]
fn families_have_means_of_the_intervals_that_they_fill() {
    let columns =
        ["family", "family_ns", "window_ratio", "sample_count", "tensor_ratio", "dram_ratio"];
    assert_eq!(
        rows(&sampled().open(), "gpu_counters_by_family", &columns),
        ["matmul 400 0.4 4 0.02 0.3", "pointwise 300 0.3 3 0 0.92"]
    );
}

#[test]
fn devices_have_means_while_they_are_busy() {
    let session = sampled().open();
    let columns = ["sample_count", "busy_ratio", "busy_sample_count", "dram_bound_ratio"];
    assert_eq!(rows(&session, "gpu_counters", &columns), ["10 0.7 7 0.3"]);
    let columns =
        ["dram_bound_family", "matmul_sample_count", "matmul_tensor_ratio", "sm_active_ratio"];
    assert_eq!(
        rows(&session, "gpu_counters", &columns),
        ["pointwise 4 0.02 -"],
        "the counter of SMs was not sampled"
    );
    let columns = ["step", "sample_count", "dram_ratio"];
    assert_eq!(rows(&session, "gpu_counters_by_step", &columns), ["1 10 0.396"]);
}

#[test]
fn other_counters_and_units_are_not_taken_for_shares_of_a_peak() {
    let mut run = sampled();
    run.hardware_counter(0, "dram__throughput.avg.per_second", 10_150, 2e12)
        .hardware_counter(0, "DRAM BW", 10_150, 2e12);
    assert_eq!(samples(&run.open()).len(), 10);
}

#[test]
fn clocks_are_compared_with_the_base_clock_while_the_device_works() {
    let columns = [
        "sample_count",
        "busy_sample_count",
        "busy_min_mhz",
        "base_mhz",
        "max_mhz",
        "below_base_ratio",
    ];
    let below = 4.0 / 7.0;
    assert_eq!(
        rows(&sampled().open(), "gpu_clocks", &columns),
        [format!("11 7 1000 1095 1410 {}", (below * 1e6_f64).round() / 1e6)]
    );
    let mut other = sampled();
    other.device_named(0, "NVIDIA H100 80GB HBM3");
    let clocks = rows(&other.open(), "gpu_clocks", &columns);
    assert_eq!(clocks, ["11 7 1000 - 1410 -"], "NVIDIA states no base clock");
}
