//! Operations counted from shapes against published counts of models, over the real traces.

use trace_advisor::Run;

use crate::harness::{self, Case};
use crate::runs;
use crate::support::corpus;
use crate::support::rows::rows;

/// Images of a step of `resnet50_*`.
const BATCH: f64 = 32.0;

/// The one number that a query gives.
fn number(run: &Run, query: &str) -> f64 {
    rows(run, query)[0].values().next().unwrap().as_f64().unwrap_or(f64::NAN)
}

fn near(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{what}: {found} is not {expected}");
}

const MODELLED: &str = "roofline: devices with most of their time modelled";

/// One test per trace and published number.
pub(crate) fn cases() -> Vec<Case> {
    harness::require(MODELLED, 8);
    let mut cases = Vec::new();
    let mut add = |trace: &str, name: &str, test: fn(&str, &Run)| {
        let of = trace.to_owned();
        cases.push(Case::of_trace(trace, name, move || test(&of, &runs::open(&of).run)));
    };
    for trace in ["resnet50_workers0", "resnet50_workers4"] {
        add(trace, "resnet50_flops_match_published_counts", resnet50_flops);
    }
    add("mi300_resnet_ddp", "recomputed_flops_are_not_model_flops", recomputed_flops);
    for trace in ["h100_qwen", "mi300_qwen", "h100_bert", "mi300_bert"] {
        add(trace, "linear_layers_take_two_flops_per_parameter_and_token", language_model_flops);
    }
    for trace in ["resnet50_workers0", "resnet50_workers4", "diff_control"] {
        add(trace, "fp32_time_agrees_with_the_precision_rule", fp32_time);
    }
    for path in corpus::runs(&runs::traces()) {
        let trace = runs::name(&path);
        let is_recorded =
            !["composer", "determined", "generated"].iter().any(|kind| trace.starts_with(kind));
        if is_recorded {
            add(&trace, "calls_are_not_faster_than_the_data_sheet", data_sheet_is_a_limit);
        }
    }
    cases
}

// He et al. 2016 say 3.8, torchvision's page of ResNet-50 4.09 * 10^9 multiplications and additions an image; backward
// is twice as much, less the gradient of the images: the first convolution's 0.236 * 10^9 operations.
fn resnet50_flops(name: &str, run: &Run) {
    let flops = |pass: &str| {
        format!(
            "SELECT sum(flops) / count(DISTINCT step) FROM roofline_calls
             WHERE kind IN ('convolution', 'gemm') AND pass = '{pass}'"
        )
    };
    let forward = number(run, &flops("forward")) / BATCH;
    near(forward, 2.0 * 4.09e9, 0.01, name);
    let first = 2.0 * 112.0 * 112.0 * 64.0 * 3.0 * 49.0;
    near(number(run, &flops("backward")) / BATCH, 2.0 * forward - first, 0.001, name);
    // Utilization is those operations over step time and 15.7 TFLOP/s in 32 bit.
    let mfu = &rows(run, "SELECT * FROM step_mfu")[0];
    let step_s = mfu["mean_step_ns"].as_f64().unwrap() / 1e9;
    let expected = BATCH * (3.0 * forward - first) / step_s / 15.7e12;
    near(mfu["mfu_ratio"].as_f64().unwrap(), expected, 1e-6, name);
    near(mfu["hfu_ratio"].as_f64().unwrap(), expected, 1e-6, name);
}

// ResNet-18: 1.81 * 10^9 multiplications and additions an image (torchvision), 10 images, blocks computed again.
fn recomputed_flops(_name: &str, run: &Run) {
    let found = rows(
        run,
        "SELECT pass, sum(flops) / count(DISTINCT step) AS flops FROM roofline_calls WHERE kind IN ('convolution', 'gemm') GROUP BY pass ORDER BY pass",
    );
    let flops: Vec<f64> = found.iter().map(|row| row["flops"].as_f64().unwrap()).collect();
    let &[backward, forward, recompute] = flops.as_slice() else { panic!("{found:?}") };
    near(forward / 10.0, 2.0 * 1.814e9, 0.01, "forward");
    // All but the first convolution and the classifier lie in blocks that are computed again.
    let first = 10.0 * 2.0 * 112.0 * 112.0 * 64.0 * 147.0;
    near(recompute, forward - first - 2.0 * 10.0 * 512.0, 0.002, "recompute");
    near(backward, 2.0 * forward - first, 0.001, "backward");
    for row in rows(run, "SELECT mfu_ratio, hfu_ratio FROM gpu_mfu WHERE mfu_ratio IS NOT NULL") {
        let of = |name: &str| row[name].as_f64().unwrap();
        near(
            of("hfu_ratio") / of("mfu_ratio"),
            (forward + backward + recompute) / (forward + backward),
            1e-9,
            "HFU",
        );
    }
}

