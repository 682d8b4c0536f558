//! The contract of a session: parameters, read-only queries, errors with a position.

use analyses::catalog;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use query::{Error, Params, Session};
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
    let message = empty().sql("SELECT nam FROM kernels").unwrap_err().to_string();
    assert!(message.contains("nam"), "{message}");
    assert!(empty().sql("SELECT * FROM").is_err());
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
    let together = session.metric_tables(&views).unwrap();
    for (view, table) in views.iter().zip(&together) {
        assert_eq!(&session.metric_tables(&[view]).unwrap()[0], table, "{view}");
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
