//! The same report from one process and from clusters.

use std::path::Path;
use std::thread;

use crate::support::{
    Cluster, RANKS, advisor, assert_report_is_that_of_one_process, check, groups, run,
};

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn report_is_that_of_one_process_with_one_and_two_executors() {
    let mut cluster = Cluster::start(1);
    let text = cluster.map("by-one");
    assert!(text.contains(&format!("2 tasks: {RANKS} traces; ")), "{text}");
    assert_eq!(cluster.tasks(0), 2);
    cluster.add_executor();
    cluster.map("by-two");
    assert_eq!([cluster.tasks(0), cluster.tasks(1)], [3, 1]);
    for mapped in ["by-one", "by-two"] {
        assert_eq!(groups(&cluster.path(mapped)), 2);
        assert_report_is_that_of_one_process(&cluster.path(mapped));
    }
}

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn run_may_be_mapped_twice_at_once_and_again() {
    let cluster = Cluster::start(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| cluster.map("mapped"));
        }
    });
    let text = cluster.map("mapped");
    let expected = format!("{RANKS} traces, {RANKS} of which were mapped before; 0.0 MB");
    assert!(text.contains(&expected), "{text}");
    assert_eq!(groups(&cluster.path("mapped")), cluster.tasks_per_job());
    assert_report_is_that_of_one_process(&cluster.path("mapped"));
}

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn check_maps_what_is_missing() {
    let cluster = Cluster::start(1);
    let (mapped, address) = (cluster.path("mapped"), cluster.address());
    let arguments = ["--from", mapped.to_str().unwrap(), "--cluster", &address];
    let folder = Path::new(env!("CARGO_BIN_EXE_advisor-cluster")).parent().unwrap();
    let path = [("PATH", folder.to_str().unwrap())];
    let report = check(run().to_str().unwrap(), &arguments, &path);
    assert!(report.1.contains(&format!("{RANKS} traces; ")), "{}", report.1);
    assert_report_is_that_of_one_process(&mapped);
    assert_eq!(report.0, check(run().to_str().unwrap(), &[], &[]).0);

    // An export maps what is missing, too: here, nothing.
    let (traces, tables) = (run(), cluster.path("tables"));
    let export = ["export", traces.to_str().unwrap(), "-o", tables.to_str().unwrap()];
    let (_, text) = advisor(&[&export[..], &arguments].concat(), &path);
    assert!(text.contains(&format!("{RANKS} of which were mapped before")), "{text}");
    assert!(text.contains(&format!("of {RANKS} ranks")), "{text}");
    assert!(tables.join("run.json").exists());
}
