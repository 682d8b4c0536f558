"""Progress of long calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias


class Progress(NamedTuple):
    """What a call is doing."""

    stage: str
    """`reading`, `computing`, ..."""
    done: int
    """Items that are done."""
    total: int
    """Items of the stage; 0 if unknown."""
    unit: str
    """The kind of items: `files`, `views`."""
    ratio: float | None
    """The part of the stage that is done, from 0 to 1; None if nothing is known about it."""


ProgressArgument: TypeAlias = "bool | Callable[[Progress], object] | type[Any] | None"
"""`True` or a class like `tqdm` draws a bar; a callable gets a `Progress` up to 20 times a second."""
Callback: TypeAlias = "Callable[[str, int, int, str, float | None], object]"


class Bar:
    """A bar of tqdm, or of a class like it."""

    def __init__(self, make: type[Any]) -> None:
        self._make = make
        self._bar: Any = None
        self._stage = ""

    def __call__(self, stage: str, done: int, total: int, unit: str, ratio: float | None) -> None:
        if self._stage != stage:
            self.close()
            self._bar = self._make(total=1.0, desc=stage, bar_format="{desc} {percentage:3.0f} % |{bar}| {postfix}")
            self._stage = stage
        self._bar.set_postfix_str(f"{done}/{total} {unit}", refresh=False)
        self._bar.update(max((ratio or 0.0) - self._bar.n, 0.0))

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class callback:
    """A context with the callback for an argument `progress`."""

    def __init__(self, progress: ProgressArgument) -> None:
        self._progress = progress
        self._bar: Bar | None = None

    def __enter__(self) -> Callback | None:
        progress = self._progress
        if progress is None or progress is False:
            return None
        if progress is True:
            from tqdm.auto import tqdm

            progress = tqdm
        if isinstance(progress, type):
            self._bar = Bar(progress)
            return self._bar
        call: Callable[[Progress], object] = progress
        return lambda *work: call(Progress(*work))

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
