//! Runs tests in separate processes.

use std::process::Command;

/// Environment variable that is set in the process that runs the test.
const CHILD: &str = "ADVISOR_TEST_CHILD";

/// Runs `work` in a separate process without other tests, by starting this executable again for the test with this
/// name. `limits` are shell commands that run first, such as `ulimit -v 4000000`.
pub(crate) fn alone(test: &str, limits: &str, work: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return work();
    }
    let output = Command::new("sh")
        .args(["-c", &format!("{limits}\nexec \"$@\""), "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let has_run = text[0].contains("1 passed");
    assert!(output.status.success() && has_run, "{test}: {}\n{}", output.status, text.concat());
}
