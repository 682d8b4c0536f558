"""The calls that are compared with HTA: each public method of `TraceAnalysis` that returns numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

Call = Callable[[Any, int], Any]


def _sorted_by_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Rows whose order HTA leaves to chance."""
    return table.sort_values(list(table.columns[:3]), ignore_index=True)


def _blocked(analyzer: Any, rank: int) -> dict[int, pd.DataFrame]:
    """Each stream on its own, since HTA returns one stream per rank."""
    streams = analyzer.get_queue_length_time_series([rank])[rank].groupby("stream")
    return {
        int(stream): analyzer.get_time_spent_blocked_on_full_queue({rank: series}, max_queue_length=1)
        for stream, series in streams
    }


def _bandwidths(analyzer: Any, rank: int) -> dict[int, pd.DataFrame]:
    """The value after each moment, since HTA has one row per start and end."""
    series = analyzer.get_memory_bw_time_series([rank])
    return {
        r: rows.astype({"pid": "str"}).groupby(["name", "ts"], as_index=False)[["pid", "memory_bw_gbps"]].last()
        for r, rows in series.items()
    }


def _critical_path(analyzer: Any, rank: int) -> pd.Series:
    graph, found = analyzer.critical_path_analysis(rank, "", None)
    assert found
    return pd.concat([graph.summary(), pd.Series({"nodes on the path": len(graph.critical_path_nodes)})])


def _critical_path_edges(analyzer: Any, rank: int) -> pd.DataFrame:
    graph, _ = analyzer.critical_path_analysis(rank, "", None)
    events = [
        (*graph.get_events_for_edge(edge), edge.type.value, edge.weight) for _, _, edge in graph.edges(data="object")
    ]
    return _sorted_by_columns(pd.DataFrame(events, columns=["from", "to", "type", "weight"]))


def _critical_path_breakdown(analyzer: Any, rank: int) -> pd.DataFrame:
    graph, _ = analyzer.critical_path_analysis(rank, "", None)
    table = graph.get_critical_path_breakdown()
    table["cat"] = table["cat"].map(lambda i: "" if pd.isna(i) else analyzer.t.symbol_table.sym_table[int(i)])
    return table.sort_values(["event_idx", "type", "duration"], ignore_index=True)


def _events(analyzer: Any, rank: int) -> pd.DataFrame:
    frame = analyzer.t.get_trace(rank)
    symbols = analyzer.t.symbol_table.sym_table
    columns = ["index", "cat", "name", "ts", "dur", "stream", "correlation", "iteration", "index_correlation"]
    frame = frame[columns].assign(
        name=frame["name"].map(symbols.__getitem__), cat=frame["cat"].map(symbols.__getitem__)
    )
    return frame.assign(pid=analyzer.t.get_trace(rank)["pid"].astype("str"))


def _annotated(analyzer: Any, rank: int) -> pd.DataFrame | None:
    table = analyzer.get_gpu_kernels_with_user_annotations(rank)
    columns = ["index", "ts", "dur", "stream", "s_name", "s_cat", "s_user_annotation"]
    return None if table is None else table[columns].sort_values("index", ignore_index=True)


def _counters(analyzer: Any, rank: int) -> list[pd.DataFrame]:
    tables = analyzer.get_cupti_counter_data_with_operators([rank])
    shared = ["index", "cat", "name", "ts", "dur", "op_stack", "top_level_op", "bottom_level_op", "index_runtime"]
    return [table[shared + sorted(c for c in table.columns if c.startswith("smsp__"))] for table in tables]


CALLS: dict[str, Call] = {
    "temporal_breakdown": lambda a, rank: a.get_temporal_breakdown(visualize=False),
    "idle_time_breakdown": lambda a, rank: a.get_idle_time_breakdown([rank], visualize=False)[0],
    "idle_interval_stats": lambda a, rank: a.get_idle_time_breakdown(
        [rank], visualize=False, show_idle_interval_stats=True
    )[1],
    "kernel_types": lambda a, rank: a.get_gpu_kernel_breakdown(visualize=False)[0],
    "kernel_types_without_memory": lambda a, rank: a.get_gpu_kernel_breakdown(
        visualize=False, include_memory_kernels=False
    )[0],
    "kernels": lambda a, rank: a.get_gpu_kernel_breakdown(visualize=False, num_kernels=100_000)[1],
    "top_kernels": lambda a, rank: a.get_gpu_kernel_breakdown(visualize=False, duration_ratio=1.0)[1],
    "comm_comp_overlap": lambda a, rank: a.get_comm_comp_overlap(visualize=False),
    "kernel_launch_stats": lambda a, rank: a.get_cuda_kernel_launch_stats([rank], visualize=False),
    "kernel_launch_stats_without_memory": lambda a, rank: a.get_cuda_kernel_launch_stats(
        [rank], include_memory_events=False, visualize=False
    ),
    "aten_op_kernels_and_delay": lambda a, rank: {
        r: _sorted_by_columns(table) for r, table in a.get_aten_op_kernels_and_delay([rank]).items()
    },
    "queue_length_time_series": lambda a, rank: a.get_queue_length_time_series([rank]),
    "queue_length_summary": lambda a, rank: a.get_queue_length_summary([rank]),
    "time_spent_blocked_on_full_queue": _blocked,
    "memory_bw_summary": lambda a, rank: a.get_memory_bw_summary([rank]),
    "memory_bw_time_series": _bandwidths,
    "gpu_user_annotation_breakdown": lambda a, rank: a.get_gpu_user_annotation_breakdown(visualize=False),
    "cpu_user_annotation_breakdown": lambda a, rank: a.get_gpu_user_annotation_breakdown(False, visualize=False),
    "gpu_kernels_with_user_annotations": _annotated,
    "profiler_steps": lambda a, rank: [int(step) for step in a.get_profiler_steps()],
    "potential_stragglers": lambda a, rank: sorted(a.get_potential_stragglers()),
    "cupti_counter_data_with_operators": _counters,
    "critical_path_summary": _critical_path,
    "critical_path_edges": _critical_path_edges,
    "critical_path_breakdown": _critical_path_breakdown,
    "traces": _events,
}
