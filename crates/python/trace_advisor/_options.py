"""Options of the program from arguments of Python."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeAlias

Path: TypeAlias = "str | os.PathLike[str]"
"""A path or an address."""
Selection: TypeAlias = "str | int | range | slice | Iterable[int]"
"""Numbers: `3`, `"0-3,8"`, `range(4)`, `[0, 1, 8]`, or, for a range without an end, `slice(5, None)`."""


def to_options(**values: object) -> list[str]:
    """Options such as `--memory-limit=4GiB`. None and False are left out."""
    options = []
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            options.append(flag)
        elif isinstance(value, list):
            options += [f"{flag}={item}" for item in value]
        else:
            options.append(f"{flag}={value}")
    return options


def numbers(selection: Selection | None) -> str | None:
    """A list of numbers, such as ranks, as the program reads it."""
    if selection is None or isinstance(selection, str):
        return selection
    if isinstance(selection, int):
        return str(selection)
    if isinstance(selection, slice):
        if selection.step not in (None, 1) or selection.start is None:
            raise ValueError("a slice of numbers needs a start and has no step")
        end = "" if selection.stop is None else selection.stop - 1
        return f"{selection.start}-{end}" if end != "" else f"{selection.start}.."
    if isinstance(selection, range) and selection.step == 1 and len(selection) > 0:
        return f"{selection.start}-{selection.stop - 1}"
    return ",".join(str(number) for number in selection)


def time_range(between: str | tuple[float, float] | None) -> str | None:
    """A time range: `"10ms..50ms"`, or two times in nanoseconds from the first event of the run."""
    if between is None or isinstance(between, str):
        return between
    start, end = between
    return f"{start:.0f}ns..{end:.0f}ns"


def words(value: str | Iterable[str] | None) -> str | None:
    """A list of words, such as codes of rules."""
    if value is None or isinstance(value, str):
        return value
    return ",".join(value)


def files(value: Path | Iterable[Path] | None) -> list[str]:
    """One file or several."""
    if value is None:
        return []
    if isinstance(value, (str, os.PathLike)):
        return [os.fspath(value)]
    return [os.fspath(file) for file in value]
