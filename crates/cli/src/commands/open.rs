//! `advisor open`: opens a trace in the Perfetto UI. The page comes from the internet, the trace from a local
//! server that serves nothing else, so the trace never leaves the machine.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
#[cfg(unix)]
use std::sync::Arc;

use anyhow::Context as _;
use trace_advisor::ingest::{self, Location, Options, Packing, TemporaryFolder};
use trace_advisor::query::Range;
use trace_advisor::trace_model::Source;
use trace_advisor::trace_model::time::human;
use trace_advisor::{Augmentation, Run};

use crate::args::{OpenArgs, ReadArgs, SelectionArgs};
use crate::console::Console;
use crate::diagnostics::with_help;
use crate::exit::Exit;
use crate::messages::warn;
use crate::progress::Stage;
use crate::render::sanitize::sanitize;
use crate::rule_files;
use crate::run::{finish, open, open_with_progress};
use crate::serve::{Served, Server};

/// The only local port that the content security policy of the Perfetto UI lets it fetch from.
pub(super) const PERFETTO_PORT: u16 = 9001;

/// Returns a reader of the whole trace each time it is called.
type Reopen = dyn Fn() -> anyhow::Result<Box<dyn Read + Send>> + Send + Sync;

/// A trace to serve.
struct Trace {
    file: String,
    /// The rank, and the other ranks of the run, as text.
    description: String,
    bytes: u64,
    /// The time range to show, in the clock of the trace; all of it if there is none.
    shown_ns: Option<Range>,
    open: Box<Reopen>,
}

/// Options that select parts of a run, which is opened as a whole.
pub(super) fn refuse_selections(args: &OpenArgs) -> anyhow::Result<()> {
    let SelectionArgs { steps, streams, name, .. } = &args.read.selection;
    let unused =
        [("steps", steps.is_some()), ("streams", streams.is_some()), ("name", name.is_some())];
    if let Some((option, _)) = unused.into_iter().find(|(_, is_given)| *is_given) {
        let help = "--ranks selects a trace, and --between the time range that is shown";
        return Err(with_help(format!("a trace is opened as a whole, without --{option}"), help));
    }
    Ok(())
}

pub(crate) fn run(args: &OpenArgs, console: &mut Console) -> anyhow::Result<Exit> {
    refuse_selections(args)?;
    // Before any work: a port that is in use is the most likely failure.
    let server = Server::bind(args.port).map_err(|error| cannot_listen(args.port, error))?;
    let port = server.port()?;
    let origin = origin(&args.ui)?;
    let trace =
        if args.augment { augmented_trace(args, console)? } else { stored_trace(args, console)? };

    let path = format!("/{}/{}", token()?, plain_name(&trace.file));
    let Trace { file, description, bytes, shown_ns, open } = trace;
    let ui = args.ui.trim_end_matches('/');
    let visible = shown_ns.map_or_else(String::new, |Range { first, last }| {
        format!("&visStart={first}&visEnd={last}")
    });
    let url = format!("{ui}/#!/?url=http://127.0.0.1:{port}{path}{visible}");
    let size = bytes as f64 / 1e6;
    writeln!(console.err, "serving {} ({size:.1} MB){description}", sanitize(&file))?;
    if port != PERFETTO_PORT {
        let text =
            format!("the Perfetto UI fetches from port {PERFETTO_PORT} only, not from {port}");
        warn(&text, console)?;
    }
    writeln!(console.out, "{url}")?;
    console.out.flush()?;
    if args.no_browser {
        writeln!(
            console.err,
            "if the browser is on another machine, run there: ssh -L {PERFETTO_PORT}:127.0.0.1:{port} THIS_MACHINE"
        )?;
    } else if let Err(error) = open_browser(&url) {
        warn(&format!("cannot start a browser ({error}): open the address above"), console)?;
    }
    let until = if args.keep { "until Ctrl-C" } else { "until the trace has been downloaded" };
    writeln!(console.err, "serving {until}")?;
    server.run(Served { path, origin, bytes, open }, args.keep);
    Ok(Exit::Clean)
}

