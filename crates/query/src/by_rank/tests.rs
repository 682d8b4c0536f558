use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::sync::Arc;

use datafusion::execution::SessionState;
use tokio::runtime::Builder;

use super::outline::{Known, Outline};
use super::reach::Reach;
use crate::session::context;
use crate::{catalog, planning};

fn planner() -> (Arc<Outline>, SessionState) {
    let outline = Arc::new(Outline::default());
    let context = context(1, Arc::default(), Arc::clone(&outline) as _).unwrap();
    (outline, planning::for_views(&context.state(), true))
}

/// On a thread whose stack is deep enough for planning.
fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let runtime = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.block_on(runtime.spawn(future)).unwrap()
}

fn known(sql: &str) -> Known {
    let ((outline, state), sql) = (planner(), sql.to_owned());
    wait(async move { outline.query(&state, &sql, &HashMap::new()).await.unwrap() })
}

fn reach(sql: &str) -> Reach {
    known(sql).reach
}

fn rank(columns: &[usize]) -> Reach {
    Reach::Rank(columns.iter().copied().collect())
}

#[test]
fn what_stays_within_a_rank_does() {
    for (sql, columns) in [
        ("SELECT name, rank FROM kernels WHERE dur_ns > 5", &[1][..]),
        ("SELECT CAST(rank AS BIGINT) AS r, sum(dur_ns) FROM kernels GROUP BY rank", &[0]),
        ("SELECT DISTINCT rank, name FROM kernels", &[0]),
        (
            "SELECT k.rank, o.rank, o.name FROM kernels k JOIN cpu_ops o ON o.rank = k.rank AND o.event_id = k.op",
            &[0, 1],
        ),
        // Of the other side there may be no row: it does not say the rank.
        ("SELECT s.rank, k.rank FROM steps s LEFT JOIN kernels k ON k.rank = s.rank AND k.step = s.step", &[0]),
        ("SELECT k.dur_ns FROM kernels k JOIN ranks r ON r.rank = k.rank", &[]),
        ("SELECT rank FROM kernels UNION ALL SELECT rank FROM memcpys", &[0]),
        ("SELECT rank, sum(dur_ns) OVER (PARTITION BY rank, device ORDER BY ts_ns) FROM kernels", &[0]),
        ("SELECT rank, v FROM ranks CROSS JOIN (VALUES (1), (2)) AS t(v)", &[0]),
        ("SELECT rank FROM kernels k WHERE EXISTS (SELECT 1 FROM steps s WHERE s.rank = k.rank)", &[0]),
        ("SELECT rank FROM kernels k WHERE name IN (SELECT s.name FROM memsets s WHERE s.rank = k.rank)", &[0]),
        // No table has rows without a rank: which others there are says nothing.
        ("SELECT rank FROM kernels WHERE rank NOT IN (SELECT rank FROM steps)", &[0]),
        ("SELECT rank, name FROM kernels ORDER BY dur_ns", &[0]),
        (
            "WITH s AS (SELECT rank, max(ts_ns) AS last FROM steps GROUP BY rank)
             SELECT k.rank, count(*) FROM kernels k JOIN s ON s.rank = k.rank WHERE k.ts_ns < s.last GROUP BY k.rank",
            &[0],
        ),
    ] {
        assert_eq!(reach(sql), rank(columns), "{sql}");
    }
}

#[test]
fn what_may_compare_ranks_is_never_taken_for_one_rank() {
    for sql in [
        "SELECT count(*) FROM kernels",
        // Some are about the run.
        "SELECT rank, code FROM reading_warnings",
        "SELECT name, sum(dur_ns) FROM kernels GROUP BY name",
        "SELECT DISTINCT name FROM kernels",
        "SELECT rank + 1 AS rank, count(*) FROM kernels GROUP BY rank + 1",
        "SELECT k.rank, o.name FROM kernels k JOIN cpu_ops o ON o.event_id = k.op",
        "SELECT a.rank FROM ranks a JOIN ranks b ON a.rank = b.rank + 1",
        "SELECT a.rank FROM ranks a CROSS JOIN ranks b",
        "SELECT rank, row_number() OVER (ORDER BY ts_ns) FROM kernels",
        "SELECT rank, sum(dur_ns) OVER (PARTITION BY rank), max(dur_ns) OVER (PARTITION BY name) FROM kernels",
        "SELECT rank FROM kernels LIMIT 3",
        "SELECT rank FROM kernels ORDER BY dur_ns LIMIT 3",
        "SELECT rank FROM kernels UNION ALL SELECT 7",
        "SELECT rank FROM kernels UNION SELECT device FROM kernels",
        "SELECT rank FROM kernels WHERE (SELECT count(*) FROM ranks) > 1",
        "SELECT rank FROM kernels WHERE name IN (SELECT name FROM memsets)",
        "SELECT rank FROM kernels WHERE dur_ns > (SELECT avg(dur_ns) FROM kernels)",
        "SELECT rank FROM kernels k WHERE EXISTS (SELECT 1 FROM steps s WHERE s.step = k.step)",
        "SELECT v, k.rank FROM (VALUES (1)) AS t(v) LEFT JOIN kernels k ON k.device = t.v",
        "SELECT c.rank FROM (SELECT k.rank FROM steps s LEFT JOIN kernels k ON k.rank = s.rank) c JOIN ranks r ON r.rank = c.rank",
    ] {
        assert_eq!(reach(sql), Reach::Run, "{sql}");
    }
    assert_eq!(reach("SELECT 1 AS rank"), Reach::Nothing);
}

#[test]
fn columns_are_read_that_are_needed_or_named() {
    let known = known(
        "WITH k AS (SELECT rank, name, ts_ns FROM kernels WHERE false AND grid = 'x')
         SELECT rank, name FROM k",
    );
    let names = |table: &str| -> Vec<&str> {
        let spec = trace_model::tables::find(table).unwrap();
        known.columns[table].iter().map(|&at| spec.columns[at].name).collect()
    };
    assert_eq!(names("kernels"), ["rank", "name", "ts_ns", "grid"]);
}

/// Views that compare ranks are computed over the whole run, however large it is. Whoever adds one sees to it that it
/// reads views with few rows a rank, or keeps `rank` among what it joins and groups by.
#[test]
fn few_views_compare_ranks() {
    let (outline, state) = planner();
    let modules: Vec<_> = catalog().modules().iter().collect();
    let params = modules.iter().flat_map(|m| &m.params);
    let params = params.map(|p| (p.name.clone(), p.scalar(None))).collect();
    let known: BTreeMap<&str, Known> =
        wait(async move { outline.learn(&state, &modules, &params).await.unwrap() });
    let across: Vec<&str> = known
        .iter()
        .filter(|(_, known)| known.reach == Reach::Run)
        .map(|(&view, _)| view)
        .collect();
    assert_eq!(
        across,
        [
            "comm_arrivals",
            "comm_balance",
            "comm_clocks",
            "comm_exposed",
            "comm_habits",
            "comm_matches",
            "comm_potential_stragglers",
            "comm_sizes",
            "comm_stragglers",
            "comm_table",
            "comm_wait",
            "comm_wait_by_step",
            "gpu_kernel_breakdown",
            "gpu_kernels_across_ranks",
            "gpu_utilization_series",
            "loader_jitter",
            "memory_balance",
            "run_configuration",
            "snapshot_by_category",
            "step_phases",
            "system_hosts",
            "system_input_limits",
            "system_metrics_by_agent",
            "trace_completeness"
        ]
    );
}
