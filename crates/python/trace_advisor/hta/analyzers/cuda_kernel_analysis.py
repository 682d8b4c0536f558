"""How kernels are launched: delays of launches, kernels of operators, and recurring sequences."""

from __future__ import annotations

import pandas as pd

from .. import _figures
from ..common.trace import Trace


def kernel_launch_stats(
    t: Trace,
    ranks: list[int],
    runtime_cutoff: int,
    launch_delay_cutoff: int,
    include_memory_events: bool,
    visualize: bool,
) -> dict[int, pd.DataFrame]:
    """`TraceAnalysis.get_cuda_kernel_launch_stats`."""
    rows = t.view(
        "kernel_launch_stats", ranks, runtime_cutoff_us=runtime_cutoff, launch_delay_cutoff_us=launch_delay_cutoff
    )
    if not include_memory_events:
        rows = rows[rows["category"] == "kernel"]
    launches = t.view("device_activities", ranks)[["rank", "event_id", "launch"]]
    rows = rows.merge(launches, on=["rank", "event_id"]).sort_values(["launch", "event_id"])
    stats = {}
    for rank in ranks:
        of_rank = rows[rows["rank"] == rank].reset_index(drop=True)
        stats[rank] = pd.DataFrame(
            {
                "correlation": of_rank["correlation"],
                "cpu_duration": of_rank["launch_dur_ns"] / 1000,
                "gpu_duration": of_rank["device_dur_ns"] / 1000,
                "launch_delay": of_rank["launch_delay_ns"] / 1000,
            }
        )
        if visualize:
            _draw_launches(rank, stats[rank], of_rank, runtime_cutoff, launch_delay_cutoff)
    return stats


def _draw_launches(
    rank: int, stats: pd.DataFrame, rows: pd.DataFrame, runtime_cutoff: int, launch_delay_cutoff: int
) -> None:
    runtime = "Cuda Runtime Event Duration (us)"
    charts = [
        ("is_short", "cpu_duration", "Short GPU kernels (gpu op duration < cpu op duration)", runtime),
        (
            "is_runtime_outlier",
            "cpu_duration",
            f"Runtime Event Duration Outliers (duration > {runtime_cutoff} us) ",
            runtime,
        ),
        (
            "is_delay_outlier",
            "launch_delay",
            f"Launch Delay Outliers (duration > {launch_delay_cutoff} us)",
            "Launch Delay Duration (us)",
        ),
    ]
    for condition, column, title, label in charts:
        durations = stats.loc[rows[condition], column]
        _figures.plotly("express").histogram(
            x=durations, nbins=300, title=f"{title} on rank {rank}", labels={"x": label}
        ).show()


def op_kernels_and_delay(t: Trace, ranks: list[int], sort_by: list[str]) -> dict[int, pd.DataFrame]:
    """`TraceAnalysis.get_aten_op_kernels_and_delay`."""
    rows = t.view("op_kernels", ranks)
    table = pd.DataFrame(
        {
            "rank": rows["rank"],
            "aten_op_name": rows["name"],
            "kernel_sequence": rows["kernel_sequence"],
            "occurrence_count": rows["call_count"],
            "avg_aten_op_launch_delay": (rows["mean_launch_delay_ns"] / 1000).round(3),
            "avg_runtime_delay": (rows["mean_runtime_delay_ns"] / 1000).round(3),
        }
    ).sort_values(["rank", "aten_op_name", "kernel_sequence"])
    by_rank = {}
    for rank in ranks:
        of_rank = table[table["rank"] == rank].drop(columns="rank").reset_index(drop=True)
        by_rank[rank] = of_rank.sort_values(sort_by, ascending=False, kind="stable")
        if _figures.can_draw():
            _draw_op_kernels(rank, by_rank[rank])
    return by_rank


def _draw_op_kernels(rank: int, table: pd.DataFrame) -> None:
    header = [
        "ATen Operation",
        "Kernel Sequence",
        "Occurrence Count",
        "Average ATen Op Launch Delay (us)",
        "Average Runtime Delay (us)",
    ]
    objects = _figures.plotly("graph_objects")
    cells = {"values": [table[column] for column in table.columns]}
    figure = objects.Figure(data=[objects.Table(header={"values": header}, cells=cells)])
    figure.update_layout(title=f"ATen Operations, Associated Kernels, ATen and Runtime Delays for Rank {rank}")
    figure.show()
