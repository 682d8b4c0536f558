"""The traces that HTA writes: with counters, with the critical path, with recurring sequences."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from trace_advisor.hta import TimeSeriesTypes, TraceAnalysis

from analyzers import CORPUS, ours, theirs
from frames import difference


def events(path: Path | str) -> list[dict[str, Any]]:
    """The events of a compressed trace."""
    with gzip.open(path) as file:
        return json.load(file)["traceEvents"]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of a trace of one rank, since traces with counters are written beside the original."""
    return Path(shutil.copytree(CORPUS / "critical_path_alexnet", tmp_path / "run"))


def with_counters(analyzer: Any, folder: Path, suffix: str) -> list[tuple[Any, ...]]:
    """The counters that an analyzer adds."""
    analyzer.generate_trace_with_counters(output_suffix=suffix)
    written = next(folder.glob(f"*{suffix}.json.gz"))
    counters = [event for event in events(written) if event["ph"] == "C"]
    return sorted((event["ts"], event["name"], event.get("id", -1), str(event["args"])) for event in counters)


def test_counters_equal_hta(copy: Path) -> None:
    from hta.trace_analysis import TraceAnalysis as TheirAnalysis

    analyzers = TheirAnalysis(trace_dir=str(copy)), TraceAnalysis(trace_dir=str(copy))
    expected, found = (
        with_counters(analyzer, copy, suffix) for analyzer, suffix in zip(analyzers, ["_theirs", "_ours"], strict=True)
    )
    assert len(expected) > 100
    queues = [[event for event in counters if event[1] == "Queue Length"] for counters in (expected, found)]
    assert queues[0] == queues[1]
    # HTA has one event per start and end of a copy: compare the moments.
    assert {event[:2] for event in expected} == {event[:2] for event in found}


def test_counters_can_be_selected(copy: Path) -> None:
    TraceAnalysis(trace_dir=str(copy)).generate_trace_with_counters(TimeSeriesTypes.MEMCPY_BANDWIDTH)
    written = next(copy.glob("*_with_counters.json.gz"))
    names = {event["name"] for event in events(written) if event["ph"] == "C"}
    assert names
    assert all(name.startswith("Mem") for name in names)


@pytest.mark.parametrize("only_critical", [True, False])
def test_overlaid_critical_path_equals_hta(tmp_path: Path, only_critical: bool) -> None:
    found = []
    for name, analyzer in (("theirs", theirs("critical_path_alexnet")), ("ours", ours("critical_path_alexnet"))):
        graph, _ = analyzer.critical_path_analysis(0, "measure|forward", 1)
        path = analyzer.overlay_critical_path_analysis(
            0, graph, str(tmp_path / name), only_show_critical_events=only_critical
        )
        assert Path(path).name.startswith("overlaid_critical_path_")
        written = events(path)
        arrows = Counter((e["cat"], e["ph"]) for e in written if str(e.get("cat", "")).startswith("critical_path"))
        critical = sum(e["args"].get("critical", 0) for e in written if "args" in e and e["ph"] == "X")
        found.append((len(written), arrows, critical, len(graph.critical_path_events_set)))
    assert found[0] == found[1]
    assert found[1][2] == found[1][3] > 0


def test_kernel_sequences_equal_hta(tmp_path: Path) -> None:
    tables, marked = [], []
    for name, analyzer in (("theirs", theirs("diff_control")), ("ours", ours("diff_control"))):
        folder = tmp_path / name
        folder.mkdir()
        rank = analyzer.t.get_ranks()[0]
        table = analyzer.get_frequent_cuda_kernel_sequences("aten::linear", str(folder), 1, rank, top_k=3)
        tables.append(table)
        written = events(next(folder.glob("overlaid_*")))
        marked.append(
            [(i, e["args"]["Patterns"]) for i, e in enumerate(written) if "Patterns" in (e.get("args") or {})]
        )
    assert difference(*tables, tolerance=0.0) is None
    assert len(tables[1]) > 3
    assert marked[0] == marked[1]


def test_kernel_sequences_need_a_name_and_a_folder(tmp_path: Path) -> None:
    analyzer = ours("two_ranks")
    assert analyzer.get_frequent_cuda_kernel_sequences("", str(tmp_path)).empty
    assert analyzer.get_frequent_cuda_kernel_sequences("aten::linear", str(tmp_path / "missing")).empty
    assert analyzer.get_frequent_cuda_kernel_sequences("no such operator", str(tmp_path)).empty
