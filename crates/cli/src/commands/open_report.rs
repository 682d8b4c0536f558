//! `advisor open --report`: serves the report of a run as a page to the browser of this machine, answers the queries of the
//! page, and reads and checks the run again when its files change.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use page::Options;
use trace_advisor::{OpenOptions, RuleSet, Run};

use super::open::{PERFETTO_PORT, cannot_listen, open_browser, refuse_selections, token};
use super::page_query::answer_query;
use crate::args::OpenArgs;
use crate::cluster;
use crate::console::Console;
use crate::diagnostics::print_error;
use crate::exit::Exit;
use crate::messages::warn;
use crate::progress::Stage;
use crate::rule_files;
use crate::run::{finish, note_if_exported, open_options};
use crate::serve::Server;
use crate::serve_page::{LivePage, QUERIES, VERSION};

/// Time between looks at the files of the run.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Depth of folders that belong to a run.
const MAX_DEPTH: usize = 5;

pub(super) fn run(args: &OpenArgs, console: &mut Console) -> anyhow::Result<Exit> {
    refuse_selections(args)?;
    // Only the Perfetto UI needs its port.
    let port = if args.port == PERFETTO_PORT { 0 } else { args.port };
    let server = Server::bind(port).map_err(|error| cannot_listen(port, error))?;
    let port = server.port()?;
    let rules = rule_files::load_selected(&args.rules, console)?;
    let mut seen = state(&args.run.path);
    let (run, html) = run_and_page(args, &rules, console)?;
    let page = Arc::new(LivePage::new(&token()?, answer_query, run, html));
    let url = format!("http://127.0.0.1:{port}{}", page.path);
    writeln!(console.out, "{url}")?;
    console.out.flush()?;
    if args.no_browser {
        writeln!(
            console.err,
            "if the browser is on another machine, run there: ssh -L {port}:127.0.0.1:{port} THIS_MACHINE"
        )?;
    } else if let Err(error) = open_browser(&url) {
        warn(&format!("cannot start a browser ({error}): open the address above"), console)?;
    }
    writeln!(console.err, "serving until Ctrl-C; the page follows the files of the run")?;
    let served = Arc::clone(&page);
    std::thread::spawn(move || {
        server.run_forever(move |request| {
            let served = Arc::clone(&served);
            async move { served.answer(request).await }
        });
    });
    loop {
        std::thread::sleep(LOOK_EVERY);
        let now = state(&args.run.path);
        if now == seen {
            continue;
        }
        // Files that are being written change again.
        std::thread::sleep(LOOK_EVERY);
        if state(&args.run.path) != now {
            continue;
        }
        seen = now;
        match run_and_page(args, &rules, console) {
            Ok((run, html)) => page.set(run, html),
            Err(error) => print_error(&error, console)?,
        }
    }
}

/// Opens the run, checks it and renders its page.
fn run_and_page(
    args: &OpenArgs,
    rules: &RuleSet,
    console: &mut Console,
) -> anyhow::Result<(Run, String)> {
    let progress = console.progress(&[Stage::Read, Stage::Compute]);
    let options = OpenOptions {
        later_views: page::VIEWS,
        view_progress: Some(progress.views()),
        ..open_options(&args.read)?
    };
    let (read, rule_files) = (&args.read, Some(&args.rules.files));
    progress.suspend(|| cluster::map_run(&args.run.path, &read.mapped, &read.input, rule_files))?;
    let run = Run::open_with(&args.run.path, &options, progress.files())?;
    progress.suspend(|| note_if_exported(&run, &args.read, console))?;
    let report = run.check(rules)?;
    let options = Options {
        live: Some(VERSION.to_owned()),
        queries: Some(QUERIES.to_owned()),
        viewer: Some(args.ui.clone()),
        ..Options::default()
    };
    let html = page::report(&run, &report, &options)?;
    drop(progress);
    finish(&run, &args.read, console)?;
    Ok((run, html))
}

/// A number that changes with the names, lengths and times of the files of a run; 0 for a run that is not on this
/// machine.
fn state(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    add(path, MAX_DEPTH, &mut hasher);
    hasher.finish()
}

fn add(path: &Path, depth: usize, hasher: &mut DefaultHasher) {
    let Ok(meta) = fs::metadata(path) else { return };
    if meta.is_dir() && depth > 0 {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let mut below: Vec<_> = entries.map(|entry| entry.path()).collect();
        below.sort();
        for path in below {
            add(&path, depth - 1, hasher);
        }
    } else if meta.is_file() {
        (path, meta.len(), meta.modified().ok()).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::state;

    #[test]
    fn state_changes_with_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let first = state(folder.path());
        std::fs::write(folder.path().join("rank0.json"), "{}").unwrap();
        let second = state(folder.path());
        assert_ne!(first, second);
        assert_eq!(second, state(folder.path()));
        assert_eq!(state(&folder.path().join("none")), state(&folder.path().join("other")));
    }
}
