//! Tests of what happens when a view fails or a query takes too long, on a catalog of their own.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, Int32Array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use trace_model::{Batches, MetricTable, Partition, RecordBatch, ScanError, TableSet, TableSource};

use super::{FirstRows, Session, Tables, ViewUse, prepare_plans};
use crate::cancellation::Cancellation;
use crate::catalog::Catalog;
use crate::error::{Error, Result};
use crate::params::{ParamValue, Params};
use crate::rust_view::{self, RustView, SharedComputation, ViewInputs, ViewOutputs};
use crate::view::ViewSource;

/// A view of single ranks.
fn rank_view(columns: &str, needs: &str, sql: &str) -> String {
    format!(
        "--! row = \"x\"\n--! order = [\"rank\"]\n--! needs = [{needs}]\n--! when_empty = \"none\"\n\
         --! [columns]\n--! rank = \"rank\"\n{columns}\n{sql}"
    )
}

/// `good` and `on_good` work; `bad` divides by zero where a step is 1, and two views are built on it.
fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| {
        let x = "--! x = \"a number\"";
        let good = rank_view(x, "\"steps\"", "SELECT rank, step AS x FROM steps");
        let bad = rank_view(x, "\"steps\"", "SELECT rank, 1 / (step - 1) AS x FROM steps");
        let on_good = rank_view(x, "\"t_good\"", "SELECT rank, x + 1 AS x FROM t_good");
        let on_bad = rank_view(x, "\"t_bad\"", "SELECT rank, x + 1 AS x FROM t_bad");
        let of_run = on_bad.replace("--! order", "--! scope = \"run\"\n--! order");
        let sources = [
            ViewSource { path: "src/t/good.sql", text: &good },
            ViewSource { path: "src/t/bad.sql", text: &bad },
            ViewSource { path: "src/t/on_good.sql", text: &on_good },
            ViewSource { path: "src/t/on_bad.sql", text: &on_bad },
            ViewSource { path: "src/t/of_run.sql", text: &of_run },
        ];
        Catalog::new(&sources, &[]).unwrap()
    })
}

/// Rows of the table `steps`: rank and number.
fn steps(rows: &[(i32, i32)]) -> RecordBatch {
    let spec = trace_model::tables::find("steps").unwrap();
    let column = |name: &str, data_type: &DataType| -> ArrayRef {
        let values = rows.iter().map(|(rank, step)| match name {
            "rank" => *rank,
            "step" => *step,
            _ => 7,
        });
        cast(&Int32Array::from_iter_values(values), data_type).unwrap()
    };
    let schema = crate::provider::schema_without_metadata(spec);
    let columns = schema.fields().iter().map(|f| column(f.name(), f.data_type())).collect();
    RecordBatch::try_new(schema, columns).unwrap()
}

/// Two ranks that are read one by one; the second has the step that `bad` cannot divide by.
#[derive(Debug)]
struct TwoRanks;

impl TableSource for TwoRanks {
    fn partitions(&self, table: &str) -> Vec<Partition> {
        let of_rank = |rank| Partition { rank: Some(rank), rows: 1, bytes: 200 << 20 };
        if table == "steps" { vec![of_rank(0), of_rank(1)] } else { Vec::new() }
    }

    fn scan(&self, _: &str, partition: usize, columns: &[usize]) -> Result<Batches, ScanError> {
        let rank = partition as i32;
        let rows = steps(&[(rank, rank)]).project(columns)?;
        Ok(Box::new(std::iter::once(Ok(rows))))
    }
}

fn loaded() -> Session {
    let mut tables = TableSet::default();
    tables.push("steps", steps(&[(0, 0), (1, 1)]));
    Session::new(catalog(), tables, &Params::default()).unwrap()
}

/// A run that is computed rank by rank.
fn grouped() -> Session {
    let tables = Tables::Scanned(Arc::new(TwoRanks));
    Session::open(catalog(), &tables, Some(1 << 30), &Params::default()).unwrap()
}

fn outcome(table: &Result<MetricTable>) -> String {
    match table {
        Ok(table) => format!("{} rows", table.rows.len()),
        Err(error) => error.reason(),
    }
}

