//! Every view: its header matches its query.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use analyses::catalog;
use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use query::{Catalog, Params, Session, ViewDef, ViewUse, prepare_plans};
use trace_advisor::RuleSet;
use trace_model::{Capability, TableSet};

use crate::support::Run;
use crate::support::trainers::{Series, sampled};

fn column_names(batches: &[RecordBatch]) -> Vec<String> {
    batches[0].schema().fields().iter().map(|f| f.name().clone()).collect()
}

fn header_names(module: &ViewDef) -> Vec<String> {
    module.columns.iter().map(|c| c.name.clone()).collect()
}

const FFMA: &str = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum";

/// Rows of every kind, so that every view has rows.
pub(crate) fn small_run() -> Run {
    let mut run = Run::default();
    for rank in 0..2 {
        run.rank_with_cut(rank, 3, 20_000).device(rank, 1_000);
        run.holds(rank, Capability::Timeline);
        for step in 0..3 {
            let start = step * 10_000;
            run.step(rank, step, start, 9_000, step == 2)
                .annotation(
                    rank,
                    "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                    start,
                    1_000,
                )
                .op(rank, "autograd::engine::evaluate_function: MmBackward0", start + 5_000, 100)
                .annotation(rank, "Optimizer.step#SGD.step", start + 6_000, 100)
                .python_frame(rank, "nn.Module: Linear_0", start + 6_900, 700)
                .op_with_kernels(rank, "aten::linear", start + 7_000, 500, 3)
                .at_source_line("train.py(7): step", "train.py:7")
                .with_args(r#"{"Module Hierarchy":"TOP(Net)::forward"}"#)
                .annotation(rank, "[pl][module]torch.nn.Linear: fc", start + 6_900, 700)
                .annotation(rank, "[pl][profile]run_training_batch", start + 1_000, 7_000)
                .annotation(rank, "nccl:all_reduce", start + 1_650, 100)
                .annotation(rank, "forward-compute", start + 1_300, 400)
                .annotation_in_step(step)
                .annotation(rank, ["gloo:send", "gloo:recv"][rank as usize], start + 7_800, 100)
                .annotation_in_step(step)
                .annotation(rank, "nccl:all_reduce", start + 2_900, 700)
                .as_device_annotation()
                .op(rank, "aten::mm", start + 1_400, 400)
                .kernel_in_step(rank, step, start + 2_000, 500, (start + 1_500, 100))
                .call_at_source_line("train.py:9")
                .launched_by_op()
                .with_occupancy(0.5, 0.25)
                .kernel_on(
                    rank,
                    "communication",
                    (0, 7),
                    start + 3_000,
                    500 + i64::from(rank),
                    Some((start + 1_700, 10)),
                    Some(step),
                    "ncclDevKernel_AllReduce",
                )
                .as_collective("allreduce", "0", 16)
                .memcpy(rank, start + 4_000, 100, 64, Some((start + 3_900, 300)));
            // Every step keeps a piece of memory.
            let total = (step + 2) * 100;
            run.memory_event(rank, (1, 0), start + 1_450, 4_096 + step, 100, Some((total, 900)))
                .memory_in_step(step)
                .memory_in_op(1, "aten::mm")
                .call(rank, "cudaMalloc", start + 200, 10);
        }
        run.memory_totals(rank, 5, 100, 200)
            .op(rank, "aten::mm", 100, 10)
            .execution_node(5, "aten::mm(Tensor self, Tensor mat2) -> Tensor", "[[2,2],[2,2]]")
            .measured_kernel(rank, "aten::linear", "aten::mm", &[(FFMA, 10.0)])
            .snapshot(rank)
            .timeline(rank, &[(100, 0), (100, 50)]);
    }
    for rank in 0..2 {
        // Attention written out, and two operators on the same data; the last kernel needs more than one wave.
        let scores = "[[2, 4, 4], [2, 4, 4]]";
        for (i, name) in
            ["bmm", "mul", "_softmax", "baddbmm", "add", "mul_"].into_iter().enumerate()
        {
            let start = 18_000 + 100 * i as i64;
            let dims = if name == "baddbmm" { "[[2, 4, 4], [2, 4, 4], [2, 4, 4]]" } else { scores };
            run.op(rank, &format!("aten::{name}"), start, 50)
                .with_input_dims(dims)
                .with_input_types(r#"["float", "float", "float"]"#)
                .kernel_in_step(rank, 1, start + 20, 50, (start + 5, 10))
                .launched_by_op()
                .with_launch_shape("[660, 1, 1]", "[256, 1, 1]", 64, 5.0);
        }
    }
    // A rank on the CPU.
    run.rank(2).step(2, 1, 0, 1_000, true).op(2, "aten::addmm", 100, 500);
    for (i, name) in ["mul", "add"].into_iter().enumerate() {
        run.op(2, &format!("aten::{name}"), 700 + 100 * i as i64, 90)
            .with_input_dims("[[64, 64], [64, 64]]")
            .with_input_types(r#"["float", "float"]"#);
    }
    // A server's step that launches a graph.
    run.annotation(0, "execute_2_context_0(0)_generation_2(2)", 18_850, 300)
        .kernel(0, "reshape_and_cache", 18_960, 10, Some((18_870, 10)))
        .kernel_in_step(0, 1, 19_000, 50, (18_900, 10))
        .launched_by_graph(1)
        .captured_from(1, "aten::mm", "[[2, 2], [2, 2]]")
        .hardware_counter(0, "sm__throughput", 19_010, 50.0)
        .hardware_counter(0, "SM Clock (MHz)", 12_100, 1_200.0);
    for sample in 0..4 {
        run.hardware_counter(0, "DRAM BW (%)", 12_000 + 100 * sample, 90.0);
    }
    // A launch after the steps of which the device work is missing.
    run.call(0, "cudaLaunchKernel", 480_000, 10);
    // A graph with a gap of the profiler after each node.
    for node in 0..22 {
        run.kernel(0, "traced", 500_000 + 3_000 * node, 500, Some((490_000 + node, 10)));
    }
    run.launched_by_graph(22);
    // FSDP, and experts.
    run.annotation(0, "FSDP::all_gather (layers.0)", 500, 200)
        .kernel_on(0, "communication", (0, 8), 700, 50, Some((510, 10)), Some(1), "AllGather")
        .as_collective("all_gather", "0", 64)
        .op(0, "aten::_grouped_mm", 19_200, 50)
        .with_input_dims("[[16, 4], [2, 4, 4]]");
    // A collective of known size.
    for rank in 0..2 {
        run.kernel_on(rank, "communication", (0, 8), 19_300, 50, None, Some(1), "ReduceScatter")
            .as_collective("reduce_scatter", "1", 64)
            .in_group(2, "Float");
    }
    // Code of torch.compile.
    run.compiled(1, "0/0", 100, 500)
        .recompiled(1, "0/1", 10_100, 500, "0/0: tensor 'x' size mismatch")
        .graph_break(1, 12, "builtin print")
        .compiled_line(1, "triton_poi_fused_add_0", "fabc", 12, 1_000_000)
        .kernel_on(
            1,
            "computation",
            (0, 7),
            19_500,
            50,
            Some((19_400, 10)),
            None,
            "triton_poi_fused_add_0",
        );
    // A hang: rank 1 is missing at the second collective, and a send waits for its receive.
    run.flight_dump(0, 0)
        .flight_group("1", "0,1")
        .flight_call(("0", ""), 1, "all_reduce", "completed", 10)
        .flight_call(("0", ""), 2, "all_reduce", "started", 10)
        .flight_message("send", 0, 1, "started")
        .flight_dump(1, 0)
        .flight_call(("0", ""), 1, "all_reduce", "completed", 10);
    // A call that is slow the first time.
    run.call(0, "cudaStreamCreate", 20_000, 200_000);
    run.call(0, "cudaStreamCreate", 230_000, 10);
    // One rank trains with Composer, the other with Determined.
    for batch in 0..3 {
        let start = batch * 10_000;
        run.composer(0, "event/dataloader", batch, (start, start + 1_000))
            .composer(0, "event/batch", batch, (start + 1_000, start + 8_000))
            .composer(0, "callback/Timer/event/batch_end", batch, (start + 8_000, start + 8_100))
            .half_event(0, "E", "event/batch", batch + 10, start + 9_000)
            .half_event(0, "E", "callback/Timer/event/before_dataloader", batch, start)
            .half_event(0, "E", "callback/Timer/event/batch_start", batch, start + 1_000)
            .half_event(0, "E", "event/batch", batch, start + 8_050)
            .determined(1, "dataloader_next", batch, (start, start + 1_000))
            .determined(1, "train_batch", batch + 1, (start + 1_000, start + 8_000));
        for series in [
            sampled("cpu_util", "percent"),
            sampled("host_memory_free", "bytes"),
            Series { device: "GPU-1", agent: "a", ..sampled("gpu_util", "percent") },
            Series { device: "vda", is_cumulative: true, ..sampled("disk_read", "bytes") },
            sampled("throughput", "samples/s"),
        ] {
            run.sample_in_batch(1, series, start + 8_500, batch + 1, (batch * 10 + 1) as f64);
        }
    }
    // The last of them writes a profile.
    for (start, pause) in [(100_000, 100), (200_000, 100), (300_000, 20_000_000)] {
        run.half_event(0, "E", "event/batch", 9, start).half_event(
            0,
            "E",
            "callback/JSONTraceHandler/event/batch_end",
            9,
            start + pause,
        );
    }
    run
}

/// Runs that lack kinds of data that most runs lack: training on one GPU with and without stacks of Python, training on the
/// CPU, and a single operator.
fn sparse_runs() -> Vec<(&'static str, TableSet)> {
    let mut one_operator = Run::default();
    one_operator.rank(0).op(0, "aten::add", 1, 5);
    let mut on_cpu = Run::default();
    on_cpu.rank(0);
    add_training_steps(&mut on_cpu, true);
    vec![
        ("one GPU", one_gpu_run(true).tables()),
        ("one GPU without stacks", one_gpu_run(false).tables()),
        ("training on the CPU", on_cpu.tables()),
        ("one operator", one_operator.tables()),
    ]
}

fn one_gpu_run(has_stacks: bool) -> Run {
    let mut run = Run::default();
    run.rank_with_cut(0, 3, 20_000).device(0, 1_000).memory_totals(0, 5, 100, 200);
    add_training_steps(&mut run, has_stacks);
    for step in 0..3 {
        let start = step * 10_000;
        run.kernel_in_step(0, step, start + 2_000, 500, (start + 1_500, 100))
            .launched_by_op()
            .with_occupancy(0.5, 0.25)
            .memcpy(0, start + 4_000, 100, 64, Some((start + 3_900, 300)))
            .memset(0, start + 4_200, 100)
            .memory_event(
                0,
                (1, 0),
                start + 1_450,
                4_096 + step,
                100,
                Some((step * 100 + 200, 900)),
            )
            .memory_in_step(step)
            .memory_in_op(1, "aten::mm");
        run.call(0, "cudaMalloc", start + 200, 10);
        for (i, name) in ["mul", "_softmax", "add"].into_iter().enumerate() {
            let start = start + 7_000 + 100 * i as i64;
            run.op(0, &format!("aten::{name}"), start, 50)
                .with_input_dims("[[2, 4, 4], [2, 4, 4]]")
                .with_input_types(r#"["float", "float"]"#)
                .kernel_in_step(0, step, start + 20, 50, (start + 5, 10))
                .launched_by_op()
                .with_launch_shape("[660, 1, 1]", "[256, 1, 1]", 64, 5.0);
        }
    }
    // A call that is slow the first time.
    run.call(0, "cudaStreamCreate", 20_000, 200_000);
    run.call(0, "cudaStreamCreate", 230_000, 10);
    run
}

fn add_training_steps(run: &mut Run, has_stacks: bool) {
    for step in 0..3 {
        let start = step * 10_000;
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        run.step(0, step, start, 9_000, step == 2)
            .annotation(0, loader, start, 1_000)
            .op(0, "autograd::engine::evaluate_function: MmBackward0", start + 5_000, 100)
            .annotation(0, "Optimizer.step#SGD.step", start + 6_000, 100)
            .op(0, "aten::mm", start + 1_400, 400)
            .with_input_dims("[[4, 4], [4, 4]]")
            .with_input_types(r#"["float", "float"]"#);
        if has_stacks {
            run.python_frame(0, "nn.Module: Linear_0", start + 6_900, 700);
        }
    }
}

#[test]
fn header_columns_are_the_columns_of_the_view() {
    let empty = Session::new(analyses::catalog(), TableSet::default(), &Params::default()).unwrap();
    let small = small_run().open();
    for module in catalog().views() {
        for (what, session) in [("no rows", &empty), ("a few rows", &small)] {
            let batches = session.analyze(&module.name).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(column_names(&batches), header_names(module), "{} on {what}", module.path);
        }
        // `events` reads files; delayed calls are those of ranks without a device (tests/it/cpu_views.rs).
        // All steps take as long as each other.
        let may_be_empty =
            ["events", "op_cpu_delayed_calls", "step_excess"].contains(&module.name.as_str());
        assert!(
            small.analyze(&module.name).unwrap()[0].num_rows() > 0 || may_be_empty,
            "{} has no rows on a run that has a bit of everything",
            module.path
        );
    }
}

/// A query without rows takes its schema from the file instead of a plan. `UPDATE=1` rewrites the file.
#[test]
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn known_schemas_are_those_of_the_queries() {
    let session = small_run().open();
    let mut fresh = String::new();
    let mut add = |name: &str, batches: &[RecordBatch]| {
        let _ = writeln!(fresh, "{name}");
        for field in batches[0].schema().fields() {
            let nulls = if field.is_nullable() { "?" } else { "" };
            let _ = writeln!(fresh, "  {} {}{nulls}", field.name(), field.data_type());
        }
    };
    let mut views: Vec<&ViewDef> = catalog().views().iter().collect();
    views.sort_by_key(|view| &view.name);
    for view in views {
        match view.rust {
            None => add(&view.name, &session.analyze(&view.name).unwrap()),
            Some(rust) => {
                for (input, sql) in rust.inputs {
                    add(&format!("{}/{input}", view.name), &session.sql(sql).unwrap());
                }
            }
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schemas.txt");
    if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap();
    assert!(committed == fresh, "src/schemas.txt is stale: run this test with UPDATE=1");
}

/// The queries of rules and predictions.
fn queries_besides_views(rules: &RuleSet) -> Vec<String> {
    let mut texts = trace_advisor::queries_of_check(rules);
    texts.retain(|text| catalog().find(text).is_none());
    texts
}

/// `check`, the page and `map` run the plans in the file. `UPDATE=1` rewrites it.
#[test]
#[expect(clippy::disallowed_methods, reason = "UPDATE=1 is the one switch of generated files")]
fn prepared_plans_are_those_of_the_queries() {
    let rules = trace_advisor::default_rules();
    let views = rules.views();
    let mapped = trace_advisor::mapped_views(&rules, page::VIEWS).unwrap();
    let uses = [
        ViewUse { views: &views, later: &[] },
        ViewUse { views: &views, later: page::VIEWS },
        ViewUse { views: &mapped, later: &[] },
    ];
    let texts = queries_besides_views(&rules);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/prepared_plans.bin");
    let committed = std::fs::read(&path).unwrap();
    let sparse: Vec<TableSet> = sparse_runs().into_iter().map(|(_, tables)| tables).collect();
    let fresh = prepare_plans(catalog(), &small_run().tables(), &sparse, &uses, &texts, &committed)
        .unwrap();
    if std::env::var("UPDATE").is_ok_and(|v| v == "1") {
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read(&path).unwrap();
    assert!(committed == fresh, "src/prepared_plans.bin is stale: run this test with UPDATE=1");
}

/// Otherwise the program is right, but takes twice the time.
#[test]
fn queries_of_rules_are_not_planned() {
    let mut one_kernel = Run::default();
    one_kernel
        .rank(0)
        .step(0, 1, 0, 1_000, true)
        .device(0, 1_000)
        .op_with_kernels(0, "aten::mm", 100, 500, 2);
    let rules = trace_advisor::default_rules();
    let views = rules.views();
    let texts = queries_besides_views(&rules);
    let mut runs = sparse_runs();
    runs.extend([
        ("no rows", TableSet::default()),
        ("one kernel", one_kernel.tables()),
        ("a few rows", small_run().tables()),
    ]);
    for (what, tables) in runs {
        let session = Session::new(catalog(), tables, &Params::default()).unwrap();
        session.metric_tables(&views).unwrap();
        for text in &texts {
            session.rule_sql(text).unwrap();
            session.program_sql(text).unwrap();
        }
        assert_eq!(session.planned_queries(), [""; 0], "{what}");
    }
    let mapped = trace_advisor::mapped_views(&rules, page::VIEWS).unwrap();
    let session = small_run().open();
    session.view_rows(&mapped).unwrap();
    assert_eq!(session.planned_queries(), [""; 0], "mapped");
}

#[test]
fn parameter_changes_only_the_plans_of_queries_that_mention_it() {
    let rules = trace_advisor::default_rules();
    let views = rules.views();
    let planned = |short_kernel_us: i64| {
        let mut params = Params::default();
        params.set("short_kernel_us", short_kernel_us);
        let session = small_run().open_with(&params);
        session.metric_tables(&views).unwrap();
        session.planned_queries()
    };
    assert_eq!(planned(100), [""; 0], "the default");
    assert_eq!(planned(99), ["gpu_idle_causes"]);
}

#[test]
fn prepared_plans_give_the_rows_of_the_planner() {
    let rules = trace_advisor::default_rules();
    let views = rules.views();
    let texts = queries_besides_views(&rules);
    // The same views without the plans of the catalog.
    let without = catalog().clone().with_prepared_plans(&[]).unwrap();
    let without: &'static Catalog = Box::leak(Box::new(without));
    let mut changed = Params::default();
    changed.set("include_last_step", true).set("short_kernel_us", 10);
    let mut runs: Vec<_> =
        sparse_runs().into_iter().map(|(what, tables)| (what, tables, Params::default())).collect();
    runs.push(("a few rows", small_run().tables(), Params::default()));
    runs.push(("changed parameters", small_run().tables(), changed));
    for (what, tables, params) in runs {
        let prepared = Session::new(catalog(), tables.clone(), &params).unwrap();
        let planned = Session::new(without, tables, &params).unwrap();
        let rows = |session: &Session| {
            let tables = session.metric_tables(&views).unwrap().into_iter();
            tables.map(|table| format!("{:?}", table.unwrap())).collect::<Vec<_>>()
        };
        for (view, (a, b)) in views.iter().zip(rows(&prepared).iter().zip(&rows(&planned))) {
            assert_eq!(a, b, "{view} of {what}");
        }
        for text in &texts {
            let [a, b] = [&prepared, &planned].map(|session| {
                let rows = pretty_format_batches(&session.rule_sql(text).unwrap()).unwrap();
                let mut lines: Vec<String> = rows.to_string().lines().map(str::to_owned).collect();
                lines.sort_unstable();
                lines
            });
            assert_eq!(a, b, "{text} of {what}");
        }
        assert!(planned.planned_queries().len() > if what == "a few rows" { 100 } else { 10 });
    }
}

#[test]
fn views_become_metric_tables() {
    let session = small_run().open();
    let names: Vec<&str> = catalog().views().iter().map(|m| m.name.as_str()).collect();
    let tables = crate::support::tables(&session, &names);
    for (table, module) in tables.iter().zip(catalog().views()) {
        assert_eq!(table.view, module.name);
        assert!(table.rows.iter().all(|row| row.len() == module.columns.len()), "{}", module.name);
    }
}

#[test]
fn metric_rows_are_identified_by_the_keys_of_their_scope() {
    let session = small_run().open();
    for module in catalog().views() {
        let Some(scope) = module.columns.iter().find_map(|c| c.metric) else { continue };
        assert!(
            module.columns.iter().filter_map(|c| c.metric).all(|s| s == scope),
            "{}: metrics of one view have one scope",
            module.path
        );
        // The reasons for idleness of a stream, the devices of a step and the families of a kernel are rows of their own.
        let mut keys = scope.keys().to_vec();
        keys.extend(module.columns.iter().map(|c| c.name.as_str()).filter(|c| {
            matches!(*c, "idle_category" | "kind" | "on_device" | "metric" | "family")
                || (*c == "device" && !scope.keys().contains(c))
        }));
        let rows = crate::support::rows(&session, &module.name, &keys);
        let distinct: BTreeSet<&String> = rows.iter().collect();
        assert_eq!(distinct.len(), rows.len(), "{}: {keys:?} is not a key", module.path);
    }
}

#[test]
fn needs_are_what_the_query_reads() {
    for module in catalog().views() {
        let read = module.relations_read().unwrap();
        let needs: BTreeSet<String> = module.needs.iter().cloned().collect();
        assert_eq!(needs, read, "{}", module.path);
    }
}

/// A row meets each equal row of the other side: with one row per step there, work grows with the square of the run.
#[test]
fn in_subqueries_are_distinct() {
    let lists = |module: &'static ViewDef| module.text.match_indices(" IN (SELECT ");
    let all: Vec<(&str, &str)> = catalog()
        .views()
        .iter()
        .flat_map(|m| lists(m).map(|(at, _)| (m.path.as_str(), &m.text[at..])))
        .collect();
    assert!(all.len() > 5, "{all:?}");
    for (path, text) in all {
        assert!(text.starts_with(" IN (SELECT DISTINCT "), "{path}: {text:.60}");
    }
}

#[test]
fn params_are_what_the_query_mentions() {
    for module in catalog().views().iter().filter(|m| m.rust.is_none()) {
        let mentioned: BTreeSet<&str> = module
            .text
            .lines()
            .filter(|line| !line.starts_with("--"))
            .flat_map(|line| line.split('$').skip(1))
            .filter_map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next())
            .collect();
        let declared: BTreeSet<&str> = module.params.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(declared, mentioned, "{}", module.path);
    }
}

#[test]
fn metrics_named_in_rules_exist() {
    let metrics: BTreeSet<String> =
        catalog().metrics().iter().map(trace_model::MetricSpec::name).collect();
    for name in [
        "step_time_summary.cv_ratio",
        "step_phases.dataloader_idle_ratio",
        "gpu_temporal_breakdown.idle_ratio",
        "gpu_utilization.kernel_busy_ratio",
        "gpu_utilization.sm_efficiency_ratio",
        "gpu_idle_breakdown.idle_ratio",
        "gpu_idle_causes.sync_ratio",
        "gpu_kernels.ratio",
        "kernel_sizes.short_gap_ratio",
        "comm_overlap.exposed_ratio",
        "comm_exposed.exposed_ratio",
        "step_breakdown.communication_ratio",
        "gpu_tensor_cores.missed_ratio",
        "run_configuration.data_parallel_count",
        "comm_stragglers.caused_wait_ratio",
        "queue_length.full_ratio",
        "kernel_launch_summary.median_delay_ns",
        "memory_peak.allocated_ratio",
        "trace_quality.unlinked_ratio",
    ] {
        assert!(metrics.contains(name), "{name} is gone");
    }
}

/// The pages for users of other tools name views that exist.
#[test]
fn migration_pages_name_existing_views() {
    for (page, at_least) in [("from-hta.md", 30), ("from-tensorboard.md", 60)] {
        let path = format!("{}/../../docs/{page}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        // The table of methods before it names arguments of HTA.
        let views = text.split_once("| HTA | Trace Advisor |").map_or(&*text, |(_, views)| views);
        let mut named = 0;
        for line in views.lines().filter(|line| line.starts_with("| ")) {
            let ours = line.split('|').nth(2).unwrap();
            for code in ours.split('`').skip(1).step_by(2) {
                let name = code.strip_prefix("advisor analyze ").unwrap_or(code);
                let name = name.split(['.', ' ']).next().unwrap();
                let is_name =
                    name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                if !is_name || name == "self_dur_ns" {
                    continue;
                }
                let exists =
                    catalog().find(name).is_some() || trace_model::tables::find(name).is_some();
                assert!(exists, "{page}: {name} is neither a view nor a table");
                named += 1;
            }
        }
        assert!(named >= at_least, "{page}: only {named} names found");
    }
}
