"""What notebooks do with the graph of the critical path."""

from __future__ import annotations

from pathlib import Path

import pytest
from trace_advisor.hta.analyzers.critical_path_analysis import CPEdgeType, CPGraph, restore_cpgraph

from analyzers import ours, theirs

FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"


@pytest.fixture
def graph() -> CPGraph:
    """The graph of one forward pass."""
    found, has_path = ours("critical_path_alexnet").critical_path_analysis(0, FORWARD, 1)
    assert has_path
    return found


@pytest.mark.parametrize("instance", [None, 0, 1, (0, 1)])
def test_instances_equal_hta(instance: int | tuple[int, int] | None) -> None:
    expected, found = (
        analyzer.critical_path_analysis(0, FORWARD, instance)[0]
        for analyzer in (theirs("critical_path_alexnet"), ours("critical_path_alexnet"))
    )
    assert len(found.critical_path_nodes) == len(expected.critical_path_nodes)
    assert found.critical_path_events_set == expected.critical_path_events_set
    assert len(found.edges) == len(expected.edges)
    assert found.summary().round(6).to_dict() == expected.summary().round(6).to_dict()


def test_path_found_again_is_as_long(graph: CPGraph) -> None:
    before = sum(edge.weight for edge in graph.critical_path_edges_set)
    assert graph.critical_path()
    assert sum(edge.weight for edge in graph.critical_path_edges_set) == pytest.approx(before)


def test_shorter_edge_moves_the_path(graph: CPGraph) -> None:
    longest = max(graph.critical_path_edges_set, key=lambda edge: edge.weight)
    graph.edges[longest.begin, longest.end]["weight"] = 0
    assert graph.critical_path()
    weights = [graph.edges[edge.begin, edge.end]["weight"] for edge in graph.critical_path_edges_set]
    assert (
        sum(weights) < sum(edge.weight for edge in graph.critical_path_edges_set)
        or longest not in graph.critical_path_edges_set
    )


def test_nodes_and_edges_of_an_event(graph: CPGraph) -> None:
    edge = next(e for e in graph.critical_path_edges_set if e.type == CPEdgeType.OPERATOR_KERNEL)
    event = graph.get_event_attribution_for_edge(edge)
    start, end = graph.get_nodes_for_event(event)
    assert start.is_start and not end.is_start
    assert end.ts - start.ts == pytest.approx(graph.trace_df.at[event, "dur"])
    assert edge in graph.get_edges_attributed_to_event(event)
    assert graph.get_nodes_for_event(-7) == (None, None)


def test_saved_graph_is_restored(graph: CPGraph, tmp_path: Path) -> None:
    path = graph.save(str(tmp_path / "graph"))
    restored = restore_cpgraph(path, ours("critical_path_alexnet").t, 0)
    assert path == str(tmp_path / "graph.zip")
    assert set(restored.edges) == set(graph.edges)
    assert restored.critical_path_edges_set == graph.critical_path_edges_set
    assert restored.summary().to_dict() == pytest.approx(graph.summary().to_dict())


def test_unknown_regions() -> None:
    analyzer = ours("critical_path_alexnet")
    assert analyzer.critical_path_analysis(0, "no such name", None) is None
    with pytest.raises(ValueError, match="no instance 99"):
        analyzer.critical_path_analysis(0, FORWARD, 99)
    with pytest.raises(NotImplementedError, match="critical_path"):
        analyzer.critical_path_analysis(0, FORWARD, 0, data_load_events=["next"])