#[test]
fn view_that_fails_takes_only_what_is_built_on_it() {
    let views = ["t_good", "t_bad", "t_on_bad", "t_of_run", "t_on_good"];
    let failed = "the view `t_bad` failed: division by zero";
    let expected = ["2 rows", failed, failed, failed, "2 rows"];
    for session in [loaded(), grouped()] {
        let tables = session.metric_tables(&views).unwrap();
        assert_eq!(tables.iter().map(outcome).collect::<Vec<_>>(), expected);
        // Later queries get the same error.
        let error = session.analyze("t_of_run").unwrap_err();
        assert_eq!(error.reason(), failed);
        assert!(error.to_string().starts_with("src/t/bad.sql:"), "{error}");
        assert!(session.sql("SELECT * FROM t_on_bad").is_err());
        let rows = session.sql("SELECT * FROM t_on_good").unwrap();
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
        // A view that does not exist is a mistake of who asks.
        assert!(matches!(session.metric_tables(&["nothing"]), Err(Error::UnknownView { .. })));
    }
}

#[test]
fn rows_in_files_are_not_sorted_again() {
    let session = grouped();
    let plan = |order: &str| {
        let query = format!("EXPLAIN SELECT rank, x FROM t_on_good ORDER BY {order}");
        format!("{:?}", session.sql(&query).unwrap())
    };
    assert!(!plan("rank").contains("SortExec"), "{}", plan("rank"));
    assert!(plan("x").contains("SortExec"), "{}", plan("x"));
}

#[test]
fn rule_query_ends_with_its_time_and_leaves_nothing_running() {
    let mut session = loaded();
    session.limit_rule_queries(Duration::from_millis(300));
    let digits = "(VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10))";
    let from: Vec<String> = (0..14).map(|i| format!("{digits} AS t{i}")).collect();
    let from = from.join(", ");
    // The number of rows alone would be known without a join.
    let slow = format!("SELECT sum(t0.column1 * t9.column1) FROM {from}");
    for query in [
        slow.clone(),
        format!("SELECT count(*) FROM {from} WHERE t0.column1 + t5.column1 > t9.column1 * 100"),
        format!("SELECT t0.column1, count(*) FROM {from} GROUP BY t0.column1 ORDER BY 2"),
    ] {
        let start = Instant::now();
        let outcome = session.rule_sql(&query);
        assert!(matches!(outcome, Err(Error::TimeLimit(_))), "{outcome:?}");
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        let tasks = || session.threads.metrics().num_alive_tasks();
        let ended = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            tasks() == 0
        });
        assert!(ended, "{} tasks still run", tasks());
    }
    assert_eq!(session.rule_sql("SELECT 1").unwrap()[0].num_rows(), 1);
    // After some more, queries of rules are not tried any more; those of users are.
    assert!(matches!(session.rule_sql(&slow), Err(Error::TimeLimit(_))));
    assert!(matches!(session.rule_sql("SELECT 1"), Err(Error::TimeLimit(_))));
    assert_eq!(session.sql("SELECT 1").unwrap()[0].num_rows(), 1);
}

/// Many slow queries of a page do not end the next ones, as those of rules do.
#[test]
fn first_rows_end_a_query_and_have_a_limit_of_time() {
    let mut session = loaded();
    session.limit_rule_queries(Duration::from_millis(300));
    let digits = "(VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10))";
    let from: Vec<String> = (0..14).map(|i| format!("{digits} AS t{i}")).collect();
    let from = from.join(", ");
    for _ in 0..6 {
        let query = format!("SELECT sum(t0.column1 * t9.column1) FROM {from}");
        let outcome = session.first_rows(&Cancellation::new(), &query, 7);
        assert!(matches!(outcome, Err(Error::TimeLimit(_))), "{outcome:?}");
    }
    session.limit_rule_queries(Duration::from_mins(1));
    let first = |query: &str| session.first_rows(&Cancellation::new(), query, 7);
    let rows = |first: &FirstRows| first.batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let cut = first(&format!("SELECT t0.column1 FROM {from}")).unwrap();
    assert_eq!((rows(&cut), cut.is_cut), (7, true));
    let all = first(&format!("SELECT column1 FROM {digits} LIMIT 7")).unwrap();
    assert_eq!((rows(&all), all.is_cut), (7, false));
    let none = first(&format!("SELECT column1 FROM {digits} WHERE column1 > 10")).unwrap();
    assert_eq!((rows(&none), none.is_cut, none.batches.len()), (0, false, 1));
    let canceled = Cancellation::new();
    canceled.cancel();
    let outcome = session.first_rows(&canceled, "SELECT 1", 7);
    assert!(matches!(outcome, Err(Error::Canceled)), "{outcome:?}");
}

