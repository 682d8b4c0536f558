"""Comparisons of two runs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple

from trace_advisor import _html, _native
from trace_advisor._document import Document
from trace_advisor._options import Path, Selection, files, numbers, to_options, words
from trace_advisor._progress import ProgressArgument, callback
from trace_advisor._run import Run
from trace_advisor._table import Table


class Difference(NamedTuple):
    """One thing that differs about two runs."""

    what: str
    """What differs: `GPU`, `ranks`, `batch shape`, ..."""
    before: str
    after: str
    not_comparable: str | None
    """Why the runs are not comparable because of it; `None` if it does not prevent a comparison."""


class Comparison(Document["_native.Comparison"]):
    """What changed between two runs. `print(comparison)` shows what `advisor diff` prints."""

    def __init__(self, native: _native.Comparison) -> None:
        self._native = native

    @property
    def verdict(self) -> str:
        """`regression`, `improvement`, `unchanged`, `inconclusive` or `not_comparable`."""
        return str(self._data["verdict"]["outcome"])

    @property
    def reason(self) -> str:
        """Why the verdict is that, in a sentence."""
        return str(self._data["verdict"]["reason"])

    @property
    def differences(self) -> list[Difference]:
        """Differences between the runs as a whole: GPU, ranks, steps, program, shape of the batch, options of the profiler."""
        return [Difference(**difference) for difference in self._data["differences"]]

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return str(self._data["headline"])

    @property
    def has_failed(self) -> bool:
        """Whether the verdict is one that `fail_on` names."""
        return self._native.has_failed

    def rows(self) -> Table:
        """The names that one of the runs has, with calls and time before and after."""
        return Table(self._native.rows())

    def text(
        self, *, limit: int | None = None, wide: bool = False, color: bool = False, width: int | None = None
    ) -> str:
        """The comparison as text, with `limit` rows per section (10 by default); `wide`: whole names and all columns."""
        return self._native.render("text", to_options(limit=limit, wide=wide), width, color)

    def html(self) -> str:
        """The comparison as one page, which opens without a network."""
        return self._native.render("html", [])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Comparison {self.headline}>"

    def _repr_html_(self) -> str:
        return _html.frame(self.html(), "Comparison by Trace Advisor")


def diff(
    before: Run | Path, after: Run | Path, *, before_ranks: Selection | None = None, after_ranks: Selection | None = None,
    before_steps: str | int | None = None, after_steps: str | int | None = None, short_names: bool = False,
    rules: Path | Iterable[Path] | None = None, select: str | Iterable[str] | None = None,
    ignore: str | Iterable[str] | None = None, preview: bool = False, fail_on: str | None = None, fail_on_memory: float | None = None,
    progress: ProgressArgument = None,
) -> Comparison:
    """Compares two runs, as `advisor diff` does: open runs, or their paths.

    Args:
        before: The run before the change.
        after: The run after the change.
        before_ranks: Ranks to compare; all by default.
        after_ranks: The same for the run after the change.
        before_steps: Steps to compare: `all`, `first`, or numbers.
        after_steps: The same for the run after the change.
        short_names: Compare names without their template arguments.
        rules: Rule files about comparisons.
        select: Only these rules.
        ignore: Without these rules.
        preview: Whether rules in preview are evaluated, too.
        fail_on: The verdict that makes `Comparison.has_failed` true: `regression`, or `inconclusive`, which also
            includes regressions and runs that are not comparable.
        fail_on_memory: Fail, too, if the peak memory of a device grows by this percentage or more.
        progress: `True` or `tqdm` for a bar, or a callable that gets a `Progress`.
    """
    options = to_options(
        before_ranks=numbers(before_ranks), after_ranks=numbers(after_ranks), before_steps=before_steps,
        after_steps=after_steps, short_names=short_names, rules=files(rules), select=words(select), ignore=words(ignore),
        preview=preview, fail_on=fail_on, fail_on_memory=fail_on_memory,
    )
    if isinstance(before, Run) and isinstance(after, Run):
        return Comparison(_native.Comparison.of_runs(before._native, after._native, options))
    paths = [os.fspath(run.path if isinstance(run, Run) else run) for run in (before, after)]
    with callback(progress) as call:
        return Comparison(_native.Comparison.of_paths(paths[0], paths[1], options, call))
