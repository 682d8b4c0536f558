"""`TraceDiff` equals HTA's on pairs of traces."""

from __future__ import annotations

from typing import Any

import pytest
import trace_advisor.hta.trace_diff as ours
from trace_advisor.hta import LabeledTrace

from analyzers import CORPUS
from frames import difference

PAIRS = [("compare_base", "compare_test"), ("diff_control", "diff_test")]


@pytest.fixture(scope="module", params=PAIRS, ids=str)
def traces(request: pytest.FixtureRequest) -> dict[str, list[Any]]:
    """Both traces of a pair, in HTA and here."""
    from hta import trace_diff as theirs

    labeled = {}
    for name, module in (("theirs", theirs), ("ours", ours)):
        labeled[name] = [module.LabeledTrace(label=trace, trace_dir=str(CORPUS / trace)) for trace in request.param]
    return labeled


@pytest.mark.parametrize("use_short_name", [False, True])
@pytest.mark.parametrize("device_type", ["CPU", "GPU", "ALL"])
def test_compare_traces_equals_hta(traces: dict[str, list[Any]], device_type: str, use_short_name: bool) -> None:
    from hta import trace_diff as theirs

    tables = [
        module.TraceDiff.compare_traces(
            *traces[name], device_type=module.DeviceType[device_type], use_short_name=use_short_name
        )
        for name, module in (("theirs", theirs), ("ours", ours))
    ]
    assert difference(*(table.sort_index() for table in tables), tolerance=0.0) is None


def test_ops_diff_equals_hta(traces: dict[str, list[Any]]) -> None:
    from hta import trace_diff as theirs

    changes = [
        {change: sorted(names) for change, names in module.TraceDiff.ops_diff(*traces[name]).items()}
        for name, module in (("theirs", theirs), ("ours", ours))
    ]
    assert changes[0] == changes[1]
    assert any(changes[1].values())


def test_labeled_trace_equals_hta(traces: dict[str, list[Any]]) -> None:
    for expected, found in zip(traces["theirs"], traces["ours"], strict=True):
        assert found.label == expected.label
        assert found.ranks() == expected.ranks()
        assert found.iterations() == expected.iterations()
        summaries = [
            trace.get_ops_summary(trace.extract_ops())
            .drop(columns=["cat_id", "name_id"])
            .sort_values(["cat", "name"], ignore_index=True)
            for trace in (expected, found)
        ]
        assert difference(*summaries, tolerance=0.0) is None


def test_figures_show_both_sides(traces: dict[str, list[Any]], shown: list[Any]) -> None:
    table = ours.TraceDiff.compare_traces(*traces["ours"])
    ours.TraceDiff.visualize_counts_diff(table)
    ours.TraceDiff.visualize_duration_diff(table)
    labels = [trace.label for trace in traces["ours"]]
    assert [[bar.name for bar in figure.data] for figure in shown] == [[*labels, "Difference"]] * 2
    assert shown[1].layout.yaxis.title.text == "Total Duration (us)"


def test_unknown_rank_and_step_are_errors() -> None:
    trace = LabeledTrace(trace_dir=str(CORPUS / "compare_base"))
    with pytest.raises(ValueError, match="no rank 7"):
        trace.extract_ops(rank=7)
    with pytest.raises(ValueError, match="no iteration 1; it has"):
        trace.extract_ops(iteration=1)
    with pytest.raises(ValueError, match="needs a trace or the folder"):
        LabeledTrace()