#[test]
fn rule_query_has_a_limit_of_memory() {
    let session = loaded();
    let digits = "(VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10))";
    let from: Vec<String> = (0..7).map(|i| format!("{digits} AS t{i}")).collect();
    let query = format!("SELECT repeat('x', 7000) AS x, t0.column1 FROM {}", from.join(", "));
    let error = session.rule_sql(&query).unwrap_err().to_string();
    assert!(error.starts_with("not enough memory"), "{error}");
}

/// Returns the error of a query of a rule or of a page; empty if the query succeeds.
fn error_of_strangers(session: &Session, sql: &str) -> String {
    let text = |error: Error| error.to_string();
    let of_rule = session.rule_sql(sql).map_or_else(text, |_| String::new());
    let of_page = session.first_rows(&Cancellation::new(), sql, 7);
    assert_eq!(of_page.map_or_else(text, |_| String::new()), of_rule, "{sql}");
    of_rule
}

/// Returns a query with common table expressions, each of which computes `x` from the `x` of the previous one.
fn levels(count: usize, x: &str, end: &str) -> String {
    let first = "t0 AS (SELECT rank, step AS x FROM steps)".to_owned();
    let level = |i: usize| format!("t{i} AS (SELECT rank, {x} AS x FROM t{})", i - 1);
    let ctes: Vec<String> = std::iter::once(first).chain((1..=count).map(level)).collect();
    format!("WITH {} SELECT x FROM t{count} {end}", ctes.join(", "))
}

#[test]
fn expressions_of_strangers_do_not_grow_with_the_columns_that_they_mention() {
    let session = loaded();
    for (count, x, end) in [
        (17, "x + x", "WHERE x > 0"),
        (17, "x + x", "ORDER BY x LIMIT 1"),
        (17, "x + x", "JOIN steps ON x = step"),
        (17, "x + x", "GROUP BY x"),
        (17, "x + x", "WHERE EXISTS (SELECT 1 FROM steps WHERE step = x)"),
    ] {
        let sql = levels(count, x, end);
        let error = error_of_strangers(&session, &sql);
        assert!(error.starts_with("the expressions of the query have "), "{end}: {error}");
        assert!(error.contains("at most 200000 are allowed"), "{error}");
    }
    let union = vec!["SELECT rank FROM steps"; 250].join(" UNION ALL ");
    let numbers: Vec<String> = (2..1_000).map(|i| i.to_string()).collect();
    let sql = format!("SELECT rank FROM ({union}) WHERE rank NOT IN ({})", numbers.join(", "));
    let error = error_of_strangers(&session, &sql);
    assert!(error.starts_with("the expressions of the query have "), "{error}");
    // Expressions that are not repeated, or not moved through an operator, are allowed.
    for (count, x, end) in
        [(10, "x + x", "WHERE x > 0"), (40, "x + x", ""), (100, "x + 1", "WHERE x > 0")]
    {
        assert_eq!(error_of_strangers(&session, &levels(count, x, end)), "", "{count} {x} {end}");
    }
    let sums = levels(20, "sum(x) + sum(x)", "WHERE x >= 0").replace("), t", " GROUP BY rank), t");
    let sums =
        sums.replacen(" GROUP BY rank", "", 1).replace(") SELECT x", " GROUP BY rank) SELECT x");
    assert_eq!(error_of_strangers(&session, &sums), "");
}