pub(super) fn cannot_listen(port: u16, error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::AddrInUse {
        let help = if port == PERFETTO_PORT {
            "the Perfetto UI fetches from this port only: stop the program that uses it, perhaps \
             another `advisor open`"
        } else {
            "choose another port with --port"
        };
        return with_help(format!("port {port} is already in use"), help);
    }
    anyhow::Error::new(error).context(format!("cannot listen on port {port}"))
}

/// The origin of a page: scheme, host and port.
fn origin(ui: &str) -> anyhow::Result<String> {
    let is_plain = |host: &str| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b))
    };
    let origin = ui.split_once("://").and_then(|(scheme, rest)| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let known = ["http", "https"].contains(&scheme) && is_plain(host);
        known.then(|| format!("{scheme}://{host}"))
    });
    origin.ok_or_else(|| {
        with_help(
            format!("--ui {ui} is not a web address"),
            "an example is https://ui.perfetto.dev",
        )
    })
}

/// The trace as it is stored.
fn stored_trace(args: &OpenArgs, console: &mut Console) -> anyhow::Result<Trace> {
    let location = Location::parse(&args.run.path).map_err(trace_advisor::Error::from)?;
    let options = Options { timeout: args.read.input.timeout, ..Options::default() };
    let files = ingest::trace_names(&location, &options).map_err(trace_advisor::Error::from)?;
    let selection = &args.read.selection;
    if selection.steps.is_some() || selection.streams.is_some() || selection.name.is_some() {
        let text =
            "a trace is always opened as a whole: --steps, --streams and --name have no effect";
        warn(text, console)?;
    }
    let SelectionArgs { ranks, between, .. } = selection;
    let (location, file, description, shown_ns) = match files.as_slice() {
        // The number of the rank and the clock of the trace make no difference.
        [only] if ranks.is_none() && between.is_none() => {
            (location, only.clone(), String::new(), None)
        }
        _ => {
            let read = without_time_range(&args.read);
            let (run, progress) = open(&args.run.path, &read, console)?;
            drop(progress);
            let source = lowest_rank(&run)?;
            let (file, description) = (source.file.clone(), describe(source.rank, &run));
            let shown_ns = shown_range(*between, source, &run)?;
            finish(&run, &read, console)?;
            (run.location().clone(), file, description, shown_ns)
        }
    };
    let first = ingest::open_raw(&location, &file).map_err(trace_advisor::Error::from)?;
    let (bytes, name) = (first.bytes, file.clone());
    let open = move || {
        let stored = ingest::open_raw(&location, &name).map_err(trace_advisor::Error::from)?;
        Ok(stored.reader)
    };
    Ok(Trace { file, description, bytes, shown_ns, open: Box::new(open) })
}

/// The options to read the run with: the time range is shown, not selected.
fn without_time_range(read: &ReadArgs) -> ReadArgs {
    ReadArgs {
        selection: SelectionArgs { between: None, ..read.selection.clone() },
        ..read.clone()
    }
}

/// A time range of the run, cut to the run, in the clock of a trace.
fn shown_range(
    between: Option<Range>,
    source: &Source,
    run: &Run,
) -> anyhow::Result<Option<Range>> {
    let Some(Range { first, last }) = between else { return Ok(None) };
    let wall_ns = run.info().wall_ns;
    let (first, last) = (first.max(0), last.min(wall_ns));
    if first >= last {
        let end = human(wall_ns as f64);
        return Err(anyhow::anyhow!("nothing to show: the run ends after {end}"));
    }
    let shift_ns = source.shift_ns;
    Ok(Some(Range { first: first.saturating_sub(shift_ns), last: last.saturating_sub(shift_ns) }))
}

/// A copy with counters, critical path and findings.
fn augmented_trace(args: &OpenArgs, console: &mut Console) -> anyhow::Result<Trace> {
    let rules = rule_files::load_selected(&args.rules, console)?;
    let read = without_time_range(&args.read);
    let progress = console.progress(&[Stage::Read, Stage::Compute, Stage::Copy]);
    let run = open_with_progress(None, &args.run.path, &read, &progress, console)?;
    let source = lowest_rank(&run)?;
    let rank = source.rank;
    let report = run.check(&rules)?;
    let directory = TemporaryFolder::create().map_err(trace_advisor::Error::from)?;
    let wanted = Augmentation {
        folder: directory.path(),
        counters: true,
        critical_path: true,
        report: Some(&report),
        packing: Packing::Same,
        overwrite: false,
    };
    let copy = run.augment_rank(rank, &wanted, progress.files())?;
    let copy = copy.context("the rank has no timeline")?;
    drop(progress);
    finish(&run, &read, console)?;
    let bytes = fs::metadata(&copy.path)?.len();
    let shown_ns = shown_range(args.read.selection.between, source, &run)?;
    let open = release(directory, copy.path)?;
    let (file, description) = (source.file.clone(), describe(rank, &run));
    Ok(Trace { file, description, bytes, shown_ns, open })
}

