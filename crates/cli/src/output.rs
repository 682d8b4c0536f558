//! The destination of a result: stdout, or a file that is not overwritten by accident.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use trace_advisor::ingest::Location;

use crate::args::{Audience, OutputArgs};
use crate::console::{Console, Terminal};
use crate::diagnostics::with_help;

/// Runs `write` on the file of `--output`, or on stdout. Its second argument is the terminal that shows what it
/// writes, if any.
///
/// A file that could not be written completely is removed.
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
    let mut file = BufWriter::new(create(path, args.force)?);
    let written = match audience {
        Audience::Human => {
            let mut plain = anstream::StripStream::new(Vec::new());
            write(&mut plain, None).and_then(|()| Ok(file.write_all(&plain.into_inner())?))
        }
        Audience::Machine => write(&mut file, None),
    };
    let written = written
        .and_then(|()| file.flush().with_context(|| format!("cannot write {}", path.display())));
    if written.is_err() {
        // The error to report is the first one.
        let _ = std::fs::remove_file(path);
    }
    written
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
    write_output(args, Audience::Machine, console, |out, _| Ok(out.write_all(html.as_bytes())?))
}

fn create(path: &Path, force: bool) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).truncate(true);
    if force {
        options.create(true);
    } else {
        options.create_new(true);
    }
    options.open(path).map_err(|error| {
        if error.kind() == io::ErrorKind::AlreadyExists {
            with_help(format!("{} already exists", path.display()), "use --force to overwrite it")
        } else {
            anyhow::Error::new(error).context(format!("cannot create {}", path.display()))
        }
    })
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