#[test]
fn expressions_of_strangers_do_not_grow_with_their_depth() {
    let session = loaded();
    let nested = |count: usize, start: &str, middle: &str, end: &str| {
        format!("SELECT {}{middle}{} AS x FROM steps", start.repeat(count), end.repeat(count))
    };
    for sql in [
        nested(16, "(", "step > 0", " BETWEEN false AND true)"),
        nested(18, "coalesce(", "step", ", rank)"),
        nested(18, "nvl(", "step", ", rank)"),
        nested(12, "CASE WHEN ", "step > 0", " THEN rank > 0 ELSE rank > 1 END"),
    ] {
        let error = error_of_strangers(&session, &sql);
        assert!(error.starts_with("the expressions of the query have "), "{sql}: {error}");
    }
    let few = nested(8, "coalesce(", "step", ", rank)");
    assert_eq!(error_of_strangers(&session, &few), "");
}

/// The depth of an expanded column adds to the depth of the expression.
#[test]
fn expressions_of_strangers_are_not_nested_more_deeply_than_their_text() {
    let session = loaded();
    let sum = format!("x{}", " + 1".repeat(300));
    for end in ["", "WHERE x > 0"] {
        let error = error_of_strangers(&session, &levels(2, &sum, end));
        assert!(error.starts_with("the query is nested too deeply: expressions may be"), "{error}");
        assert_eq!(error_of_strangers(&session, &levels(1, &sum, end)), "");
    }
}

#[test]
fn constants_of_strangers_are_short() {
    let session = loaded();
    let error = error_of_strangers(&session, "SELECT repeat('a', 60000) AS a FROM steps");
    let says = "`repeat` would produce a constant of up to 60000 bytes; at most 32768 are allowed";
    assert!(error.contains(says), "{error}");
    let columns = |count: usize| {
        let columns: Vec<_> =
            (0..count).map(|i| format!("repeat('a', {}) AS a{i}", 1000 + i)).collect();
        format!("SELECT {} FROM steps", columns.join(", "))
    };
    let error = error_of_strangers(&session, &columns(40));
    assert!(error.starts_with("the query repeats constants of "), "{error}");
    let long = format!("SELECT rank, '{}' AS a FROM steps", "a".repeat(40_000));
    let error = error_of_strangers(&session, &long);
    assert!(error.starts_with("the query repeats constants of "), "{error}");

    let names: Vec<String> = (0..4_000).map(|i| format!("'aten::{i}'")).collect();
    let names = names.join(", ");
    let in_list = format!("SELECT rank FROM steps WHERE CAST(step AS VARCHAR) IN ({names})");
    for sql in [&columns(20), &in_list, "SELECT unnest(range(0, 2000)) AS a"] {
        assert_eq!(error_of_strangers(&session, sql), "", "{}", &sql[..sql.len().min(80)]);
    }
    assert!(session.sql("SELECT repeat('a', 60000) AS a FROM steps").is_ok());
}

#[test]
fn functions_of_strangers_take_a_limited_number_of_steps() {
    let session = loaded();
    for (call, says) in [
        (
            "levenshtein(repeat('a', 16000), repeat('b', 16000))",
            "`levenshtein` would take up to 256000000 steps; at most 16777216 are allowed",
        ),
        (
            "levenshtein(repeat('a', 70000 + rank), repeat('b', 70000))",
            "`repeat` would produce a constant",
        ),
        (
            "array_has_any(range(0, 70000 + rank), range(0, 70000 + rank))",
            "`array_has_any` would take up to 9800140001 steps for 2 rows; at most 4294967296",
        ),
        (
            "list_has_all(range(0, 70000 + rank), range(70000 + rank, 0, -1))",
            "`array_has_all` would take up to ",
        ),
        ("trim(repeat('a', 16000), repeat('b', 16000))", "`btrim` would take up to 256000000"),
        ("rtrim(repeat('a', 16000), repeat('b', 16000))", "`rtrim` would take up to 256000000"),
    ] {
        let error = error_of_strangers(&session, &format!("SELECT {call} AS x FROM steps"));
        assert!(error.contains(says), "{call}: {error}");
    }
    for call in [
        "levenshtein('kitten', 'sitting')",
        "levenshtein(repeat('a', 3000 + rank), 'a')",
        "array_has_all(range(0, 1000), range(0, 1000))",
        "trim('  x ')",
        "rtrim('xyy', 'y')",
    ] {
        assert_eq!(error_of_strangers(&session, &format!("SELECT {call} AS x FROM steps")), "");
    }
}

