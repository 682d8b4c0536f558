//! The destination of a result: stdout, or a file that is not overwritten by accident.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use trace_advisor::Error;
use trace_advisor::ingest::{Location, OutputFile, RunReach};

use crate::args::{Audience, OutputArgs};
use crate::console::{Console, Terminal};
use crate::diagnostics::with_help;

/// Checks that the file of `--output` may be written, before the result is computed.
pub(crate) fn check_output(args: &OutputArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.file {
        OutputFile::check(path, args.force).map_err(Error::from)?;
    }
    Ok(())
}

/// Runs `write` on the file of `--output`, or on stdout. Its second argument is the terminal that shows what it
/// writes, if any.
///
/// A file appears when it is complete; what was there before stays until then.
pub(crate) fn write_output(
    args: &OutputArgs,
    audience: Audience,
    console: &mut Console,
    write: impl FnOnce(&mut (dyn Write + Send), Option<Terminal>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(path) = &args.file else {
        let terminal = console.out_terminal;
        if audience == Audience::Human {
            return write(&mut console.out, terminal);
        }
        console.out.flush()?;
        write(&mut console.raw, terminal)?;
        return Ok(console.raw.flush()?);
    };
    let mut file = OutputFile::create(path, args.force).map_err(Error::from)?;
    match audience {
        Audience::Human => {
            let mut plain = anstream::StripStream::new(Vec::new());
            write(&mut plain, None)?;
            let text = plain.into_inner();
            file.write_all(&text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Audience::Machine => write(&mut file, None).map_err(|error| {
            let is_about_file = error.chain().any(<dyn std::error::Error>::is::<io::Error>);
            let what = || format!("cannot write {}", path.display());
            if is_about_file { error.context(what()) } else { error }
        })?,
    }
    complete(file, path, &console.runs)
}

/// Gives a file its name, unless it would then be read as part of a run.
fn complete(mut file: OutputFile, to: &Path, runs: &[PathBuf]) -> anyhow::Result<()> {
    file.flush().with_context(|| format!("cannot write {}", to.display()))?;
    if let Some(content) = file.content_path() {
        for run in runs {
            let reach = RunReach::of(&Location::parse(run).map_err(Error::from)?, to);
            reach.and_then(|reach| reach.refuse_content(to, &content)).map_err(Error::from)?;
        }
    }
    file.complete().map_err(Error::from)?;
    Ok(())
}

/// Returns whether a file begins with `mark`. A link to one does not.
pub(crate) fn begins_with(path: &Path, mark: &str) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let mut start = vec![0; mark.len()];
    is_file
        && File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == mark.as_bytes()
}

/// Writes a file of a directory, which is ours if it contains `mark`. Any other file of this name is left alone.
pub(crate) fn write_own_file(to: &Path, content: &[u8], mark: &str) -> anyhow::Result<()> {
    let is_ours = || fs::read_to_string(to).is_ok_and(|text| text.contains(mark));
    let may_write = match fs::symlink_metadata(to) {
        Ok(meta) => meta.is_file() && is_ours(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    if !may_write {
        let help = format!("it has no {mark:?}: move it away, or choose another directory");
        return Err(with_help(format!("{} is not a file of this command", to.display()), help));
    }
    let mut file = OutputFile::create(to, true).map_err(Error::from)?;
    file.write_all(content).with_context(|| format!("cannot write {}", to.display()))?;
    file.complete().map_err(Error::from)?;
    Ok(())
}

/// Writes an HTML page to the file of `--output`, or to stdout unless that is a terminal, which cannot show it.
pub(crate) fn write_page(
    args: &OutputArgs,
    html: &str,
    console: &mut Console,
) -> anyhow::Result<()> {
    if args.file.is_none() && console.out_terminal.is_some() {
        let help = "write it to a file: -o report.html";
        return Err(with_help("a terminal cannot show an HTML page", help));
    }
    write_text(args, html, console)
}

/// Writes a text that programs read to the file of `--output`, or to stdout.
pub(crate) fn write_text(
    args: &OutputArgs,
    text: &str,
    console: &mut Console,
) -> anyhow::Result<()> {
    write_output(args, Audience::Machine, console, |out, _| Ok(out.write_all(text.as_bytes())?))
}

/// Refuses addresses: output is written to this machine only.
pub(crate) fn require_local_path(path: &Path) -> anyhow::Result<()> {
    if Location::is_address(path) {
        let help =
            "write to a local directory, then copy it to the store with the tools of the store";
        return Err(with_help(format!("cannot write to {}", path.display()), help));
    }
    Ok(())
}
