//! Signals while another program runs: it decides what they do.

use std::io;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
#[cfg(unix)]
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2},
    iterator::{SignalsInfo, exfiltrator::WithOrigin},
    low_level::{emulate_default_handler, siginfo::Cause},
};

/// The passing of signals to a program.
pub(super) struct Passing {
    has_ended: Arc<AtomicBool>,
}

impl Passing {
    /// Gives the signals back their usual effect on this program, once the other one has ended.
    pub(super) fn stop(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }
}

/// Signals for a program that is not there yet.
#[cfg(unix)]
pub(super) struct Signals(SignalsInfo<WithOrigin>);

#[cfg(unix)]
impl Signals {
    /// Holds back signals that would end this program before the other one has started.
    pub(super) fn hold() -> io::Result<Self> {
        Ok(Self(SignalsInfo::new([SIGTERM, SIGUSR1, SIGUSR2])?))
    }

    /// Passes signals that ask this program to end, or to do something, to a child, except those that come from the
    /// terminal: the child gets them as well.
    pub(super) fn pass_to(self, child: &Child) -> io::Result<Passing> {
        let Self(mut signals) = self;
        // Only now: what this program ignores, such as hangups under `nohup`, the child ignores as well.
        for signal in [SIGHUP, SIGINT, SIGQUIT] {
            signals.handle().add_signal(signal)?;
        }
        let has_ended = Arc::new(AtomicBool::new(false));
        let passing = Passing { has_ended: Arc::clone(&has_ended) };
        let pid = i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)?;
        std::thread::spawn(move || {
            for origin in &mut signals {
                // A child that has just ended, and a signal without a default, are no error.
                if has_ended.load(Ordering::SeqCst) {
                    let _ = emulate_default_handler(origin.signal);
                } else if !matches!(origin.cause, Cause::Kernel) {
                    let _ = Signal::try_from(origin.signal).map(|signal| kill(pid, signal));
                }
            }
        });
        Ok(passing)
    }
}

#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[expect(clippy::unnecessary_wraps, reason = "as on Unix")]
    pub(super) fn hold() -> io::Result<Self> {
        Ok(Self)
    }

    /// Ctrl-C reaches all programs of a console; this one outlives it.
    pub(super) fn pass_to(self, _: &Child) -> io::Result<Passing> {
        let has_ended = Arc::new(AtomicBool::new(false));
        let passing = Passing { has_ended: Arc::clone(&has_ended) };
        let end = move || {
            if has_ended.load(Ordering::SeqCst) {
                #[expect(
                    clippy::exit,
                    clippy::disallowed_methods,
                    reason = "the handler of a signal that ends the program"
                )]
                std::process::exit(crate::interrupt::INTERRUPTED);
            }
        };
        ctrlc::set_handler(end).map_err(io::Error::other)?;
        Ok(passing)
    }
}