/// A catalog of two views, of which the second reads the first; `number` is part of the text of the first.
fn chain(number: &str) -> Catalog {
    let x = "--! x = \"a number\"";
    let inner = rank_view(x, "\"steps\"", &format!("SELECT rank, step + {number} AS x FROM steps"));
    let outer = rank_view(x, "\"t_inner\"", "SELECT rank, sum(x) AS x FROM t_inner GROUP BY rank");
    let sources = [
        ViewSource { path: "src/t/inner.sql", text: &inner },
        ViewSource { path: "src/t/outer.sql", text: &outer },
    ];
    Catalog::new(&sources, &[]).unwrap()
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

#[test]
fn prepared_plans_are_used_as_long_as_nothing_changes() {
    let mut tables = TableSet::default();
    tables.push("steps", steps(&[(0, 2), (0, 3), (1, 5)]));
    let uses = [ViewUse { views: &["t_outer"], later: &[] }];
    let text = "SELECT rank, x FROM t_outer WHERE x > 3";
    let prepare = |previous: &[u8]| {
        prepare_plans(leak(chain("1")), &tables, &[], &uses, &[text], previous).unwrap()
    };
    let file = prepare(&[]);
    assert_eq!(prepare(&file), file);
    let file: &'static [u8] = file.leak();

    let run = |number: &str, views: &[&str]| {
        let catalog = leak(chain(number).with_prepared_plans(file).unwrap());
        let session = Session::new(catalog, tables.clone(), &Params::default()).unwrap();
        let rows = session.metric_tables(views).unwrap().remove(0).unwrap();
        (session.planned_queries(), format!("{:?}", rows.rows))
    };
    let planned = |number: &str| {
        let catalog = leak(chain(number));
        let session = Session::new(catalog, tables.clone(), &Params::default()).unwrap();
        format!("{:?}", session.metric_tables(&["t_outer"]).unwrap().remove(0).unwrap().rows)
    };
    assert_eq!(run("1", &["t_outer"]), (vec![], planned("1")));
    // The text of the view that became part of the plan has changed.
    assert_eq!(run("2", &["t_outer"]), (vec!["t_outer".to_owned()], planned("2")));
    // The inner view is computed for itself, and not part of the plan.
    let both = ["t_inner".to_owned(), "t_outer".to_owned()];
    assert_eq!(run("1", &["t_outer", "t_inner"]), (both.to_vec(), planned("1")));

    // A query besides views reads their rows, whatever their text. One that is limited to some ranks is another text.
    let ask = |number: &str, ranks: &[i64]| {
        let catalog = leak(chain(number).with_prepared_plans(file).unwrap());
        let session = Session::new(catalog, tables.clone(), &Params::default()).unwrap();
        let rows = session.rule_rows_of_ranks(text, ranks).unwrap().num_rows();
        let planned = session.planned_queries();
        (rows, planned.iter().any(|query| query.contains("x > 3")))
    };
    assert_eq!(ask("1", &[]), (2, false));
    assert_eq!(ask("-2", &[]), (0, false));
    assert_eq!(ask("1", &[1]), (1, true));
}

/// A catalog with the parameter `offset`, which is an integer, and `scale`, which is a float: one view mentions them, one
/// reads that view, and one does neither.
fn catalog_with_params() -> Catalog {
    let x = "--! x = \"a number\"";
    let of_steps = |sql: &str| rank_view(x, "\"steps\"", sql);
    let shifted = of_steps("SELECT rank, (step + $offset) * $scale AS x FROM steps");
    let params = "--! [params]\n--! offset = { default = 1, doc = \"an offset\" }\n\
                  --! scale = { default = 2.0, doc = \"a scale\" }\n--! [columns]";
    let shifted = shifted.replace("--! [columns]", params);
    let plain = of_steps("SELECT rank, step AS x FROM steps");
    let sum = "SELECT rank, sum(x) AS x FROM t_shifted GROUP BY rank";
    let on_shifted = rank_view(x, "\"t_shifted\"", sum);
    let sources = [
        ViewSource { path: "src/t/shifted.sql", text: &shifted },
        ViewSource { path: "src/t/plain.sql", text: &plain },
        ViewSource { path: "src/t/on_shifted.sql", text: &on_shifted },
    ];
    Catalog::new(&sources, &[]).unwrap()
}

#[test]
fn parameter_changes_only_the_plans_that_contain_it() {
    let mut tables = TableSet::default();
    tables.push("steps", steps(&[(0, 2), (0, 3), (1, 5)]));
    let views = ["t_on_shifted", "t_plain"];
    let text = "SELECT rank, x + $offset AS x FROM t_plain";
    let uses = [ViewUse { views: &views, later: &[] }];
    let without = leak(catalog_with_params());
    let file: &[u8] = prepare_plans(without, &tables, &[], &uses, &[text], &[]).unwrap().leak();
    let with = leak(catalog_with_params().with_prepared_plans(file).unwrap());
    let run = |catalog: &'static Catalog, name: &str, value: ParamValue| {
        let mut params = Params::default();
        params.set(name, value);
        let session = Session::new(catalog, tables.clone(), &params).unwrap();
        let rows = session.metric_tables(&views).unwrap().into_iter().map(Result::unwrap);
        let rows: Vec<_> = rows.map(|table| format!("{:?}", table.rows)).collect();
        let of_text = format!("{:?}", session.rule_sql(text).unwrap());
        (session.planned_queries(), rows, of_text)
    };
    for (name, value, planned) in [
        ("offset", ParamValue::Int(1), vec![]),
        ("scale", ParamValue::Int(2), vec![]),
        ("offset", ParamValue::Int(7), vec![text, "t_on_shifted"]),
        ("scale", ParamValue::Int(3), vec!["t_on_shifted"]),
    ] {
        let (with, without) = (run(with, name, value.clone()), run(without, name, value.clone()));
        assert_eq!(with.0, planned, "{name} = {value}");
        assert_eq!((with.1, with.2), (without.1, without.2), "{name} = {value}");
    }
}

