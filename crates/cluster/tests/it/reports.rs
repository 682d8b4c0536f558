//! The same report from one process and from clusters.

use std::thread;

use crate::support::{Cluster, RANKS, assert_report_is_that_of_one_process, groups};

#[test]
fn report_is_that_of_one_process_with_one_and_two_executors() {
    let mut cluster = Cluster::start(1);
    let text = cluster.map("by-one");
    assert!(text.contains(&format!("{RANKS} tasks: {RANKS} traces; ")), "{text}");
    assert_eq!(cluster.tasks(0), RANKS as usize);
    cluster.add_executor();
    cluster.map("by-two");
    let tasks = [cluster.tasks(0) - RANKS as usize, cluster.tasks(1)];
    assert!(tasks.iter().sum::<usize>() == RANKS as usize && tasks[1] > 0, "{tasks:?}");
    for mapped in ["by-one", "by-two"] {
        assert_eq!(groups(&cluster.path(mapped)), RANKS as usize);
        assert_report_is_that_of_one_process(&cluster.path(mapped));
    }
}

#[test]
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
    assert_eq!(groups(&cluster.path("mapped")), RANKS as usize);
    assert_report_is_that_of_one_process(&cluster.path("mapped"));
}
