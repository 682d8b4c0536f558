//! Warnings and timings on stderr.

use std::cmp::Reverse;
use std::io;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use trace_advisor::trace_model::Warning;
use trace_advisor::{Run, Stage};

use crate::console::Console;
use crate::render::sanitize::sanitize;

const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default().bold();
/// Number of views listed among the timings, slowest first.
const SLOWEST_VIEWS: usize = 10;

/// Prints a warning.
pub(crate) fn warn(text: &str, console: &mut Console) -> io::Result<()> {
    writeln!(console.err, "{WARNING}warning{WARNING:#}: {}", sanitize(text))
}

/// Prints a note.
pub(crate) fn note(text: &str, console: &mut Console) -> io::Result<()> {
    writeln!(console.err, "{NOTE}note{NOTE:#}: {}", sanitize(text))
}

/// Prints a warning about a file, or about the run if the name of the file is empty, with the number of times that it
/// occurred.
pub(crate) fn warn_about_file(
    file: &str,
    message: &str,
    count: u64,
    console: &mut Console,
) -> io::Result<()> {
    let place = if file.is_empty() { String::new() } else { format!("{file}: ") };
    let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
    warn(&format!("{place}{message}{times}"), console)
}

/// Prints the warnings of reading a run, after what was printed before.
pub(crate) fn print_warnings(warnings: &[Warning], console: &mut Console) -> io::Result<()> {
    console.out.flush()?;
    for warning in warnings {
        warn_about_file(&warning.file, &warning.message, warning.count, console)?;
    }
    Ok(())
}

/// Prints the time of each stage, and of the slowest views if a run was opened.
pub(crate) fn print_timings(
    stages: &[Stage],
    run: Option<&Run>,
    console: &mut Console,
) -> io::Result<()> {
    for stage in stages {
        print_timing(stage.name, stage.elapsed, console)?;
    }
    let mut views = run.map(Run::view_times).unwrap_or_default();
    views.sort_by_key(|&(name, elapsed)| (Reverse(elapsed), name));
    if views.len() > 1 {
        let total = views.iter().map(|&(_, elapsed)| elapsed).sum();
        print_timing(&format!("work for {} views", views.len()), total, console)?;
        for (name, elapsed) in views.into_iter().take(SLOWEST_VIEWS) {
            print_timing(&format!("  {name}"), elapsed, console)?;
        }
    }
    Ok(())
}

/// Prints one time.
pub(crate) fn print_timing(name: &str, elapsed: Duration, console: &mut Console) -> io::Result<()> {
    writeln!(console.err, "{name:<24} {:>9.1} ms", elapsed.as_secs_f64() * 1e3)
}