#[test]
fn parameter_that_has_its_default_counts_as_not_given() {
    let mut params = Params::default();
    params.set("offset", 1).set("scale", 2);
    assert_eq!(catalog_with_params().without_defaults(&params), Params::default());
    // A session refuses what is unknown.
    params.set("offset", 2).set("scale", 3).set("unknown", 1);
    let changed = catalog_with_params().without_defaults(&params);
    let changed: Vec<String> = changed.iter().map(|(name, v)| format!("{name}={v:?}")).collect();
    assert_eq!(changed, ["offset=Int(2)", "scale=Float(3.0)", "unknown=Int(1)"]);
}

#[test]
fn a_file_of_another_format_is_refused() {
    assert!(matches!(chain("1").with_prepared_plans(b"no plans"), Err(Error::PreparedPlans(_))));
}

/// The views that each call of [`step_views`] computed.
static COMPUTED: Mutex<Vec<Vec<&str>>> = Mutex::new(Vec::new());

static STEP_VIEWS: SharedComputation =
    SharedComputation { name: "step_views", compute: step_views };

const STEPS: rust_view::InputQueries = &[("steps", "SELECT rank, x FROM t_step ORDER BY rank, x")];

static STEP_VIEW_LIST: [RustView; 2] = [
    RustView::shared("t_first", STEPS, &STEP_VIEWS),
    RustView::shared("t_second", STEPS, &STEP_VIEWS),
];

fn step_views(inputs: &ViewInputs<'_>, outputs: &mut ViewOutputs) -> rust_view::Result<()> {
    COMPUTED.lock().unwrap().push(copy_steps(inputs, outputs)?);
    Ok(())
}

/// Writes the rows of the input as those of all requested views, which it returns.
fn copy_steps(
    inputs: &ViewInputs<'_>,
    outputs: &mut ViewOutputs,
) -> rust_view::Result<Vec<&'static str>> {
    let requested = ["t_first", "t_second"].into_iter().filter(|view| outputs.is_requested(view));
    let requested: Vec<&str> = requested.collect();
    for batch in inputs.batches("steps")? {
        let batch = batch?;
        requested.iter().try_for_each(|view| outputs.write(view, &batch))?;
    }
    Ok(requested)
}

