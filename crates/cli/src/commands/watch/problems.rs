//! What goes wrong while a run is watched. A problem is reported when it begins, not in each round that has it.

use std::collections::BTreeSet;
use std::io;

use crate::console::Console;
use crate::diagnostics::print_error;
use crate::messages::note;

/// The problems of this round, and of the round before.
#[derive(Debug, Default)]
pub(super) struct Problems {
    now: BTreeSet<String>,
    before: BTreeSet<String>,
}

impl Problems {
    pub(super) fn begin_round(&mut self) {
        self.before = std::mem::take(&mut self.now);
    }

    /// Reports an error.
    ///
    /// # Errors
    /// If stderr is closed.
    pub(super) fn report(
        &mut self,
        error: &anyhow::Error,
        console: &mut Console,
    ) -> io::Result<()> {
        if self.begins(format!("{error:#}")) {
            unless_full(print_error(error, console))
        } else {
            Ok(())
        }
    }

    /// Reports that there is no run to check.
    ///
    /// # Errors
    /// If stderr is closed.
    pub(super) fn wait(&mut self, reason: &str, console: &mut Console) -> io::Result<()> {
        let text = format!("waiting: {reason}");
        if self.begins(text.clone()) { unless_full(note(&text, console)) } else { Ok(()) }
    }

    /// Adds a problem. Returns whether the round before did not have it.
    fn begins(&mut self, problem: String) -> bool {
        let is_new = !self.before.contains(&problem);
        self.now.insert(problem) && is_new
    }
}

/// The result of writing to stderr. A disk that is full does not end a watch whose stderr is a file on it.
fn unless_full(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{Problems, unless_full};

    #[test]
    fn problem_begins_once_until_it_is_gone_for_a_round() {
        let mut problems = Problems::default();
        let mut rounds = Vec::new();
        for has_problem in [true, true, false, true] {
            problems.begin_round();
            rounds.push(has_problem && problems.begins("full".to_owned()));
        }
        assert_eq!(rounds, [true, false, false, true]);
    }

    #[test]
    fn only_a_closed_stderr_ends_a_watch() {
        assert!(unless_full(Err(io::ErrorKind::StorageFull.into())).is_ok());
        assert!(unless_full(Err(io::ErrorKind::BrokenPipe.into())).is_err());
    }
}
