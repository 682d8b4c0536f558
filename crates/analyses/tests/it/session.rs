//! The contract of a session: parameters, read-only queries, errors with a position.

use std::time::Duration;

use analyses::catalog;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use query::{Cancellation, Error, Params, Session};
use trace_model::TableSet;

use crate::support::Run;

fn empty() -> Session {
    Session::new(analyses::catalog(), TableSet::default(), &Params::default()).expect("a session")
}

#[test]
fn unknown_and_mistyped_parameters_are_refused() {
    let open = |name: &str, text: &str| {
        let mut params = Params::default();
        catalog()
            .parse_param(name, text)
            .map(|value| {
                params.set(name, value);
            })
            .map_err(|e| e.to_string())
    };
    assert_eq!(open("short_kernel_us", "10"), Ok(()));
    assert_eq!(
        open("short_kernel_us", "ten").unwrap_err(),
        "parameter `short_kernel_us` is an integer, not `ten`"
    );
    assert_eq!(
        open("include_last_step", "1").unwrap_err(),
        "parameter `include_last_step` is true or false, not `1`"
    );
    let unknown = open("short", "1").unwrap_err();
    assert!(
        unknown
            .starts_with("there is no parameter `short`; there are: consecutive_kernel_delay_us, "),
        "{unknown}"
    );

    let mut params = Params::default();
    params.set("short_kernel_us", true);
    assert!(matches!(
        Session::new(analyses::catalog(), TableSet::default(), &params),
        Err(Error::ParamType { .. })
    ));
    let mut params = Params::default();
    params.set("colour", "red");
    assert!(matches!(
        Session::new(analyses::catalog(), TableSet::default(), &params),
        Err(Error::UnknownParam { .. })
    ));
}

#[test]
fn queries_use_parameters_and_views() {
    let mut run = Run::default();
    run.rank(0).kernel(0, "computation", 0, 5_000, None).kernel(
        0,
        "computation",
        9_000,
        500_000,
        None,
    );
    let session = run.open();
    let batches = session
        .sql("SELECT count(*) FROM device_activities WHERE dur_ns < $short_kernel_us * 1000")
        .unwrap();
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 1);
}

/// Returns how many times a view is computed when `metric_tables` reads it first and a query reads it later.
fn computed(expected: &[&str]) -> usize {
    let session = empty();
    session.expect(expected).unwrap();
    session.metric_tables(&["gpu_kernels"]).unwrap();
    session.sql("SELECT name FROM gpu_kernels").unwrap();
    session.view_times().iter().filter(|(view, _)| *view == "gpu_kernels").count()
}

#[test]
fn expected_views_are_computed_once() {
    assert_eq!(computed(&["gpu_kernels"]), 1);
    assert_eq!(computed(&[]), 2, "the rows of a view that nothing else reads are not kept");
    assert!(matches!(empty().expect(&["gpu_kernel"]), Err(Error::UnknownView { .. })));
}

#[test]
fn queries_of_the_program_return_the_same_rows_and_change_nothing() {
    let mut run = Run::default();
    run.rank(0).kernel(0, "gemm", 0, 5_000, None).kernel(0, "softmax", 9_000, 500_000, None);
    let session = run.open();
    for query in [
        "SELECT name, dur_ns, count(*) OVER () AS rows FROM kernels WHERE dur_ns > $short_kernel_us ORDER BY dur_ns DESC LIMIT 1",
        "SELECT k.name, a.share FROM gpu_kernels k JOIN (SELECT name, dur_ns / 10 AS share FROM kernels) a ON a.name = k.name ORDER BY k.name",
        "SELECT name FROM kernels UNION ALL SELECT name FROM cpu_ops ORDER BY name",
    ] {
        assert_eq!(session.program_sql(query).unwrap(), session.sql(query).unwrap(), "{query}");
    }
    assert!(session.program_sql("SELECT nme FROM kernels").is_err());
    let drop = session.program_sql("DROP TABLE kernels");
    assert!(matches!(drop, Err(Error::NotReadOnly(_))), "{drop:?}");
}

#[test]
fn session_refuses_statements_that_write() {
    let session = empty();
    for query in [
        "CREATE TABLE x AS SELECT 1",
        "CREATE VIEW x AS SELECT 1",
        "DROP TABLE kernels",
        "INSERT INTO kernels SELECT * FROM kernels",
        "COPY kernels TO '/tmp/kernels.csv'",
        "EXPLAIN ANALYZE INSERT INTO kernels SELECT * FROM kernels",
        "SET datafusion.execution.batch_size = 1",
        "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION '/etc/passwd'",
    ] {
        let outcome = session.sql(query);
        assert!(
            matches!(outcome, Err(Error::NotReadOnly(_) | Error::Query(_))),
            "{query}: {outcome:?}"
        );
    }
    assert_eq!(session.sql("SELECT * FROM kernels").unwrap()[0].num_rows(), 0);
    for query in [
        "VALUES (1)",
        "WITH a AS (SELECT 1 AS x) SELECT * FROM a",
        "EXPLAIN SELECT * FROM gpu_kernels",
        "SHOW TABLES",
        "DESCRIBE gpu_kernels",
    ] {
        assert!(
            session.sql(query).unwrap_or_else(|e| panic!("{query}: {e}"))[0].num_rows() > 0,
            "{query}"
        );
    }
    assert!(matches!(session.sql("SELECT * FROM '/etc/passwd'"), Err(Error::Query(_))));
}

