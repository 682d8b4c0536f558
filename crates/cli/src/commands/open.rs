//! `advisor open`: a trace in the Perfetto UI. The page comes from the internet, the trace from a server
//! on this machine that serves it and nothing else; it never leaves the machine.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
#[cfg(unix)]
use std::sync::Arc;

use anyhow::Context as _;
use trace_advisor::ingest::{self, Location, Options, Packing};
use trace_advisor::{Augmentation, Run};

use crate::args::Open;
use crate::failure::helped;
use crate::render::clean::clean;
use crate::run::{finish, open, print_warnings, warn};
use crate::serve::{Served, Server};
use crate::{Console, Exit, rule_files};

/// The only port of this machine from which the policy of the Perfetto UI lets it fetch.
const PERFETTO_PORT: u16 = 9001;

/// Gives the bytes of a trace from the first one on, as often as it is called.
type Reopen = dyn Fn() -> anyhow::Result<Box<dyn Read + Send>> + Send + Sync;

/// A trace to serve.
struct Trace {
    file: String,
    /// Which rank, and which others there are; in words.
    about: String,
    bytes: u64,
    open: Box<Reopen>,
}

pub(crate) fn run(args: &Open, console: &mut Console) -> anyhow::Result<Exit> {
    // Before any work: nothing is more likely to be in the way.
    let server = Server::bind(args.port).map_err(|error| cannot_listen(args.port, error))?;
    let port = server.port()?;
    let origin = origin(&args.ui)?;
    let trace = if args.augment { augmented(args, console)? } else { stored(args, console)? };

    let path = format!("/{}/{}", token()?, plain_name(&trace.file));
    let url = format!("{}/#!/?url=http://127.0.0.1:{port}{path}", args.ui.trim_end_matches('/'));
    let Trace { file, about, bytes, open } = trace;
    let size = bytes as f64 / 1e6;
    writeln!(console.err, "serving {} ({size:.1} MB){about}", clean(&file))?;
    if port != PERFETTO_PORT {
        let text =
            format!("the Perfetto UI fetches from port {PERFETTO_PORT} only, this is {port}");
        warn(&text, console)?;
    }
    writeln!(console.out, "{url}")?;
    console.out.flush()?;
    if args.no_browser {
        writeln!(
            console.err,
            "if the browser is on another machine: ssh -L {PERFETTO_PORT}:127.0.0.1:{port} THIS_MACHINE"
        )?;
    } else if let Err(error) = open_browser(&url) {
        warn(&format!("no browser could be started ({error}): open the address above"), console)?;
    }
    let until = if args.keep { "until Ctrl-C" } else { "until it has been fetched" };
    writeln!(console.err, "serving {until}")?;
    server.run(Served { path, origin, bytes, open }, args.keep);
    Ok(Exit::Clean)
}

fn cannot_listen(port: u16, error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::AddrInUse {
        let help = if port == PERFETTO_PORT {
            "the Perfetto UI fetches from this port only: stop what listens there, another \
             `advisor open` perhaps"
        } else {
            "choose another one with --port"
        };
        return helped(format!("port {port} of this machine is taken"), help);
    }
    anyhow::Error::new(error).context(format!("cannot listen on port {port} of this machine"))
}

/// The site that a page belongs to: scheme, host and port.
fn origin(ui: &str) -> anyhow::Result<String> {
    let is_plain = |host: &str| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b))
    };
    let origin = ui.split_once("://").and_then(|(scheme, rest)| {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let known = ["http", "https"].contains(&scheme) && is_plain(host);
        known.then(|| format!("{scheme}://{host}"))
    });
    origin.ok_or_else(|| helped(format!("--ui {ui} is no web address"), "https://ui.perfetto.dev"))
}

/// The trace as it is stored.
fn stored(args: &Open, console: &mut Console) -> anyhow::Result<Trace> {
    let location = Location::parse(&args.path).map_err(trace_advisor::Error::from)?;
    let options = Options { timeout: args.reading.files.timeout, ..Options::default() };
    let files = ingest::trace_names(&location, &options).map_err(trace_advisor::Error::from)?;
    let part = &args.reading.part;
    if part.steps.is_some()
        || part.between.is_some()
        || part.streams.is_some()
        || part.name.is_some()
    {
        warn("a trace is opened as a whole: of the selection only --ranks is heeded", console)?;
    }
    let (location, file, about) = match files.as_slice() {
        // What rank it is makes no difference then.
        [only] if part.ranks.is_none() => (location, only.clone(), String::new()),
        _ => {
            let run = open(&args.path, &args.reading, console)?;
            print_warnings(&run, console)?;
            let (rank, file) = lowest(&run)?;
            let about = about(rank, &run);
            finish(&run, &args.reading, console)?;
            (run.location().clone(), file, about)
        }
    };
    let first = ingest::open_raw(&location, &file).map_err(trace_advisor::Error::from)?;
    let (bytes, name) = (first.bytes, file.clone());
    let open = move || {
        let stored = ingest::open_raw(&location, &name).map_err(trace_advisor::Error::from)?;
        Ok(stored.reader)
    };
    Ok(Trace { file, about, bytes, open: Box::new(open) })
}

