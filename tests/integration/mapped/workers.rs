//! Workers at the same time, and workers that die.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use super::{check, groups, map, with_ranks};
use crate::support::sandbox::Sandbox;

#[test]
fn shard_may_be_mapped_twice_at_once() {
    let sandbox = with_ranks(4);
    thread::scope(|scope| {
        for shard in ["1/2", "2/2", "1/2", "2/2", "1/1"] {
            let sandbox = &sandbox;
            scope.spawn(move || map(sandbox, shard));
        }
    });
    // Work folders are gone.
    let names: Vec<_> =
        groups(&sandbox).iter().map(|g| g.file_name().unwrap().to_owned()).collect();
    assert!(names.iter().all(|name| name.to_string_lossy().starts_with("group-")), "{names:?}");
    assert_eq!(check(&sandbox, &["--from", "mapped"]), check(&sandbox, &[]));
}

/// Kills workers at many moments, and then runs all shards again, as a scheduler would.
fn kill(sandbox: &Sandbox, count: u32) {
    let expected = check(sandbox, &[]);
    let mut killed = 0;
    for number in 0..count {
        for shard in ["1/2", "2/2"] {
            let mut command = sandbox.command(&["map", "run", "--shard", shard, "--to", "mapped"]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            thread::sleep(Duration::from_millis(u64::from(number * 397 % 700)));
            // It may have ended.
            let _ = child.kill();
            killed += usize::from(!child.wait().unwrap().success());
        }
        if number % 5 == 4 {
            map(sandbox, "1/2");
            map(sandbox, "2/2");
            assert_eq!(check(sandbox, &["--from", "mapped"]), expected);
            std::fs::remove_dir_all(sandbox.path("mapped")).unwrap();
        }
    }
    assert!(killed > 0, "nothing was interrupted");
}

#[test]
fn killed_workers_leave_nothing_wrong() {
    kill(&with_ranks(4), 5);
}

#[test]
#[ignore = "takes minutes"]
fn many_killed_workers_leave_nothing_wrong() {
    kill(&with_ranks(6), 100);
}