// Linear layers compute two operations a parameter and token.
fn language_model_flops(name: &str, run: &Run) {
    // Qwen1.5-0.5B: 24 layers, width 1024, 2816 inside, 16 heads; 16 sequences of 559 tokens, without the last layer.
    let qwen = (4.0 * 1024.0 * 1024.0 + 3.0 * 1024.0 * 2816.0) * 24.0;
    // BERT-small: 4 layers, width 512, 2048 inside; transform and decoder of 30522 words; 141 tokens.
    let bert =
        (4.0 * 512.0 * 512.0 + 2.0 * 512.0 * 2048.0) * 4.0 + 512.0 * 512.0 + 512.0 * 30_522.0;
    let (parameters, tokens, attention) = if name.ends_with("qwen") {
        (qwen, 8944.0, 24.0 * 4.0 * 16.0 * 16.0 * 559.0 * 559.0 * 64.0 / 2.0)
    } else {
        (bert, 141.0, 4.0 * 4.0 * 8.0 * 141.0 * 141.0 * 64.0)
    };
    let linear = number(
        run,
        "SELECT sum(flops) FROM roofline_calls WHERE name IN ('aten::mm', 'aten::addmm')",
    );
    near(linear, 2.0 * parameters * tokens, 1e-9, name);
    // Causal in Qwen: half of all pairs.
    let found = number(run, "SELECT sum(flops) FROM roofline_calls WHERE kind = 'attention'");
    near(found, attention, 1e-9, name);
}

// No call of any real trace is faster than the data sheet of its device allows, and none is counted twice.
fn data_sheet_is_a_limit(name: &str, run: &Run) {
    let faults =
        rows(run, "SELECT name, shapes, efficiency_ratio FROM op_roofline WHERE is_implausible");
    assert!(faults.is_empty(), "{name}: {faults:?}");
    for row in
        rows(run, "SELECT rank, device, modeled_ratio, matmul_modeled_ratio FROM gpu_roofline")
    {
        let ratio = row["modeled_ratio"].as_f64().unwrap();
        assert!((0.0..=1.0 + 1e-9).contains(&ratio), "{name}: {row:?}");
        harness::count(MODELLED, usize::from(ratio > 0.5));
    }
    // A call has the kernels that it launched, each once.
    let twice = "SELECT count(*) FROM (SELECT rank, device, op FROM roofline_calls GROUP BY rank, device, op HAVING count(*) > 1)";
    near(1.0 + number(run, twice), 1.0, 0.0, name);
}

// Time in 32 bit without tensor cores is the same for the rule on precision and for the roofline.
fn fp32_time(name: &str, run: &Run) {
    for row in rows(
        run,
        "SELECT t.missed_ns, r.matmul_modeled_ratio,
            (SELECT sum(c.kernel_ns) FROM roofline_calls c JOIN device_windows w ON w.rank = c.rank AND w.device = c.device
             WHERE c.kind IN ('gemm', 'convolution', 'attention') AND c.dtype = 'fp32' AND c.tensor_cores = 'no'
                AND c.ts_ns >= w.start_ns AND c.ts_ns < w.end_ns) AS modeled_ns
         FROM gpu_tensor_cores t JOIN gpu_roofline r ON r.rank = t.rank AND r.device = t.device",
    ) {
        let of = |column: &str| row[column].as_f64().unwrap();
        near(of("modeled_ns"), of("missed_ns"), 0.01, name);
    }
}
