"""Why streams are idle."""

from __future__ import annotations

import pandas as pd

from .. import _figures
from ..common.trace import Trace

#: Order of the reasons in HTA's frames.
CATEGORIES = ["host_wait", "kernel_wait", "other"]

STATISTICS = {
    "interval_count": "count",
    "mean_ns": "mean",
    "std_ns": "std",
    "min_ns": "min",
    "p25_ns": "25%",
    "p50_ns": "50%",
    "p75_ns": "75%",
    "max_ns": "max",
}


def idle_time_breakdown(
    t: Trace,
    ranks: list[int],
    streams: list[int] | None,
    visualize: bool,
    visualize_pctg: bool,
    show_idle_interval_stats: bool,
    consecutive_kernel_delay: int,
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """`TraceAnalysis.get_idle_time_breakdown`."""
    intervals = t.view("gpu_idle_intervals", ranks, consecutive_kernel_delay_us=consecutive_kernel_delay)
    order = _streams(t, ranks)
    times, statistics = [], []
    for rank in ranks:
        rows = _with_first_activities(intervals[intervals["rank"] == rank], order.get(rank, []), streams)
        times.append(_idle_times(rows, rank))
        if visualize:
            _draw(times[-1], rank, visualize_pctg)
            times[-1]["stream"] = times[-1]["stream"].astype("str")
        statistics.append(_statistics(rows, rank))
    return pd.concat(times), pd.concat(statistics) if show_idle_interval_stats else None


def _streams(t: Trace, ranks: list[int]) -> dict[int, list[int]]:
    """The streams of each rank in the order of the file."""
    activities = t.view("device_activities", ranks)[["rank", "stream", "event_id"]]
    first = activities.groupby(["rank", "stream"])["event_id"].min().sort_values()
    return {rank: [stream for r, stream in first.index if r == rank] for rank in ranks}


def _with_first_activities(intervals: pd.DataFrame, order: list[int], streams: list[int] | None) -> pd.DataFrame:
    """Sort rows as HTA does, and add the row of the first activity of a stream, which follows no interval."""
    selected = streams or order
    empty = pd.DataFrame({"stream": selected, "idle_category": "other", "interval_count": 0})
    rows = intervals[intervals["stream"].isin(selected)]
    has_other = rows.loc[rows["idle_category"] == "other", "stream"]
    rows = pd.concat([rows, empty[~empty["stream"].isin(has_other)]], ignore_index=True)
    places = rows["stream"].map(selected.index), rows["idle_category"].map(CATEGORIES.index)
    return rows.loc[pd.DataFrame(dict(enumerate(places))).sort_values([0, 1]).index].reset_index(drop=True)


def _idle_times(rows: pd.DataFrame, rank: int) -> pd.DataFrame:
    idle_us = (rows["mean_ns"] * rows["interval_count"]).fillna(0.0) / 1000
    return pd.DataFrame(
        {
            "rank": rank,
            "stream": rows["stream"],
            "idle_category": rows["idle_category"],
            "idle_time": idle_us.round(2),
            "idle_time_ratio": (idle_us / idle_us.groupby(rows["stream"]).transform("sum")).round(2),
        }
    )


def _statistics(rows: pd.DataFrame, rank: int) -> pd.DataFrame:
    frame = rows[["stream", "idle_category", *STATISTICS]].rename(columns=STATISTICS).set_index("idle_category")
    for column in STATISTICS.values():
        frame[column] = frame[column].astype("float64") / (1 if column == "count" else 1000)
    frame.insert(0, "rank", rank)
    return frame.round(2)


def _draw(times: pd.DataFrame, rank: int, visualize_pctg: bool) -> None:
    layout = {"yaxis_title": "Idle time (us)", "legend_title": "Idle Time Breakdown"}
    if visualize_pctg:
        layout |= {"yaxis_title": "Percentage", "yaxis_tickformat": ".2%"}
    _figures.bars(
        times.astype({"stream": "str"}),
        layout,
        x="stream",
        y="idle_time_ratio" if visualize_pctg else "idle_time",
        color="idle_category",
        hover_data=["idle_time", "idle_time_ratio"],
        title=f"Idle time breakdown on rank {rank} per CUDA stream",
    )
