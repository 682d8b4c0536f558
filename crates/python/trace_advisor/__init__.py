"""Why is this PyTorch training run slow?

    import trace_advisor as ta

    run = ta.open("run/")
    report = run.check()
    print(report)
    run.sql("SELECT name, sum_ns FROM gpu_kernels ORDER BY sum_ns DESC LIMIT 10").to_pandas()

Times are in nanoseconds (`_ns`), sizes in bytes (`_bytes`), shares from 0 to 1 (`_ratio`). Calls release the GIL, end on
Ctrl-C, and raise `AdvisorError` with the text and the help of the program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trace_advisor._commands import augment, demo, describe, explain, export, merge, views
from trace_advisor._diff import Comparison, diff
from trace_advisor._errors import AdvisorError
from trace_advisor._native import version as _version
from trace_advisor._progress import Progress
from trace_advisor._report import Finding, Gain, Report
from trace_advisor._run import Run, Warning, open
from trace_advisor._table import Table

if TYPE_CHECKING:
    from trace_advisor._record_hint import record_hint
    from trace_advisor._trace_handler import on_trace_ready
    from trace_advisor._training import TrainingRecorder

__version__ = _version()

# What few programs need, by the module that is imported when they do.
_LATE = {
    "TrainingRecorder": "trace_advisor._training",
    "on_trace_ready": "trace_advisor._trace_handler",
    "record_hint": "trace_advisor._record_hint",
}

__all__ = [
    "AdvisorError",
    "Comparison",
    "Finding",
    "Gain",
    "Progress",
    "Report",
    "Run",
    "Table",
    "TrainingRecorder",
    "Warning",
    "augment",
    "demo",
    "describe",
    "diff",
    "explain",
    "export",
    "merge",
    "on_trace_ready",
    "open",
    "record_hint",
    "views",
]


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LATE[name]), name)
