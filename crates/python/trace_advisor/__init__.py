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

# As in `typing`, whose import takes longer than this package's.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from trace_advisor._commands import augment, cut, demo, describe, explain, export, map_shard, merge, views
    from trace_advisor._diff import Comparison, Difference, diff
    from trace_advisor._errors import AdvisorError
    from trace_advisor._progress import Progress
    from trace_advisor._record_hint import record_hint
    from trace_advisor._report import Finding, Gain, Report
    from trace_advisor._run import Run, Warning, open
    from trace_advisor._table import Table
    from trace_advisor._trace_handler import on_trace_ready
    from trace_advisor._training import TrainingRecorder

    __version__: str

# Names by the module that is imported when one of them is used: training programs and the program itself start sooner.
_NAMES = {
    "_commands": ["augment", "cut", "demo", "describe", "explain", "export", "map_shard", "merge", "views"],
    "_diff": ["Comparison", "Difference", "diff"],
    "_errors": ["AdvisorError"],
    "_progress": ["Progress"],
    "_record_hint": ["record_hint"],
    "_report": ["Finding", "Gain", "Report"],
    "_run": ["Run", "Warning", "open"],
    "_table": ["Table"],
    "_trace_handler": ["on_trace_ready"],
    "_training": ["TrainingRecorder"],
}

__all__ = [
    "AdvisorError",
    "Comparison",
    "Difference",
    "Finding",
    "Gain",
    "Progress",
    "Report",
    "Run",
    "Table",
    "TrainingRecorder",
    "Warning",
    "augment",
    "cut",
    "demo",
    "describe",
    "diff",
    "explain",
    "export",
    "map_shard",
    "merge",
    "on_trace_ready",
    "open",
    "record_hint",
    "views",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "__version__":
        from trace_advisor._native import version

        return version()
    for module, names in _NAMES.items():
        if name in names:
            value: object = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