/// A copy with counters, critical path and findings.
fn augmented(args: &Open, console: &mut Console) -> anyhow::Result<Trace> {
    let rules = rule_files::choose(&args.rules)?;
    let run = open(&args.path, &args.reading, console)?;
    print_warnings(&run, console)?;
    let (rank, file) = lowest(&run)?;
    let report = run.check(&rules)?;
    let folder = Scratch::new()?;
    let wanted = Augmentation {
        folder: &folder.0,
        counters: true,
        critical_path: true,
        report: Some(&report),
        packing: Packing::Same,
        overwrite: false,
    };
    let copy = run.augment_rank(rank, &wanted)?.context("the rank has no timeline")?;
    finish(&run, &args.reading, console)?;
    let bytes = fs::metadata(&copy.path)?.len();
    let open = folder.release(copy.path)?;
    Ok(Trace { file, about: about(rank, &run), bytes, open })
}

/// The rank that is shown unless another one is asked for, and its file.
fn lowest(run: &Run) -> anyhow::Result<(i32, String)> {
    let timelines = run.info().sources.iter().filter(|source| source.format == "kineto");
    timelines
        .min_by_key(|source| source.rank)
        .map(|source| (source.rank, source.file.clone()))
        .context("the run has no timeline to open")
}

fn about(rank: i32, run: &Run) -> String {
    const SHOWN: usize = 8;
    let others: Vec<_> = run.info().ranks.iter().filter(|other| **other != rank).collect();
    let mut text = format!(", rank {rank}");
    if others.is_empty() {
        return text;
    }
    let list: Vec<String> = others.iter().take(SHOWN).map(ToString::to_string).collect();
    let more = if others.len() > SHOWN { ", ..." } else { "" };
    let _ = write!(text, "; --ranks N opens another one: {}{more}", list.join(", "));
    text
}

/// A folder that is gone in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("advisor-{}", token()?));
        fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self(path))
    }

    /// Keeps one file of it open, and nothing of its name: however the program ends, nothing is left.
    #[cfg(unix)]
    fn release(self, path: PathBuf) -> anyhow::Result<Box<Reopen>> {
        let file = Arc::new(File::open(path)?);
        drop(self);
        Ok(Box::new(move || Ok(Box::new(ReadAt { file: file.clone(), at: 0 }))))
    }

    /// Keeps the folder for as long as the file is wanted.
    #[cfg(not(unix))]
    fn release(self, path: PathBuf) -> anyhow::Result<Box<Reopen>> {
        Ok(Box::new(move || {
            let _until_then = &self;
            Ok(Box::new(File::open(&path)?))
        }))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is nobody left to tell.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reads a file from its beginning, whoever else reads it.
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

/// 128 bits that nobody can guess.
fn token() -> anyhow::Result<String> {
    let mut random = [0_u8; 16];
    getrandom::fill(&mut random).map_err(|e| anyhow::anyhow!("no random numbers: {e}"))?;
    Ok(random.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// The name of a file, of letters that mean nothing in an address.
fn plain_name(file: &str) -> String {
    let name = Path::new(file).file_name().map(|n| n.to_string_lossy()).unwrap_or_default();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    name.chars().map(plain).collect()
}

/// Hands an address to the browser; no shell reads it on the way.
fn open_browser(url: &str) -> io::Result<()> {
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
    // It may run as long as the browser does.
    command.spawn().map(drop)
}

#[cfg(test)]
mod tests {
    use super::{origin, plain_name, token};

    #[test]
    fn names_are_safe_in_addresses() {
        assert_eq!(plain_name("a/rank 0&x=<1>.json.gz"), "rank_0_x__1_.json.gz");
        assert_eq!(token().unwrap().len(), 32);
        assert_ne!(token().unwrap(), token().unwrap());
    }

    #[test]
    fn pages_belong_to_sites() {
        assert_eq!(origin("https://ui.perfetto.dev/v1/").unwrap(), "https://ui.perfetto.dev");
        assert_eq!(origin("http://127.0.0.1:80#x").unwrap(), "http://127.0.0.1:80");
        for bad in ["ui.perfetto.dev", "file:///x", "https://", "https://a\r\nb", "*"] {
            assert!(origin(bad).is_err(), "{bad}");
        }
    }
}
