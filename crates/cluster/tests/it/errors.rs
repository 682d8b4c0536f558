//! Errors that users see.

use std::time::{Duration, Instant};

use cluster::{MapJob, Session, program};

use crate::support::{Cluster, command, free_port, run, stderr};

/// The error of a job that executors cannot run.
fn error_of(cluster: &Cluster, job: &MapJob) -> String {
    let address = cluster.address().parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let rows = runtime
        .block_on(async { Session::open(&address, Duration::from_mins(1)).await?.run(job).await });
    format!("{:#}", rows.unwrap_err())
}

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn job_fails_with_the_reason_of_the_executor() {
    let cluster = Cluster::start(1);
    let to = cluster.path("mapped").to_str().unwrap().to_owned();
    let job = MapJob {
        program: program(),
        run: "/no/such/run".into(),
        to,
        shard_count: 1,
        ..MapJob::default()
    };
    // Another executor might be able to read it, so it was tried several times.
    let text = error_of(&cluster, &job);
    assert_eq!(text, "shard 1/1: cannot read /no/such/run: No such file or directory (os error 2)");
    assert_eq!(cluster.tasks(0), 4);

    let job = MapJob { run: run().to_str().unwrap().into(), views: vec!["no_such".into()], ..job };
    let text = error_of(&cluster, &job);
    assert!(text.starts_with("shard 1/1: ") && text.contains("no_such"), "{text}");
    assert_eq!(cluster.tasks(0), 5);

    // The scheduler only passes jobs on.
    let job = MapJob { program: "0.0.1 (other views)".into(), ..job };
    let text = error_of(&cluster, &job);
    let expected = format!(
        "an executor is advisor-cluster {}, and the job comes from advisor-cluster 0.0.1 (other views): run the same \
         version everywhere",
        program()
    );
    assert_eq!(text, expected);
}

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn missing_scheduler_and_missing_executors_are_errors() {
    let (run, mapped) = (run(), tempfile::tempdir().unwrap());
    let map = |address: &str| {
        let to = mapped.path().to_str().unwrap();
        let args =
            ["map", run.to_str().unwrap(), "--to", to, "--scheduler", address, "--wait", "2s"];
        let start = Instant::now();
        let output = command(&args).output().unwrap();
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        assert_eq!(output.status.code(), Some(2));
        assert!(output.stdout.is_empty());
        stderr(&output)
    };
    let address = format!("df://127.0.0.1:{}", free_port());
    let text = map(&address);
    let expected = format!("error: no scheduler answers at {address}: Connection refused");
    assert!(text.contains(&expected), "{text}");

    let cluster = Cluster::start(0);
    let text = map(&cluster.address());
    let expected = format!("error: {} has no executors", cluster.address());
    assert!(text.contains(&expected), "{text}");
}

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn runs_that_cannot_be_mapped_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.toml");
    std::fs::write(&rules, "[[rule]]\n").unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let run = run();
    let run = run.to_str().unwrap();
    for (args, code, expected) in [
        (vec!["map", "/no/such/run"], 2, "cannot read /no/such/run"),
        (vec!["map", run, "--rules", &path("rules.toml")], 2, "rules.toml"),
        (vec!["map", run, "--rules", &path("none.toml")], 2, "cannot read rule file"),
        (vec!["map", run, "--wait", "never"], 2, "not a time in seconds"),
        (vec!["--version"], 0, ""),
    ] {
        let (to, scheduler) = (path("mapped"), format!("df://127.0.0.1:{}", free_port()));
        let more: &[&str] = match args[0] {
            "map" => &["--to", &to, "--scheduler", &scheduler],
            _ => &[],
        };
        let output = command(&[&args[..], more].concat()).output().unwrap();
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {text}");
        assert!(text.contains(expected), "{args:?}: {text}");
    }
}
