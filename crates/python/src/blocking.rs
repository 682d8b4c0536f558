//! Long calls: without the GIL, with progress, and ended by Ctrl-C.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cli::embedding::{Work, WorkProgress};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::exception;

/// Time between two looks at signals and progress.
const TICK: Duration = Duration::from_millis(50);
/// How long a call that Ctrl-C ended may take to end its work.
const TICKS_TO_END: usize = 10;

/// Progress reporting and cancellation of a blocking call.
pub(crate) struct Watch<'a, 'py> {
    /// The progress of the work, and the callable that is told about it.
    pub(crate) progress: Option<(WorkProgress, &'a Bound<'py, PyAny>)>,
    /// Ends the work.
    pub(crate) cancel: &'a (dyn Fn() + Sync),
}

impl Watch<'_, '_> {
    /// A call that cannot be ended: Ctrl-C returns, and the work ends by itself.
    pub(crate) const NOTHING: Self = Self { progress: None, cancel: &|| {} };
}

/// Runs `work` on another thread and waits for it.
pub(crate) fn block_on<T: Send + 'static>(
    py: Python<'_>,
    watch: &Watch<'_, '_>,
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = mpsc::channel();
    // An earlier call on the same run left its last state, which says nothing of this one.
    let mut last = watch.progress.as_ref().and_then(|(progress, _)| progress.current());
    std::thread::Builder::new().name("advisor".to_owned()).spawn(move || {
        // The receiver is gone after Ctrl-C.
        let _ = sender.send(work());
    })?;
    // Closures without the GIL must be able to share it.
    let receiver = Mutex::new(receiver);
    let wait = || receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(TICK);
    loop {
        let outcome = py.detach(wait);
        match outcome {
            Ok(result) => return result.map_err(|error| exception(py, &error)),
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the work ended without a result: this is a bug in trace_advisor";
                return Err(PyRuntimeError::new_err(message));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Err(stop) = py.check_signals().and_then(|()| report(watch, &mut last)) {
            let cancel = watch.cancel;
            py.detach(|| {
                for _ in 0..TICKS_TO_END {
                    cancel();
                    if !matches!(wait(), Err(RecvTimeoutError::Timeout)) {
                        break;
                    }
                }
            });
            return Err(stop);
        }
    }
}

/// Tells the callable what has changed.
fn report(watch: &Watch<'_, '_>, last: &mut Option<Work>) -> PyResult<()> {
    let Some((progress, callable)) = &watch.progress else { return Ok(()) };
    let current = progress.current();
    if let Some(Work { stage, done, total, unit, ratio }) = &current
        && current != *last
    {
        callable.call1((stage, done, total, unit, ratio))?;
    }
    *last = current;
    Ok(())
}
