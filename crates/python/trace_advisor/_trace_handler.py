"""A handler for `torch.profiler.profile(on_trace_ready=...)`."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trace_advisor._final_check import FinalCheck
from trace_advisor._recorder import TraceFolder, warn

if TYPE_CHECKING:
    from trace_advisor._report import Report

# Steps without a cycle after which a schedule has none left.
IDLE_STEPS = 10_000


def on_trace_ready(
    folder: str | os.PathLike[str] = "run", *, check: bool = True, timeout_s: float = 60.0,
    on_report: Callable[[Report], object] | None = None, **check_options: Any,
) -> TraceHandler:
    """Returns a handler that writes the traces of all ranks into a folder and prints the report at the end.

    Pass it to `torch.profiler.profile(on_trace_ready=...)` on every rank. It writes one file for each rank and cycle of
    the schedule, `rank0_cycle0.pt.trace.json.gz`. If an earlier program left traces in `folder`, it takes `folder-2`,
    and so on. After the last cycle, or when the profiler stops, rank 0 checks the folder and prints the report on stderr.

    Args:
        folder: where to write; created if it does not exist.
        check: whether to print the report.
        timeout_s: how many seconds rank 0 waits for the traces of the other ranks.
        on_report: called with the report, on rank 0.
        check_options: options of `Run.check`: `rules`, `select`, `ignore`, `baseline`.

    The handler never raises: an error is a warning on stderr. Its attribute `report` holds the last report.
    """
    return TraceHandler(folder, FinalCheck(check, timeout_s, on_report, **check_options))


class TraceHandler:
    """Writes each trace, and checks the run when no more follow."""

    def __init__(self, folder, final_check):
        self._path = folder
        self._folder = None
        self._final_check = final_check
        self._has_unchecked = False
        self._whole_cycle = None

    @property
    def report(self) -> Report | None:
        """The last report; None before it, and on other ranks than 0."""
        return self._final_check.report

    @property
    def folder(self):
        """The folder of the traces; None before the first."""
        return self._folder and self._folder.path

    def __call__(self, profiler: Any) -> None:
        try:
            if self._folder is None:
                self._folder = TraceFolder(self._path)
                atexit.register(self.finish)
            self._folder.write(profiler)
            self._has_unchecked = True
            is_stopping = _is_stopping(profiler)
            if not is_stopping:
                self._whole_cycle = self._folder.last_cycle + 1  # From 1, as in `open`.
            if is_stopping or _is_last_cycle(profiler):
                self.finish()
            else:
                self._finish_with(profiler)
        except Exception as error:
            warn(f"the trace could not be written to {self._path}: {error}")

    def finish(self) -> None:
        """Checks the last whole cycle, or the one that the end of the profiler cut off if it is the only one."""
        if self._has_unchecked:
            self._has_unchecked = False
            self._final_check.run(self._folder, self._whole_cycle)

    def _finish_with(self, profiler):
        """Makes a profiler that may have further cycles call `finish()` when it stops."""
        if "stop" in vars(profiler):
            return
        stop = profiler.stop

        def stop_and_finish():
            stop()
            self.finish()

        profiler.stop = stop_and_finish


def _is_stopping(profiler):
    """Whether the profiler calls its handler because it was stopped."""
    stop, frame = type(profiler).stop.__code__, sys._getframe()
    while frame is not None:
        if frame.f_code is stop:
            return True
        frame = frame.f_back
    return False


def _is_last_cycle(profiler):
    """Whether the schedule, one of `torch.profiler.schedule`, records nothing from here on."""
    schedule = profiler.schedule
    if getattr(schedule, "__module__", None) != "torch.profiler.profiler":
        return False
    steps = range(profiler.step_num, profiler.step_num + IDLE_STEPS)
    return all(schedule(step).name == "NONE" for step in steps)
