//! `--cluster`: the program `advisor-cluster` maps a run on the executors of a cluster.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::args::{InputArgs, MappedArgs, RuleFileArgs};
use crate::diagnostics::with_help;
use crate::rule_files;

const PROGRAM: &str = "advisor-cluster";

/// If a cluster is given, maps what these rules need, by default the built-in ones, to the directory of `--from`. Ranks that
/// are mapped already stay as they are.
pub(crate) fn map_run(
    run: &Path,
    mapped: &MappedArgs,
    input: &InputArgs,
    rules: Option<&RuleFileArgs>,
) -> anyhow::Result<()> {
    let MappedArgs { from: Some(to), cluster: Some(scheduler) } = mapped else { return Ok(()) };
    let mut command = Command::new(installed_program());
    command.arg("map").arg(run).arg("--to").arg(to).args(["--scheduler", scheduler]);
    if let Some(bytes) = input.max_json_bytes {
        command.arg(format!("--max-json-bytes={bytes}"));
    }
    if let Some(timeout) = input.timeout {
        command.arg(format!("--timeout={}", timeout.as_secs_f64()));
    }
    if let Some(rules) = rules {
        command.args(
            rule_files::files(rules)
                .iter()
                .flat_map(|file| [OsStr::new("--rules"), file.as_os_str()]),
        );
        command.args(rules.no_default_rules.then_some("--no-default-rules"));
    }
    // Its result is the directory; messages go where ours go.
    let status = match command.stdin(Stdio::null()).stdout(Stdio::null()).status() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(with_help(
                format!("`{PROGRAM}` is not installed"),
                "--cluster needs it beside `advisor` or on the PATH: see docs/clusters.md",
            ));
        }
        status => status.with_context(|| format!("cannot run {PROGRAM}"))?,
    };
    anyhow::ensure!(status.success(), "{PROGRAM} could not map {}", run.display());
    Ok(())
}

/// The program beside this one, else the one on the PATH.
fn installed_program() -> PathBuf {
    let name = format!("{PROGRAM}{}", env::consts::EXE_SUFFIX);
    let beside = env::current_exe().ok().map(|own| own.with_file_name(&name));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| name.into())
}
