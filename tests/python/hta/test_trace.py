"""`Trace`: files, ranks, windows and filters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from trace_advisor.hta import TraceAnalysis
from trace_advisor.hta.common import trace_filter
from trace_advisor.hta.common.trace import Trace

from analyzers import CORPUS, ours, theirs

FILES = {0: "sampled_rank-0.json.gz", 1: "sampled_rank-1.json.gz"}


def test_ranks_follow_trace_files() -> None:
    swapped = TraceAnalysis(trace_files={5: FILES[1], 3: FILES[0]}, trace_dir=str(CORPUS / "two_ranks"))
    plain = ours("two_ranks").get_temporal_breakdown(visualize=False).set_index("rank")
    found = swapped.get_temporal_breakdown(visualize=False).set_index("rank")
    assert swapped.t.get_ranks() == [3, 5]
    assert found.loc[5].to_dict() == plain.loc[1].to_dict()
    assert found.loc[3].to_dict() == plain.loc[0].to_dict()
    assert swapped.t.trace_files[5].endswith(FILES[1])


def test_one_file_is_the_rank_that_the_caller_says() -> None:
    analyzer = TraceAnalysis(trace_files={4: str(CORPUS / "two_ranks" / FILES[1])})
    assert analyzer.t.get_ranks() == [4]
    assert set(analyzer.get_queue_length_time_series([4])) == {4}
    with pytest.raises(ValueError, match="no trace of rank 0; there are \\[4\\]"):
        analyzer.get_queue_length_time_series()


def test_missing_file_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such trace file"):
        TraceAnalysis(trace_files={0: "missing.json"}, trace_dir=str(CORPUS / "two_ranks"))


def test_parser_config_is_not_offered() -> None:
    with pytest.raises(NotImplementedError, match="parser_config"):
        Trace(trace_dir=str(CORPUS / "two_ranks"), parser_config=object())


def test_last_step_counts_if_asked_for() -> None:
    from hta.trace_analysis import TraceAnalysis as TheirAnalysis

    options = {"trace_dir": str(CORPUS / "two_ranks"), "include_last_profiler_step": True}
    expected, found = TheirAnalysis(**options), TraceAnalysis(**options)
    assert found.get_profiler_steps() == expected.get_profiler_steps()
    tables = [a.get_temporal_breakdown(visualize=False) for a in (expected, found)]
    assert tables[0].to_dict() == tables[1].to_dict()
    assert list(found.t.get_trace(0).index) == list(expected.t.get_trace(0).index)


def test_trace_describes_itself_as_in_hta() -> None:
    expected, found = theirs("two_ranks").t, ours("two_ranks").t
    assert found.get_ranks() == expected.get_ranks()
    assert found.trace_files == expected.trace_files
    assert found.get_iterations() == expected.get_iterations()
    assert found.get_trace_duration(1) == expected.get_trace_duration(1)
    assert found.min_ts == expected.min_ts
    assert found.meta_data[1] == expected.meta_data[1]
    with pytest.raises(ValueError, match="no trace of rank 7"):
        found.get_trace(7)


def test_names_are_decoded_as_in_hta() -> None:
    expected, found = (analyzer.t.get_trace(0).copy() for analyzer in (theirs("two_ranks"), ours("two_ranks")))
    theirs("two_ranks").t.symbol_table.decode_df(expected)
    ours("two_ranks").t.symbol_table.decode_df(found)
    assert found["s_name"].tolist() == expected["s_name"].tolist()
    assert found["s_cat"].tolist() == expected["s_cat"].tolist()


FILTERS: dict[str, Callable[[Any], Any]] = {
    "iteration": lambda module: module.IterationFilter([551]),
    "iteration index": lambda module: module.IterationIndexFilter(0),
    "first iteration": lambda module: module.FirstIterationFilter(),
    "time range": lambda module: module.TimeRangeFilter((10_000, 200_000)),
    "name": lambda module: module.NameFilter("aten::.*mm"),
    "query": lambda module: module.QueryFilter("dur > 100"),
    "device": lambda module: module.GPUKernelFilter(),
    "host": lambda module: module.CPUOperatorFilter(),
    "both": lambda module: module.CompositeFilter([module.GPUKernelFilter(), module.TimeRangeFilter((0, 300_000))]),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filter_equals_hta(name: str) -> None:
    from hta.common import trace_filter as their_filter

    selected = [
        FILTERS[name](module)(analyzer.t.get_trace(0), analyzer.t.symbol_table).index.tolist()
        for module, analyzer in ((their_filter, theirs("two_ranks")), (trace_filter, ours("two_ranks")))
    ]
    assert selected[0] == selected[1]
    assert 0 < len(selected[1]) < len(ours("two_ranks").t.get_trace(0)) or name in (
        "iteration",
        "iteration index",
        "first iteration",
    )


def test_filters_reject_wrong_arguments() -> None:
    with pytest.raises(TypeError, match="takes an integer or a list"):
        trace_filter.RankFilter("0")
    with pytest.raises(ValueError, match="ends before it begins"):
        trace_filter.TimeRangeFilter((2, 1))


def test_call_graph_equals_hta() -> None:
    from hta.common.trace_call_graph import CallGraph as TheirGraph
    from trace_advisor.hta.common.trace_call_graph import CallGraph

    name = "two_ranks"
    TheirGraph(theirs(name).t), CallGraph(ours(name).t)
    frames = [analyzer.t.get_trace(0) for analyzer in (theirs(name), ours(name))]
    calls = frames[0].index[frames[0]["stream"].eq(-1) & frames[0]["depth"].ge(0)]
    for column in ("depth", "num_kernels", "kernel_dur_sum"):
        values = [frame.loc[calls, column].astype("float64") for frame in frames]
        assert values[0].equals(values[1]), column
    assert len(calls) > 500


def test_stack_of_a_call_has_what_is_around_and_below() -> None:
    from trace_advisor.hta.common.trace_call_graph import CallGraph

    trace = ours("critical_path_alexnet").t
    graph = CallGraph(trace)
    frame = trace.get_trace(0)
    launch = int(frame.index[frame["num_kernels"].eq(1) & frame["height"].eq(1)][0])
    stack = graph.get_stack_of_node(launch)
    assert stack["depth"].tolist() == list(range(len(stack)))
    assert stack["num_kernels"].ge(1).sum() == len(stack) - 1
    assert graph.get_stack_of_node(launch, skip_ancestors=True)["index"].tolist()[0] == launch
    assert set(graph.get_gpu_kernels()["height"]) == {0}


def test_what_is_not_offered_says_what_to_use() -> None:
    with pytest.raises(NotImplementedError, match="op_execution_nodes"):
        from trace_advisor.hta.common.execution_trace import correlate_execution_trace  # noqa: F401
    with pytest.raises(NotImplementedError, match="trace_advisor.augment"):
        from trace_advisor.hta.common.timeline import Timeline  # noqa: F401
