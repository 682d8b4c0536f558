"""What the callbacks of all frameworks share: a recorder that checks what it recorded."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from trace_advisor._final_check import FinalCheck
from trace_advisor._recorder import WRITER_OPTIONS, WRITERS, Recorder, TraceFolder, warn

if TYPE_CHECKING:
    from trace_advisor._report import Report


class TrainingRecorder:
    """Records steps of a training loop and prints the report.

    Args:
        folder: where to write the traces of all ranks; `folder-2` and so on if an earlier program left traces there.
        steps: the first and the last step to record, both included. The first step of the training is 0.
        check: whether rank 0 prints the report on stderr when the last step is recorded.
        timeout_s: how many seconds rank 0 waits for the traces of the other ranks.
        on_report: called with the report, on rank 0.
        rules, select, ignore, baseline: options of `Run.check`.
        writer: PyTorch's trace writer: "cuspy" (PyTorch 2.15, NVIDIA GPUs, with the package cupti-python), "kineto", or
            "auto", which is Cuspy if it can record and Kineto otherwise. A note on stderr names the writer, and the
            reason if it is not Cuspy. The profiler_options `activities` and `experimental_config` select the writer
            themselves; with them, `writer` must be "auto".
        profiler_options: options of `torch.profiler.profile`, such as `with_stack=True`, which gives source lines but
            makes steps longer. By default, shapes and memory are recorded.

    An error never reaches the training: it is a warning on stderr.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = "run",
        *,
        steps: tuple[int, int] = (10, 16),
        check: bool = True,
        timeout_s: float = 60.0,
        on_report: Callable[[Report], object] | None = None,
        rules: Any = None,
        select: Any = None,
        ignore: Any = None,
        baseline: Any = None,
        writer: str = "auto",
        **profiler_options: Any,
    ) -> None:
        first_step, last_step = steps
        if not 0 <= first_step <= last_step:
            raise ValueError(f"steps are a first and a last one, such as (10, 16), not {steps!r}")
        if writer not in WRITERS:
            raise ValueError(f"writer is one of {', '.join(WRITERS)}, not {writer!r}")
        others = [name for name in WRITER_OPTIONS if name in profiler_options]
        if writer != "auto" and others:
            raise ValueError(f"{others[0]} chooses the writer; leave out writer={writer!r}")
        options = {"rules": rules, "select": select, "ignore": ignore, "baseline": baseline}
        options = {name: value for name, value in options.items() if value is not None}
        self._final_check = FinalCheck(check, timeout_s, on_report, **options)
        self._folder = folder
        self._recorder_arguments = (first_step, last_step, {"writer": writer, **profiler_options})
        self._recorder: Recorder | None = None

    @property
    def report(self) -> Report | None:
        """The report; None before it, and on other ranks than 0."""
        return self._final_check.report

    @property
    def folder(self) -> str | None:
        """The folder of the traces; None before the training."""
        return None if self._recorder is None else str(self._recorder.folder.path)

    def begin(self) -> None:
        """Announces the first step. The rank is known by now."""
        if self._recorder is not None:
            return
        first_step, last_step, options = self._recorder_arguments
        self._recorder = Recorder(TraceFolder(self._folder), first_step, last_step, self._ended, **options)
        self._recorder.begin()
        atexit.register(self.finish)

    def step(self) -> None:
        """Ends a step."""
        if self._recorder is not None:
            self._recorder.step()

    def finish(self) -> None:
        """Ends the recording early, if the training ends early."""
        if self._recorder is not None:
            self._recorder.finish()

    def _ended(self, recorder):
        if recorder.folder.written_count:
            _tell_writer(recorder)
            self._final_check.run(recorder.folder)
        elif recorder.problem is not None:
            warn(f"nothing was recorded: {recorder.problem}")
        else:
            warn(
                f"nothing was recorded: the training made {recorder.step_count} steps, and the recording starts with "
                f"step {recorder.first_step}; pass steps=(first, last)"
            )


def _tell_writer(recorder):
    """Prints which of PyTorch's writers recorded, and the reason if it is not Cuspy. Only rank 0 prints."""
    if recorder.folder.rank != 0 or recorder.used_writer is None:
        return
    name, reason = recorder.used_writer.capitalize(), recorder.writer_reason
    because = "" if reason is None else f": {reason}"
    is_other = recorder.writer not in ("auto", recorder.used_writer)
    warn(f"the trace is written by {name}{because}", "warning" if is_other else "note")
