//! Where a result goes: the terminal, or a file that is not overwritten by accident.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use trace_advisor::ingest::Location;

use crate::Console;
use crate::args::To;
use crate::diagnostics::with_help;

/// Who reads a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// People: colours where they can be shown.
    Person,
    /// Programs: every byte as it is.
    Program,
}

/// Runs `write` on the file of `--output`, or on standard output; tells it whether a terminal shows
/// what it writes.
///
/// A file that could not be written completely is removed.
pub(crate) fn to(
    to: &To,
    reader: Reader,
    console: &mut Console,
    write: impl FnOnce(&mut (dyn Write + Send), bool) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Some(path) = &to.output else {
        let terminal = console.out_is_terminal;
        if reader == Reader::Person {
            return write(&mut console.out, terminal);
        }
        console.out.flush()?;
        write(&mut console.raw, terminal)?;
        return Ok(console.raw.flush()?);
    };
    let mut file = BufWriter::new(create(path, to.force)?);
    let written = match reader {
        Reader::Person => {
            let mut plain = anstream::StripStream::new(Vec::new());
            write(&mut plain, false).and_then(|()| Ok(file.write_all(&plain.into_inner())?))
        }
        Reader::Program => write(&mut file, false),
    };
    let written = written
        .and_then(|()| file.flush().with_context(|| format!("cannot write {}", path.display())));
    if written.is_err() {
        // The error to tell is the first one.
        let _ = std::fs::remove_file(path);
    }
    written
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
            with_help(format!("{} exists", path.display()), "--force overwrites it")
        } else {
            anyhow::Error::new(error).context(format!("cannot create {}", path.display()))
        }
    })
}

/// What is written is written on this machine.
pub(crate) fn local(path: &Path) -> anyhow::Result<()> {
    if Location::is_address(path) {
        let help = "write to a folder of this machine, and copy it with the tools of the store";
        return Err(with_help(format!("cannot write to {}", path.display()), help));
    }
    Ok(())
}
