//! What Ballista logs, on stderr.

use std::io::{self, Write as _};

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, metadata: &Metadata) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record) {
        if self.enabled(record.metadata()) {
            let level = match record.level() {
                Level::Error => "error",
                Level::Warn => "warning",
                _ => "note",
            };
            // Nobody is left to tell if this fails.
            let _ = writeln!(io::stderr(), "{level}: {}", record.args());
        }
    }

    fn flush(&self) {}
}

/// Prints messages from now on: of a service warnings and errors, with `is_verbose` all that matter to operators. The client
/// says itself what went wrong.
pub(crate) fn start(is_service: bool, is_verbose: bool) {
    log::set_max_level(match (is_verbose, is_service) {
        (true, _) => LevelFilter::Info,
        (false, true) => LevelFilter::Warn,
        (false, false) => LevelFilter::Off,
    });
    // A program that uses this library may have its own.
    let _ = log::set_logger(&Stderr);
}