static BROKEN_VIEWS: SharedComputation = SharedComputation {
    name: "broken_views",
    compute: |inputs, outputs| copy_steps(inputs, outputs).map(drop),
};

const BROKEN_STEPS: rust_view::InputQueries =
    &[STEPS[0], ("broken", "SELECT rank, 1 / (x - x) AS x FROM t_step")];

static BROKEN_VIEW_LIST: [RustView; 2] = [
    RustView::shared("t_first", STEPS, &BROKEN_VIEWS),
    RustView::shared("t_second", BROKEN_STEPS, &BROKEN_VIEWS),
];

fn shared_catalog(needs_of_second: &str, views: &'static [RustView]) -> Result<Catalog> {
    let x = "--! x = \"a number\"";
    let step = rank_view(x, "\"steps\"", "SELECT rank, step AS x FROM steps");
    let header = |needs: &str| {
        format!(
            "row = \"x\"\nscope = \"run\"\nneeds = [{needs}]\norder = [\"rank\", \"x\"]\n\
             when_empty = \"none\"\n[columns]\nrank = \"rank\"\nx = \"a number\"\n"
        )
    };
    let (first, second) = (header("\"t_step\""), header(needs_of_second));
    let sources = [
        ViewSource { path: "src/t/step.sql", text: &step },
        ViewSource { path: "src/t/first.toml", text: &first },
        ViewSource { path: "src/t/second.toml", text: &second },
    ];
    Catalog::new(&sources, views)
}

#[test]
fn views_of_a_shared_computation_are_computed_together_if_they_are_read() {
    let catalog = leak(shared_catalog("\"t_step\"", &STEP_VIEW_LIST).unwrap());
    let open = |memory_bytes| {
        let tables = Tables::Scanned(Arc::new(TwoRanks));
        Session::open(catalog, &tables, memory_bytes, &Params::default()).unwrap()
    };
    let count = |session: &Session, view: &str| {
        let rows = session.sql(&format!("SELECT rank, x FROM {view} ORDER BY rank")).unwrap();
        rows.iter().map(RecordBatch::num_rows).sum::<usize>()
    };
    // In memory, and in temporary files.
    for memory_bytes in [None, Some(1 << 30)] {
        COMPUTED.lock().unwrap().clear();
        let session = open(memory_bytes);
        let tables = session.metric_tables(&["t_first", "t_second"]).unwrap();
        assert_eq!(tables.iter().map(outcome).collect::<Vec<_>>(), ["2 rows", "2 rows"]);
        assert_eq!((count(&session, "t_first"), count(&session, "t_second")), (2, 2));
        assert_eq!(*COMPUTED.lock().unwrap(), [vec!["t_first", "t_second"]]);

        COMPUTED.lock().unwrap().clear();
        let session = open(memory_bytes);
        assert_eq!((count(&session, "t_second"), count(&session, "t_first")), (2, 2));
        assert_eq!(*COMPUTED.lock().unwrap(), [vec!["t_second"], vec!["t_first"]]);
    }
}

#[test]
fn views_of_a_shared_computation_are_not_built_on_each_other() {
    let error = shared_catalog("\"t_step\", \"t_first\"", &STEP_VIEW_LIST);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("is computed together with `t_first`, which it needs"), "{error}");
}

#[test]
fn view_of_a_shared_computation_that_fails_leaves_the_others() {
    let catalog = leak(shared_catalog("\"t_step\"", &BROKEN_VIEW_LIST).unwrap());
    for views in [["t_first", "t_second"], ["t_second", "t_first"]] {
        let tables = Tables::Scanned(Arc::new(TwoRanks));
        let session = Session::open(catalog, &tables, Some(1 << 30), &Params::default()).unwrap();
        for (view, table) in views.iter().zip(session.metric_tables(&views).unwrap()) {
            let expected = match *view {
                "t_first" => "2 rows",
                _ => "the view `t_second` failed: division by zero",
            };
            assert_eq!(outcome(&table), expected, "{views:?}");
        }
    }
}
