"""HTA's critical path: the analysis, and traces that show the path."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

import pandas as pd

from ..common.trace import Trace
from .critical_path_graph import CPEdge, CPEdgeType, CPGraph, CPNode, restore_cpgraph

__all__ = ["CPEdge", "CPEdgeType", "CPGraph", "CPNode", "CriticalPathAnalysis", "restore_cpgraph"]

logger = logging.getLogger("trace_advisor.hta")

#: Edges that an overlaid trace shows by default.
DEFAULT_EDGE_TYPES_IN_VIZ = {CPEdgeType.DEPENDENCY, CPEdgeType.KERNEL_LAUNCH_DELAY, CPEdgeType.SYNC_DEPENDENCY}

SHOW_ZERO_WEIGHT_LAUNCH_EDGES = "CRITICAL_PATH_SHOW_ZERO_WEIGHT_LAUNCH_EDGE"


class CriticalPathAnalysis:
    """The critical path of a part of a trace. `TraceAnalysis` has the same methods."""

    @classmethod
    def critical_path_analysis(
        cls, t: Trace, rank: int, annotation: str, instance_id: int | tuple[int, int] | None
    ) -> tuple[CPGraph, bool] | None:
        """`TraceAnalysis.critical_path_analysis`."""
        if not any(annotation in symbol for symbol in t.symbol_table.sym_table):
            logger.error("no event has `%s` in its name", annotation)
            return None
        first, last = instance_id if isinstance(instance_id, tuple) else (instance_id or 0, instance_id or 0)
        edges = t.view(
            "hta_critical_path_edges",
            [rank],
            hta_annotation=annotation,
            hta_instance=first,
            hta_last_instance=last,
            hta_all_edges=True,
        )
        if edges.empty:
            raise ValueError(f"rank {rank} has no instance {instance_id} of `{annotation}`, or nothing happens in it")
        edges["weight"] = edges["weight_ns"] / 1000
        edges["bound_by"] = edges["bound_by"].fillna("")
        has_path = edges["position"].notna().any()
        return CPGraph(edges, t, rank), bool(has_path)

    @staticmethod
    def _is_zero_weight_launch_edge(e: CPEdge) -> bool:
        return e.type == CPEdgeType.KERNEL_LAUNCH_DELAY and e.weight == 0

    @classmethod
    def overlay_critical_path_analysis(
        cls,
        t: Trace,
        rank: int,
        critical_path_graph: CPGraph,
        output_dir: str,
        only_show_critical_events: bool,
        show_all_edges: bool,
        edge_types_to_viz: set[CPEdgeType] | None = None,
    ) -> str:
        """`TraceAnalysis.overlay_critical_path_analysis`, with a choice of the edges to draw."""
        folder = os.path.expanduser(output_dir)
        os.makedirs(folder, exist_ok=True)
        raw = t.get_raw_trace_for_one_rank(rank)
        events = raw["traceEvents"]
        for index in critical_path_graph.critical_path_events_set:
            events[index].setdefault("args", {})["critical"] = 1
        if show_all_edges and not only_show_critical_events:
            edges = cls._all_edges(critical_path_graph)
        else:
            types = edge_types_to_viz or DEFAULT_EDGE_TYPES_IN_VIZ
            edges = (edge for edge in critical_path_graph.critical_path_edges_set if edge.type in types)
        arrows = _arrows(critical_path_graph, events, edges)
        if only_show_critical_events:
            events = [event for event in events if _is_kept(event)]
        raw["traceEvents"] = events + arrows
        path = os.path.join(folder, f"overlaid_critical_path_{os.path.basename(t.trace_files[rank])}")
        t.write_raw_trace(path, raw)
        return path

    @classmethod
    def _all_edges(cls, graph: CPGraph) -> Iterable[CPEdge]:
        shows_zero_weights = os.environ.get(SHOW_ZERO_WEIGHT_LAUNCH_EDGES, "0") == "1"
        edges = (edge for _, _, edge in graph.edges(data="object"))
        return (edge for edge in edges if shows_zero_weights or not cls._is_zero_weight_launch_edge(edge))


def _is_kept(event: dict[str, Any]) -> bool:
    is_range = event.get("cat") in ("user_annotation", "python_function")
    return event.get("ph") != "X" or is_range or event.get("args", {}).get("critical") == 1


def _arrows(graph: CPGraph, events: list[dict[str, Any]], edges: Iterable[CPEdge]) -> list[dict[str, Any]]:
    arrows = []
    for number, edge in enumerate(sorted(edges, key=lambda edge: (edge.begin, edge.end))):
        args = {"weight": edge.weight, "critical": edge in graph.critical_path_edges_set}
        for node, is_start in ((edge.begin, True), (edge.end, False)):
            event = events[graph.node_list[node].ev_idx]
            place = {key: event[key] for key in ("pid", "tid")}
            ts = _arrow_time(event, graph.node_list[node])
            arrows.append(
                Trace.flow_event(
                    number, **place, ts=ts, is_start=is_start, name="critical_path", cat=edge.type.value, args=args
                )
            )
    return arrows


def _arrow_time(event: dict[str, Any], node: CPNode) -> float:
    """Viewers draw an arrow only if it ends within an event, so it ends a bit before the end of a device event."""
    ts, dur = float(event["ts"]), float(event["dur"])
    if node.is_start:
        return ts
    on_device = not pd.isna(event.get("args", {}).get("device"))
    return ts + dur - (min(1.0, dur) if on_device else 0.0)
