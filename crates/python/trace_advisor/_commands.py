"""Commands of the program that write files or describe something."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from trace_advisor import _native
from trace_advisor._options import Path, Selection, files, numbers, time_range, to_options
from trace_advisor._run import Run

if TYPE_CHECKING:
    from pathlib import Path as FilePath


def _path(run: Run | Path) -> str:
    return run.path if isinstance(run, Run) else os.fspath(run)


def _file_path(path: Path) -> FilePath:
    from pathlib import Path as FilePath

    return FilePath(path)


def export(run: Run | Path, output: Path, *, force: bool = False) -> FilePath:
    """Writes the tables of a run to a folder of Parquet files, and returns the folder.

    Raises:
        AdvisorError: If the folder exists; `force` replaces an earlier export.
    """
    _native.output_of(["export", *to_options(force=force, output=os.fspath(output)), "--", _path(run)])
    return _file_path(output)


def map_shard(
    run: Path, output: Path, shard: str = "1/1", *, rules: Path | Iterable[Path] | None = None
) -> None:
    """Computes what a part of the ranks of a large run contributes to a check, on one of several machines.

    `open(run, mapped=output)` puts the run together when all shards are mapped. Traces that are there already are skipped,
    so a shard can be repeated.

    Args:
        run: Path of the run, or its address in an object store.
        output: The folder to write to, or its address; the same for all shards.
        shard: The part to map: `"2/8"` is the second of eight.
        rules: Rule files, if the check uses some besides the built-in rules.
    """
    options = to_options(rules=files(rules), shard=shard, output=os.fspath(output))
    _native.output_of(["map", *options, "--", os.fspath(run)])


def merge(run: Run | Path, output: Path, *, force: bool = False) -> FilePath:
    """Writes the timelines of all ranks into one trace, for a viewer; compressed if its name ends in `.gz`."""
    _native.output_of(["merge", *to_options(force=force, output=os.fspath(output)), "--", _path(run)])
    return _file_path(output)


def augment(
    run: Run | Path, output: Path, *, only: str | Iterable[str] | None = None, force: bool = False
) -> list[FilePath]:
    """Copies traces with what the analyses add: counters, the critical path, findings. Returns the traces.

    Args:
        run: The run.
        output: The folder to write to.
        only: Some of `counters`, `critical-path` and `findings`.
        force: Replace existing files.
    """
    if only is not None and not isinstance(only, str):
        only = ",".join(only)
    options = to_options(only=only, force=force, output=os.fspath(output))
    written = _native.output_of(["augment", *options, "--", _path(run)])
    return [_file_path(line) for line in written.splitlines()]


def cut(
    run: Run | Path,
    output: Path,
    *,
    between: str | tuple[float, float] | None = None,
    steps: Selection | None = None,
    ranks: Selection | None = None,
    force: bool = False,
) -> list[FilePath]:
    """Cuts steps or a time range out of the traces, for viewers that cannot open large ones. Returns the new traces.

    Args:
        run: The run.
        output: The folder to write to.
        between: A time range such as `"10ms..50ms"`, or two times in nanoseconds from the first event of the run.
        steps: The time range of these steps, such as `5`, `"5-8"` or `range(5, 9)`.
        ranks: Only these ranks, such as `"0-3,8"`.
        force: Write into a folder that is not empty, and replace files there.

    Raises:
        AdvisorError: If neither `between` nor `steps` is given, or nothing is selected.
    """
    options = to_options(
        between=time_range(between), steps=numbers(steps), ranks=numbers(ranks), force=force, output=os.fspath(output)
    )
    written = _native.output_of(["cut", *options, "--", _path(run)])
    return [_file_path(line) for line in written.splitlines()]


def explain(code: str) -> str:
    """The page of a rule in Markdown: what it measures, from when on it fires, what to do."""
    return _native.output_of(["explain", code])


def views(search: str = "") -> str:
    """The analyses, or those about a word."""
    return _native.output_of(["analyze", "--list" if not search else f"--list={search}"])


def describe(name: str) -> str:
    """The columns of a table or view, with units."""
    return _native.output_of(["tables", name])


def demo(output: Path, *, bottleneck: str = "data-loading", ranks: int = 1, force: bool = False) -> FilePath:
    """Writes a run with a known problem to try things on, and returns its folder."""
    options = to_options(bottleneck=bottleneck, ranks=ranks, force=force, output=os.fspath(output))
    _native.output_of(["demo", *options])
    return _file_path(output)