#[test]
fn tables_and_views_are_listed() {
    let batches = empty()
        .sql("SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW'")
        .unwrap();
    let listed: usize = batches.iter().map(trace_model::RecordBatch::num_rows).sum();
    assert!(listed >= catalog().views().len());
}

#[test]
fn unknown_view_has_a_suggestion() {
    let message = empty().analyze("gpu_utilisation").unwrap_err().to_string();
    assert_eq!(message, "there is no view `gpu_utilisation` (did you mean `gpu_utilization`?)");
    assert!(empty().metric_tables(&["step_time", "nothing_like_it_at_all"]).is_err());
}

#[test]
fn query_errors_are_explained() {
    let explained = |sql: &str| match empty().sql(sql) {
        Err(Error::Query(diagnostic)) => *diagnostic,
        other => panic!("{sql}: {other:?}"),
    };
    for (sql, marked, message, help) in [
        (
            "SELECT nam FROM kernels",
            "nam",
            "no column `nam`",
            "did you mean `name`? The columns are name, launch_name, op_name, ",
        ),
        (
            "SELECT start_ns FROM kernels",
            "start_ns",
            "no column `start_ns`",
            "did you mean `ts_ns`? The columns are ts_ns, ",
        ),
        (
            "SELECT end FROM kernels",
            "end",
            "no column `end`",
            "did you mean `ts_ns + dur_ns`? The columns are ",
        ),
        (
            "SELECT xyzzy FROM unprofiled_steps",
            "xyzzy",
            "no column `xyzzy`",
            "the columns are rank, ",
        ),
        (
            "SELECT xyzzy FROM (SELECT name AS n FROM kernels)",
            "xyzzy",
            "no column `xyzzy`",
            "the columns are n",
        ),
        (
            "SELECT 1 FROM gpu_util",
            "gpu_util",
            "no table or view `gpu_util`",
            "there are `gpu_utilization",
        ),
        (
            "SELECT name\nFROM kernel",
            "kernel",
            "no table or view `kernel`",
            "did you mean `kernels`?",
        ),
        ("SELECT abss(1)", "abss", "no function `abss`", "did you mean `abs`?"),
        (
            "SELECT zzz(1)",
            "zzz",
            "no function `zzz`",
            "the query `SHOW FUNCTIONS` lists the functions",
        ),
        ("SELECT 'ü', (1", "", "but the query ends here", ""),
        ("SELECT 'ü', (1 FROM kernels", "FROM", "found `FROM`", ""),
        (
            "SELECT 1 FROM kernels WHERE name = \"x y\"",
            "\"x y\"",
            "`x y`",
            "use single quotes for text: 'x y'",
        ),
    ] {
        let found = explained(sql);
        assert!(found.message.contains(message), "{found:?}");
        assert_eq!(&sql[found.span.clone().unwrap()], marked, "{found:?}");
        let helps = found.help.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(helps.starts_with(help) && helps.is_empty() == help.is_empty(), "{found:?}");
    }
}

#[test]
fn canceled_queries_end() {
    let session = empty();
    // A product of columns: statistics of tables answer `count(*)` at once.
    let endless = "WITH n AS (SELECT * FROM (VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS t(i)) \
        SELECT sum(a.i * m.i) FROM n a, n b, n c, n d, n e, n f, n g, n h, n i, n j, n k, n l, n m";
    let cancellation = Cancellation::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            cancellation.cancel();
        });
        let outcome = session.sql_unless(&cancellation, endless);
        assert!(matches!(outcome, Err(Error::Canceled)), "{outcome:?}");
    });
    // One that is canceled already starts none.
    let outcome = session.sql_unless(&cancellation, endless);
    assert!(matches!(outcome, Err(Error::Canceled)), "{outcome:?}");
    assert_eq!(session.sql("SELECT 1").unwrap()[0].num_rows(), 1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            session.cancel_calls();
        });
        let outcome = session.sql(endless);
        assert!(matches!(outcome, Err(Error::Canceled)), "{outcome:?}");
    });
    // Calls that start later are not canceled.
    assert_eq!(session.sql("SELECT 1").unwrap()[0].num_rows(), 1);
}

#[test]
fn rows_come_in_the_declared_order_from_concurrent_views() {
    let mut run = Run::default();
    for rank in [3, 1, 2] {
        run.rank(rank).kernel(rank, "computation", 0, 10, None).kernel(
            rank,
            "computation",
            20,
            10,
            None,
        );
    }
    let session = run.open();
    let views: Vec<&str> = catalog().views().iter().map(|m| m.name.as_str()).collect();
    let together = crate::support::tables(&session, &views);
    for (view, table) in views.iter().zip(&together) {
        assert_eq!(&crate::support::table(&session, view), table, "{view}");
    }
    assert_eq!(
        crate::support::rows(&session, "gpu_temporal_breakdown", &["rank"]),
        ["1", "2", "3"]
    );
}

#[test]
fn session_serves_several_threads() {
    let mut run = Run::default();
    run.rank(0).kernel(0, "computation", 0, 10, None);
    let session = run.open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                assert_eq!(session.analyze("gpu_temporal_breakdown").unwrap()[0].num_rows(), 1);
            });
        }
    });
}

#[test]
fn rust_view_explains_invalid_parameters() {
    let mut params = Params::default();
    params.set("what_if", "bogus=0.5");
    let session = Run::default().open_with(&params);
    let error = session.analyze("critical_what_if").unwrap_err().to_string();
    assert!(error.starts_with("critical_what_if: what_if: there is no class `bogus`"), "{error}");
    let error = session.sql("SELECT * FROM critical_what_if").unwrap_err().to_string();
    assert!(error.starts_with("critical_what_if: "), "{error}");
}
