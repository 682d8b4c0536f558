//! Files that a cluster leaves on its machines.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{command, free_port, wait_until};

#[test]
fn only_its_owner_can_enter_the_folder_of_an_executor() {
    let place = tempfile::tempdir().unwrap();
    // It makes its folder before it looks for the scheduler, and waits for that.
    let scheduler = format!("127.0.0.1:{}", free_port());
    let mut command = command(&["executor", "--scheduler", &scheduler, "--bind", "127.0.0.1"]);
    let mut executor = command.arg("--work-dir").arg(place.path()).spawn().unwrap();
    let modes = || -> Vec<u32> {
        let entries = place.path().read_dir().unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| fs::metadata(path).unwrap().permissions().mode() & 0o777).collect()
    };
    wait_until("the executor has a folder", || !modes().is_empty());
    let modes = modes();
    executor.kill().unwrap();
    executor.wait().unwrap();
    assert_eq!(modes, [0o700]);
}