/// The timeline of the lowest selected rank that has one.
fn lowest_rank(run: &Run) -> anyhow::Result<&Source> {
    let timelines = run.info().sources.iter().filter(|source| source.format == "kineto");
    timelines.min_by_key(|source| source.rank).with_context(|| {
        if run.info().sources.iter().any(|source| source.format == "perfetto") {
            "the run has only traces in Perfetto's format: open these files in https://ui.perfetto.dev"
        } else {
            "the run has no timeline to open"
        }
    })
}

fn describe(rank: i32, run: &Run) -> String {
    const SHOWN: usize = 8;
    let others: Vec<_> = run.info().ranks.iter().filter(|other| **other != rank).collect();
    let mut text = format!(", rank {rank}");
    if others.is_empty() {
        return text;
    }
    let list: Vec<String> = others.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if others.len() > SHOWN { ", ..." } else { "" };
    let _ = write!(text, "; use --ranks N to open another one: {}{more}", list.join(", "));
    text
}

/// Opens one file of a directory and removes the directory: however the program ends, nothing is left on disk.
#[cfg(unix)]
fn release(directory: TemporaryFolder, path: PathBuf) -> anyhow::Result<Box<Reopen>> {
    let file = Arc::new(File::open(path)?);
    drop(directory);
    Ok(Box::new(move || Ok(Box::new(ReadAt { file: file.clone(), at: 0 }))))
}

/// Keeps the directory as long as the file is needed.
#[cfg(not(unix))]
fn release(directory: TemporaryFolder, path: PathBuf) -> anyhow::Result<Box<Reopen>> {
    Ok(Box::new(move || {
        let _until_then = &directory;
        Ok(Box::new(File::open(&path)?))
    }))
}

/// Reads a file from its beginning, independently of other readers of the same handle.
#[cfg(unix)]
struct ReadAt {
    file: Arc<File>,
    at: u64,
}

#[cfg(unix)]
impl Read for ReadAt {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = std::os::unix::fs::FileExt::read_at(&*self.file, buffer, self.at)?;
        self.at += got as u64;
        Ok(got)
    }
}

/// 128 random bits.
pub(super) fn token() -> anyhow::Result<String> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|e| anyhow::anyhow!("no random numbers: {e}"))?;
    Ok(random.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// The name of a file, with only characters that have no meaning in an address.
fn plain_name(file: &str) -> String {
    let name = Path::new(file).file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    name.chars().map(plain).collect()
}

/// Opens an address in the browser, without passing it through a shell.
pub(super) fn open_browser(url: &str) -> io::Result<()> {
    let mut command = if cfg!(target_os = "macos") {
        Command::new("open")
    } else if cfg!(windows) {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        command
    } else {
        Command::new("xdg-open")
    };
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The command may run as long as the browser does, so it is not waited for.
    command.spawn().map(drop)
}

#[cfg(test)]
mod tests {
    use super::{origin, plain_name, token};

    #[test]
    fn plain_name_is_safe_in_addresses() {
        assert_eq!(plain_name("a/rank 0&x=<1>.json.gz"), "rank_0_x__1_.json.gz");
        assert_eq!(token().unwrap().len(), 32);
        assert_ne!(token().unwrap(), token().unwrap());
    }

    #[test]
    fn origin_is_scheme_host_and_port() {
        assert_eq!(origin("https://ui.perfetto.dev/v1/").unwrap(), "https://ui.perfetto.dev");
        assert_eq!(origin("http://127.0.0.1:80#x").unwrap(), "http://127.0.0.1:80");
        for bad in ["ui.perfetto.dev", "file:///x", "https://", "https://a\r\nb", "*"] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }
}
