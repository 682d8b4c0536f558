//! Compiled code: traces with logs of `torch.compile` beside them, recorded (`tests/fixtures/compiled`) and generated.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use trace_advisor::{Report, Run, default_rules};

use crate::support::rows::text_rows as rows;
use crate::support::sandbox::Sandbox;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/compiled").join(name)
}

/// Severity and title of each finding about compiled code.
fn findings(report: &Report) -> Vec<String> {
    let mut found: Vec<String> = report
        .findings
        .iter()
        .filter(|finding| finding.code.starts_with("CG"))
        .map(|finding| format!("{} {} {}", finding.code, finding.severity, finding.title))
        .collect();
    found.sort();
    found
}

/// Verdicts of the rules about compiled code that have no finding.
fn unknown(report: &Report) -> Vec<&str> {
    let mut codes: Vec<&str> = report.unknown.iter().map(|rule| rule.code.as_str()).collect();
    codes.retain(|code| code.starts_with("CG"));
    codes
}

/// A timeline in which kernels run one after the other: name and duration in ns.
fn timeline(kernels: &[(&str, i64)]) -> String {
    let mut events = String::new();
    for (at, (name, dur_ns)) in kernels.iter().enumerate() {
        let (start_us, dur_us) = (100 * (at + 1), *dur_ns as f64 / 1e3);
        let comma = if at == 0 { "" } else { "," };
        write!(
            events,
            r#"{comma}
            {{"ph":"X","cat":"cuda_runtime","name":"cuLaunchKernel","pid":1,"tid":1,"ts":{start_us},"dur":2,"args":{{"correlation":{at}}}}},
            {{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":7,"ts":{},"dur":{dur_us:.3},"args":{{"device":0,"stream":7,"correlation":{at}}}}}"#,
            start_us + 10
        )
        .unwrap();
    }
    format!(r#"{{"schemaVersion": 1, "traceEvents": [{events}]}}"#)
}

#[test]
fn compiled_code_without_a_log_is_unknown() {
    let sandbox = Sandbox::new();
    sandbox.write("compiled.json", timeline(&[("triton_poi_fused_mul_1", 1_000)]));
    let report = Run::open(sandbox.path("compiled.json")).unwrap().check(&default_rules()).unwrap();
    assert_eq!(unknown(&report), ["CG001", "CG002", "CG003"]);
    let reason = report.unknown.iter().find(|rule| rule.code == "CG001").map(|rule| &rule.reason);
    assert!(reason.unwrap().contains("TORCH_TRACE"), "{reason:?}");
}

/// The compilations of the recorded steps, by hand from the log and the trace: the second variant of the part after the break
/// starts at 1795531370.511507 s, in step 2, which lasts from 1795531370.508798932 s for 2.128552398 s.
#[test]
fn breaks_and_recompilations_of_a_recorded_program() {
    let run = Run::open(fixture("breaks")).unwrap();
    assert_eq!(
        rows(
            &run,
            "SELECT compile_id, function, line, step, dur_ns, in_steps_ns, cache FROM compile_time"
        ),
        [
            "0/0 breaks 26 - 17569349000 0 miss",
            "1/0 torch_dynamo_resume_in_breaks_at_29 29 - 1988571000 0 miss",
            "1/1 torch_dynamo_resume_in_breaks_at_29 29 2 2122122000 2122122000 miss",
            "1/2 torch_dynamo_resume_in_breaks_at_29 29 3 2117045000 2117045000 miss",
            "1/3 torch_dynamo_resume_in_breaks_at_29 29 4 1984949000 1984949000 miss",
        ]
    );
    assert_eq!(
        rows(&run, "SELECT compile_id, reason, function_count FROM compile_recompilations"),
        ["1/1 scale == 1 3", "1/2 scale == 2 3", "1/3 scale == 3 3"]
    );
    assert_eq!(
        rows(&run, "SELECT file, line, code, reason, break_count FROM compile_graph_breaks"),
        ["/code/record.py 29 print(end=\"\") Failed to trace builtin operator 1"]
    );
    // Kernels of one name in several graphs: the operator around them says which graph ran.
    assert_eq!(
        rows(
            &run,
            "SELECT DISTINCT kernel, graph_count FROM compile_kernel_lines WHERE evidence = 'log' ORDER BY kernel"
        ),
        [
            "cpp_fused__softmax_mul_0 1",
            "cpp_fused__softmax_mul_sum_0 1",
            "cpp_fused_gelu_mul_sigmoid_0 1"
        ]
    );
    let report = run.check(&default_rules()).unwrap();
    assert_eq!(
        findings(&report),
        [
            "CG001 info The graph breaks 1 time, at 1 line",
            "CG002 low `torch_dynamo_resume_in_breaks_at_29` is compiled again 3 times",
            "CG003 info The compile cache is missed: 25.8 s of compilation",
        ]
    );
    let finding = report.findings.iter().find(|finding| finding.code == "CG002").unwrap();
    assert!(finding.message.contains("scale == 3"), "{}", finding.message);
}

/// Lines 33 and 34 read the input (2 MiB) and hand 2 MiB on; line 35 writes 512 sums (2048 bytes).
#[test]
fn fused_kernel_of_a_recorded_program_is_split_exactly() {
    let run = Run::open(fixture("fused")).unwrap();
    assert_eq!(
        rows(
            &run,
            "SELECT line, read_bytes, written_bytes, share_ppm FROM compiled_kernels ORDER BY line"
        ),
        ["33 2097152 2097152 499878", "34 2097152 2097152 499878", "35 0 2048 244"]
    );
    // 568,261 + 557,746 + 555,653 + 570,024 ns.
    assert_eq!(
        rows(
            &run,
            "SELECT kernel, call_count, kernel_ns, sum(line_ns) FROM compile_kernel_lines GROUP BY 1, 2, 3"
        ),
        ["cpp_fused_gelu_mul_sigmoid_sum_0 4 2251684 2251684"]
    );
}

/// The same function eagerly and compiled. Its operators are told apart by their names and inputs, the compiled calls by the
/// lines that the log states.
#[test]
fn shares_of_lines_agree_between_eager_and_compiled() {
    let share = |numbers: &[String]| -> Vec<f64> {
        let numbers: Vec<f64> = numbers.iter().map(|n| n.parse().unwrap()).collect();
        let sum: f64 = numbers.iter().sum();
        numbers.iter().map(|n| 100.0 * n / sum).collect()
    };
    let eager = Run::open(fixture("eager")).unwrap();
    let compiled = Run::open(fixture("products")).unwrap();
    let eager = share(&rows(
        &eager,
        "SELECT sum(dur_ns) FROM cpu_ops WHERE name IN ('aten::addmm', 'aten::gelu', 'aten::_softmax')
         GROUP BY name, input_dims ORDER BY min(ts_ns)",
    ));
    assert_eq!(
        rows(&compiled, "SELECT kernel, call_count, code FROM compile_kernel_lines ORDER BY line"),
        [
            "extern_kernels.addmm 12 x = up(x)",
            "cpp_fused_gelu_0 4 x = torch.nn.functional.gelu(x)",
            "extern_kernels.addmm 12 x = mix(x)",
            "cpp_fused__softmax_1 4 x = torch.softmax(x, dim=-1)",
            "extern_kernels.addmm 12 return down(x)",
        ]
    );
    let lines = "SELECT line_ns FROM compile_kernel_lines ORDER BY line";
    let compiled_shares = share(&rows(&compiled, lines));
    assert_eq!(eager.len(), 5);
    for (at, (eager, compiled)) in eager.iter().zip(&compiled_shares).enumerate() {
        assert!((eager - compiled).abs() <= 2.0, "line {at}: {eager} % and {compiled} %");
    }
    // All of the library's time has a line.
    let whole = "SELECT (SELECT sum(line_ns) FROM compile_kernel_lines WHERE kernel = 'extern_kernels.addmm')
        = (SELECT sum(dur_ns) FROM cpu_ops WHERE name = 'aten::addmm')";
    assert_eq!(rows(&compiled, whole), ["true"]);
}
