//! Logs of `torch.compile` that others recorded: numbers worked out by hand from their graphs.

use std::path::PathBuf;

use trace_advisor::{Run, default_rules};

use crate::harness::{Case, functions};
use crate::support::corpus::corpus;
use crate::support::rows::text_rows as rows;

pub(crate) fn cases() -> Vec<Case> {
    functions![
        provenance_of_triton_kernels,
        kernels_of_a_timeline_are_split_by_the_lines_in_the_log,
        cache_results_of_six_compilations,
    ]
}

fn log(name: &str) -> PathBuf {
    corpus().join("inputs/torch_trace").join(name)
}

/// The add of line 29 reads the result of the matmul (8 x 16 floats, 512 bytes) and the bias (64 bytes), and hands 512 on; relu and
/// sigmoid hand on 512 each: 1088, 512 and 512 of 2112. gelu reads 2 x 1200 bytes, hands 1200 from line 33 to line 34, which writes
/// 1200: 3600 and 1200 of 4800. The matmuls of both lines are one entry, with the product that one of them reads: 960 + 512, 800 +
/// 800, 2400 + 1200.
fn provenance_of_triton_kernels() {
    let run = Run::open(log("inductor_provenance_jit_cuda.log")).unwrap();
    let kernels = "SELECT name, line, nodes, pre_grad_nodes, read_bytes, written_bytes, share_ppm FROM compiled_kernels ORDER BY name, line";
    assert_eq!(
        rows(&run, kernels),
        [
            "extern_kernels.mm 29 mm_default_1 x 960 512 220624",
            "extern_kernels.mm 32 mul d 800 800 239808",
            "extern_kernels.mm 33 mm_default y 2400 1200 539568",
            "triton_poi_fused_addmm_gelu_2 33 add_tensor y 2400 1200 750000",
            "triton_poi_fused_addmm_gelu_2 34 add, erf, mul_1, mul_2, mul_3 z 0 1200 250000",
            "triton_poi_fused_addmm_relu_sigmoid_0 29 add_tensor_1 x 576 512 515152",
            "triton_poi_fused_addmm_relu_sigmoid_0 30 relu x_1 0 512 242424",
            "triton_poi_fused_addmm_relu_sigmoid_0 31 sigmoid x_2 0 512 242424",
            "triton_poi_fused_mul_1 32 mul d 800 800 1000000",
        ]
    );
    let frames = "SELECT compile_id, function, line, dur_ns, inductor_dur_ns, guard_count FROM compiled_frames";
    assert_eq!(rows(&run, frames), ["0/0 forward 28 8540315000 5170353000 53"]);
}

/// The first kernel runs twice, for 4224 ns in all.
fn kernels_of_a_timeline_are_split_by_the_lines_in_the_log() {
    let kernels = [
        ("triton_poi_fused_addmm_relu_sigmoid_0", "2.000"),
        ("triton_poi_fused_mul_1", "1.000"),
        ("ampere_sgemm_32x32_sliced1x4_tn", "5.000"),
        ("triton_poi_fused_addmm_gelu_2", "4.001"),
        ("triton_poi_fused_addmm_relu_sigmoid_0", "2.224"),
    ];
    let events: Vec<String> = kernels
        .iter()
        .enumerate()
        .map(|(at, (name, dur_us))| {
            format!(
                r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{at}0,"dur":{dur_us},"args":{{"device":0,"stream":7}}}}"#
            )
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let trace = format!(r#"{{"schemaVersion": 1, "traceEvents": [{}]}}"#, events.join(","));
    std::fs::write(folder.path().join("trace.json"), trace).unwrap();
    let recorded = std::fs::read(log("inductor_provenance_jit_cuda.log")).unwrap();
    std::fs::write(folder.path().join("dedicated_log_torch_trace_x.log"), recorded).unwrap();
    let run = Run::open(folder.path()).unwrap();
    assert_eq!(
        rows(
            &run,
            "SELECT kernel, evidence, line, code, call_count, kernel_ns, line_ns FROM compile_kernel_lines"
        ),
        [
            "triton_poi_fused_addmm_gelu_2 log 33 y = torch.addmm(c, d, b) 1 4001 3001",
            "triton_poi_fused_addmm_gelu_2 log 34 z = torch.nn.functional.gelu(y) 1 4001 1000",
            "triton_poi_fused_addmm_relu_sigmoid_0 log 29 x = self.fc1(x) 2 4224 2176",
            "triton_poi_fused_addmm_relu_sigmoid_0 log 30 x = self.relu(x) 2 4224 1024",
            "triton_poi_fused_addmm_relu_sigmoid_0 log 31 x = self.sigmoid(x) 2 4224 1024",
            "triton_poi_fused_mul_1 log 32 d = a * 3.14 1 1000 1000",
        ]
    );
    let report = run.check(&default_rules()).unwrap();
    let is_about_compiling = |code: &str| code.starts_with("CG");
    assert!(!report.findings.iter().any(|finding| is_about_compiling(&finding.code)));
    assert!(!report.unknown.iter().any(|rule| is_about_compiling(&rule.code)));
}

fn cache_results_of_six_compilations() {
    let run = Run::open(log("cache_hit_miss.log")).unwrap();
    let frames = "SELECT compile_id, function, dur_ns, graph_cache_hit_count, graph_cache_miss_count, autograd_cache FROM compiled_frames";
    assert_eq!(
        rows(&run, frames),
        [
            "0/0 _flex_attention_hop_wrapper 142473000 0 0 -",
            "1/0 fn 4298670000 0 1 bypass",
            "0/0 _flex_attention_hop_wrapper 88329000 0 0 -",
            "1/0 fn 242984000 1 0 bypass",
            "0/0 _flex_attention_hop_wrapper 86006000 0 0 -",
            "1/0 fn2 3438591000 0 1 bypass",
        ]
    );
    let kernels = "SELECT name, backend, file, line, share_ppm FROM compiled_kernels";
    assert_eq!(
        rows(&run, kernels)[0],
        "triton_tem_fused_0 triton /data/users/xmfan/a/pytorch/torch/nn/attention/flex_attention.py 1286 1000000"
    );
    assert_eq!(rows(&run, kernels).len(), 3);
    let summary =
        "SELECT has_log, compile_count, cache_hit_count, cache_miss_count FROM compile_summary";
    assert_eq!(rows(&run, summary), ["true 6 1 2"]);
}
