//! Runs tests in separate processes.

use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

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

/// Runs a command that must end within this time, and is killed otherwise.
pub(crate) fn output_within(mut command: Command, limit: Duration) -> Output {
    fn read_all(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            bytes
        })
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let stdout = read_all(child.stdout.take().unwrap());
    let stderr = read_all(child.stderr.take().unwrap());
    let end = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{command:?} did not end within {limit:?}");
        }
        sleep(Duration::from_millis(5));
    };
    Output { status, stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

/// Returns whether this process, and those it starts, were started with SIGHUP ignored, as by `nohup`.
pub(crate) fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 != 0)
}
