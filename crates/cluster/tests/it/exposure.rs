//! Messages of services about their listening addresses.

use crate::support::{Process, command, free_port, wait_until};

/// Returns what a service writes to stderr until it serves.
fn said_at_start(args: &[&str], serves: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let service = Process::start(command(args), folder.path().join("log"));
    wait_until(serves, || service.log().contains(serves));
    service.log()
}

#[test]
fn services_warn_if_other_machines_may_reach_them() {
    for (ip, is_exposed) in [("127.0.0.1", false), ("0.0.0.0", true)] {
        let address = format!("{ip}:{}", free_port());
        let text = said_at_start(&["scheduler", "--bind", &address], "scheduler: listens");
        let warning =
            format!("warning: other machines may reach {address}, without authentication");
        assert_eq!(text.contains(&warning), is_exposed, "{text}");
    }
    let scheduler = format!("127.0.0.1:{}", free_port());
    let executor = ["executor", "--scheduler", &scheduler];
    let text = said_at_start(&executor, "executor: works for");
    assert!(text.contains("results are on 127.0.0.1:"), "{text}");
    assert!(!text.contains("without authentication"), "{text}");
    let text =
        said_at_start(&[&executor[..], &["--bind", "0.0.0.0"]].concat(), "executor: works for");
    assert!(text.contains("warning: other machines may reach 0.0.0.0:"), "{text}");

    let elsewhere = ["executor", "--scheduler", "scheduler.invalid:50050"];
    let text = said_at_start(&elsewhere, "executor: works for");
    assert!(text.contains("cannot fetch results from 127.0.0.1:"), "{text}");
}
