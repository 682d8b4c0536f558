//! Processes that die.

use nix::sys::signal::Signal;

use crate::support::{Cluster, assert_report_is_that_of_one_process, wait_until};

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn shards_of_executors_that_die_are_mapped_by_another() {
    let mut cluster = Cluster::start(3);
    cluster.ranks_per_task = 1;
    let mut client = cluster.begin_map("mapped");
    // One completes its shard, and one dies while it maps one.
    cluster.executors[1].signal(Signal::SIGTERM);
    wait_until("the executor maps", || cluster.is_at_work(0));
    cluster.executors[0].kill();
    assert!(cluster.executors[1].status().success());
    assert!(client.status().success(), "{}", client.log());
    let log = cluster.scheduler.log();
    assert!(log.contains("heartbeat timed out"), "no executor was lost: {log}");
    let tasks = [0, 1, 2].map(|executor| cluster.tasks(executor));
    assert!(tasks.iter().sum::<usize>() > cluster.tasks_per_job(), "{tasks:?}");
    assert_report_is_that_of_one_process(&cluster.path("mapped"));
}

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn shards_of_an_executor_that_dies_with_its_results_are_reported_by_another() {
    let mut cluster = Cluster::start(2);
    let mut client = cluster.begin_map("mapped");
    let working = || (0..2).find(|&executor| cluster.is_at_work(executor));
    // One waits until the other has mapped its shard, and the job ends before anybody misses the latter.
    let [slow, fast] = if working() == Some(0) { [0, 1] } else { [1, 0] };
    cluster.executors[slow].signal(Signal::SIGSTOP);
    wait_until("the other has mapped its shard", || !cluster.is_at_work(fast));
    cluster.executors[fast].kill();
    cluster.executors[slow].signal(Signal::SIGCONT);
    assert!(client.status().success(), "{}", client.log());
    assert!(cluster.tasks(slow) > 1);
    assert_report_is_that_of_one_process(&cluster.path("mapped"));
}

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn job_without_executors_fails_and_continues_later() {
    let mut cluster = Cluster::start(1);
    let mut client = cluster.begin_map("mapped");
    cluster.executors[0].kill();
    assert_eq!(client.status().code(), Some(2));
    let text = client.log();
    assert!(text.starts_with("error: all executors were lost"), "{text}");
    cluster.add_executor();
    let text = cluster.map("mapped");
    assert!(text.contains("mapped before"), "{text}");
    assert_report_is_that_of_one_process(&cluster.path("mapped"));
}

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn job_of_a_restarted_scheduler_fails_and_continues_later() {
    let mut cluster = Cluster::start(1);
    let mut client = cluster.begin_map("mapped");
    cluster.restart_scheduler();
    assert_eq!(client.status().code(), Some(2));
    let text = client.log();
    assert!(text.contains("has lost the job") && text.contains("after a restart"), "{text}");
    // The executor has found the new scheduler.
    let text = cluster.map("mapped");
    assert!(text.contains("mapped before"), "{text}");
    assert_report_is_that_of_one_process(&cluster.path("mapped"));
}

#[test]
#[ignore = "needs ADVISOR_PROGRAM"]
fn interrupted_client_cancels_its_job() {
    let mut cluster = Cluster::start(1);
    cluster.ranks_per_task = 1;
    let mut client = cluster.begin_map("mapped");
    client.signal(Signal::SIGINT);
    assert_eq!(client.status().code(), Some(2));
    assert_eq!(client.log(), "error: canceled; the same command continues\n");
    wait_until("the job is canceled", || cluster.scheduler.log().contains("Job cancelled"));
    assert!(cluster.tasks(0) < cluster.tasks_per_job());
}
