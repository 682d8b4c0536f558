"""An open run."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import NamedTuple

from trace_advisor import _html, _native
from trace_advisor._options import Path, Selection, files, numbers, time_range, to_options, words
from trace_advisor._progress import ProgressArgument, callback
from trace_advisor._report import Report
from trace_advisor._table import Table


class Warning(NamedTuple):
    """Input that could not be read, or only in part."""

    file: str
    """Name of the file; empty if the warning is about the run."""
    message: str
    times: int
    """How often it occurred."""


class Run:
    """The traces of a program, of one rank or all. `trace_advisor.open` makes it."""

    def __init__(self, native: _native.Run) -> None:
        self._native = native

    @property
    def path(self) -> str:
        """Path or address of the run."""
        return self._native.path

    @property
    def ranks(self) -> list[int]:
        """The ranks that were read."""
        return self._native.ranks

    @property
    def warnings(self) -> list[Warning]:
        """Input that could not be read, or only in part."""
        return [Warning(*warning) for warning in self._native.warnings]

    def check(
        self, rules: Path | Iterable[Path] | None = None, *, select: str | Iterable[str] | None = None,
        ignore: str | Iterable[str] | None = None, baseline: Path | None = None, fail_on: str | None = None,
        min_gain: float | None = None, default_rules: bool = True, preview: bool = False, progress: ProgressArgument = None,
    ) -> Report:
        """Evaluates the rules, as `advisor check` does.

        Args:
            rules: Rule files that change or extend the built-in rules; by default the project's `advisor.toml`.
            select: Only these rules: codes, code prefixes, names or categories.
            ignore: Without these rules.
            baseline: An earlier report (JSON) to compare with.
            fail_on: The severity from which on `Report.has_failed` is true: `medium` by default.
            min_gain: Leave out findings that gain less, in percent of the step time.
            default_rules: Whether the built-in rules apply.
            preview: Whether rules in preview are evaluated, too.
            progress: `True` or `tqdm` for a bar, or a callable that gets a `Progress`.
        """
        options = to_options(
            rules=files(rules), select=words(select), ignore=words(ignore),
            baseline=None if baseline is None else os.fspath(baseline), fail_on=fail_on, min_gain=min_gain,
            no_default_rules=not default_rules, preview=preview,
        )
        with callback(progress) as call:
            checked = self._native.check(options, call)
        if checked.step_time_doubt is not None:
            warnings.warn(f"step_time: {checked.step_time_doubt}", stacklevel=2)
        return Report(checked)

    def sql(self, query: str) -> Table:
        """The rows of a query over the tables and views of the run. Only reading statements are allowed."""
        return Table(self._native.sql(query))

    def view(self, name: str, **params: object) -> Table:
        """The rows of a built-in analysis, as `advisor analyze` prints them. `trace_advisor.views()` lists them.

        Args:
            name: Name of the view, such as `gpu_idle_causes`.
            params: Values of its parameters, such as `num_kernels=10`.
        """
        return Table(self._native.view(name, [(key, _text(value)) for key, value in params.items()]))

    def tables(self) -> list[tuple[str, int, str]]:
        """The tables: name, number of rows, and what one row is. Of a run larger than the memory limit, upper bounds."""
        return self._native.tables()

    def __repr__(self) -> str:
        ranks = len(self.ranks)
        return f"<Run {self.path}: {ranks} {'rank' if ranks == 1 else 'ranks'}>"

    def _repr_html_(self) -> str:
        rows = [(name, f"{count:,}", row) for name, count, row in self.tables() if count > 0]
        return _html.table(["table", "rows", "one row is"], rows, [False, True, False], repr(self)[1:-1])


def open(
    path: Path, *, ranks: Selection | None = None, steps: Selection | None = None,
    between: str | tuple[float, float] | None = None, streams: Selection | None = None, name: str | None = None,
    cycle: int | None = None, params: dict[str, object] | None = None, step_time: str | None = None,
    memory_limit: str | int | None = None, mapped: Path | None = None, cache: bool | Path = True,
    progress: ProgressArgument = None,
) -> Run:
    """Reads a run: a trace file, or a folder with the traces of all ranks.

    Args:
        path: Path, or address in an object store: `s3://`, `gs://`, `az://`, `https://`.
        ranks: Only these ranks: `"0-3,8"`, `range(4)`, `[0, 8]`.
        steps: Only events of these steps: `5`, `"5-8"`, `"5.."`.
        between: Only events in this time range, counted from the first event: `"10ms..50ms"`, or two times in ns.
        streams: Only GPU activities on these streams.
        name: Only events whose name matches this regular expression.
        cycle: The profile cycle of each rank to read, from 1; the last one by default.
        params: Parameters of the analyses, such as `{"short_kernel_us": 10}`.
        step_time: What a step takes without the profiler, such as `"113ms"`; by default as the recorder timed it, else estimated.
        memory_limit: Limit for tables and queries, such as `"4GiB"` or in bytes; half of the machine's memory by default.
        mapped: Where `map_shard` put the ranks of the run, a folder or an address; their traces are then not read.
        cache: Whether to use the cache, or its folder.
        progress: `True` or `tqdm` for a bar, or a callable that gets a `Progress`.
    """
    options = to_options(
        ranks=numbers(ranks), steps=numbers(steps), between=time_range(between), streams=numbers(streams), name=name,
        cycle=cycle, set=[f"{key}={_text(value)}" for key, value in (params or {}).items()], step_time=step_time,
        memory_limit=memory_limit, no_cache=cache is False,
        cache_dir=None if isinstance(cache, bool) else os.fspath(cache),
        **{"from": None if mapped is None else os.fspath(mapped)},
    )
    with callback(progress) as call:
        return Run(_native.Run.open(os.fspath(path), options, call))


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
