"""`MemoryAnalysis` reads what HTA reads."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from trace_advisor.hta.memory_analysis import CATEGORIES, MemoryAnalysis

#: When the recording begins, in nanoseconds since 1970.
START_NS = 1_700_000_000_000_000_000

#: Actions of an exported timeline: time in ns (-1: before the recording), action, bytes, category.
ACTIONS = [
    [-1, 1, 4096, 0],
    [-1, 1, 512, 1],
    [START_NS + 1_000, 1, 1024, 4],
    [START_NS + 1_000, 1, 256, 3],
    [START_NS + 3_500, 2, 128, 5],
    [START_NS + 9_000, 3, -1024, 4],
]


@pytest.fixture
def timeline(tmp_path: Path) -> str:
    """An exported memory timeline."""
    path = tmp_path / "memory_rank0.raw.json.gz"
    with gzip.open(path, "wt") as file:
        json.dump(ACTIONS, file)
    return str(path)


def test_curve_equals_hta(timeline: str) -> None:
    from hta.memory_analysis import MemoryAnalysis as TheirAnalysis

    times, sizes = TheirAnalysis(timeline)._process_raw_events()
    curve = MemoryAnalysis(timeline).curve()
    assert curve[list(CATEGORIES)].to_numpy().tolist() == sizes
    assert curve["time (ms)"].tolist() == pytest.approx([(time - min(times)) / 1e6 for time in times])


def test_figure_equals_hta(timeline: str, shown: list[Any]) -> None:
    from hta.memory_analysis import MemoryAnalysis as TheirAnalysis

    TheirAnalysis(timeline).plot_memory_timeline()
    MemoryAnalysis(timeline).plot_memory_timeline()
    theirs, ours = shown
    assert [line.name for line in ours.data] == [line.name for line in theirs.data]
    assert [line.fillcolor for line in ours.data] == [line.fillcolor for line in theirs.data]
    for line, expected in zip(ours.data, theirs.data, strict=True):
        assert list(line.y) == pytest.approx(list(expected.y))
        assert list(line.x) == pytest.approx(list(expected.x))
