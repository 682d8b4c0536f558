"""Where the time of devices goes: temporal breakdown, idle time and kernels."""

from __future__ import annotations

import pandas as pd

from .. import _figures
from ..common.trace import Trace

STATISTICS = {
    "sum_ns": "sum (us)",
    "max_ns": "max (us)",
    "min_ns": "min (us)",
    "std_ns": "stddev",
    "mean_ns": "mean (us)",
}


def temporal_breakdown(t: Trace, visualize: bool) -> pd.DataFrame:
    """`TraceAnalysis.get_temporal_breakdown`."""
    rows = t.view("gpu_temporal_breakdown")
    parts = ["idle", "compute", "non_compute"]
    frame = pd.DataFrame({"rank": rows["rank"]})
    for part in parts:
        frame[f"{part}_time(us)"] = rows[f"{part}_ns"] / 1000
    frame["kernel_time(us)"] = rows["kernel_time_ns"] / 1000
    for part in parts:
        frame[f"{part}_time_pctg"] = (100 * rows[f"{part}_ratio"].astype("float64")).round(2)
    if visualize:
        shares = rows[["rank"]].assign(**{f"{part}_time": rows[f"{part}_ratio"] for part in parts})
        _figures.bars(
            shares,
            {"yaxis_tickformat": ".2%", "yaxis_title": "Percentage", "legend_title": "Time Breakdown"},
            x="rank",
            y=[f"{part}_time" for part in parts],
            title="Temporal breakdown across ranks",
            labels={"rank": "Rank"},
        )
    return frame


def comm_comp_overlap(t: Trace, visualize: bool) -> pd.DataFrame:
    """`TraceAnalysis.get_comm_comp_overlap`."""
    rows = t.view("comm_overlap")
    ratio = rows["overlap_ratio"].astype("float64")
    if visualize:
        title = "Computation-Communication Overlap"
        _figures.bars(
            rows[["rank"]].assign(comp_comm_overlap_ratio=ratio),
            {"yaxis_tickformat": ".2%"},
            x="rank",
            y="comp_comm_overlap_ratio",
            title=title,
            labels={"rank": "Rank", "comp_comm_overlap_ratio": f"{title} Percentage"},
        )
    return rows[["rank"]].assign(comp_comm_overlap_pctg=(100 * ratio).round(2))


def kernel_breakdown(
    t: Trace,
    visualize: bool,
    duration_ratio: float,
    num_kernels: int,
    include_memory_kernels: bool,
    image_renderer: str | None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`TraceAnalysis.get_gpu_kernel_breakdown`."""
    types = _kernel_types(t, include_memory_kernels)
    rows = t.view("gpu_top_kernels", num_kernels=num_kernels, duration_ratio=duration_ratio)
    rows["kernel_type"] = rows["kind"].str.upper()
    if not include_memory_kernels:
        rows = rows[rows["kernel_type"] != "MEMORY"]
    rows["name"] = rows["name"].fillna("others")
    kernels = _statistics(rows, ["kernel_type", "rank"]).sort_values(["kernel_type", "name", "rank"], ignore_index=True)
    if visualize:
        _draw_kernels(types, kernels, image_renderer)
    return types, kernels


def _kernel_types(t: Trace, include_memory_kernels: bool) -> pd.DataFrame:
    rows = t.view("gpu_kernel_breakdown")
    kinds = rows["kernel_type"].str.split(" overlapping ")
    if not include_memory_kernels:
        kinds = kinds.map(lambda names: [name for name in names if name != "memory"])
    named = kinds.map(lambda names: " overlapping ".join(name.upper() for name in names)).astype("str")
    sums = (rows["sum_ns"] / 1000).groupby(named).sum()
    types = sums[sums.index != ""].sort_values(ascending=False).rename_axis("kernel_type").reset_index(name="sum")
    return types.assign(percentage=(100 * types["sum"] / types["sum"].sum()).round(1))


def _statistics(rows: pd.DataFrame, others: list[str]) -> pd.DataFrame:
    """Durations in microseconds. The deviation of a single execution is 0, as in HTA."""
    frame = rows[["name", *STATISTICS, *others]].rename(columns=STATISTICS)
    for column in STATISTICS.values():
        frame[column] = frame[column].astype("float64").fillna(0.0) / 1000
    return frame


def _draw_kernels(types: pd.DataFrame, kernels: pd.DataFrame, renderer: str | None) -> None:
    pie = _figures.plotly("express").pie(
        types[types["percentage"] > 0],
        values="percentage",
        names="kernel_type",
        height=500,
        title="Kernel Type Percentage Across All Ranks",
    )
    pie.update_layout(
        margin={"l": 50, "r": 50, "b": 50, "t": 50},
        showlegend=True,
        legend={"yanchor": "bottom", "y": -0.4, "xanchor": "left", "x": 0},
    )
    pie.show(renderer=renderer or None)
    for kind, rows in kernels.groupby("kernel_type"):
        title = f'Kernel type "{kind}" - kernel distribution on each rank'
        _figures.pies_by_rank(dict(iter(rows.groupby("rank"))), title, renderer)
        _figures.means_by_rank(rows, f'Kernel type "{kind}" - {{name}}', renderer)


def user_annotation_breakdown(
    t: Trace,
    use_gpu_annotation: bool,
    visualize: bool,
    num_kernels: int,
    allowlist_patterns: list[str] | None,
    image_renderer: str | None,
) -> pd.DataFrame | None:
    """`TraceAnalysis.get_gpu_user_annotation_breakdown`."""
    rows = t.view("annotation_breakdown")
    rows = rows[rows["on_device"] == use_gpu_annotation]
    if rows.empty:
        return None
    frame = pd.concat([_with_others(one, num_kernels, allowlist_patterns or []) for _, one in rows.groupby("rank")])
    frame = _statistics(frame, ["rank"]).sort_values(["rank", "name"], ignore_index=True)
    if visualize:
        title = "User annotation distribution on each rank"
        _figures.pies_by_rank(dict(iter(frame.groupby("rank"))), title, image_renderer)
        _figures.means_by_rank(frame, "User annotation = {name}", image_renderer)
    return frame


def _with_others(rows: pd.DataFrame, num_kernels: int, allowed: list[str]) -> pd.DataFrame:
    """Put the names beyond the longest `num_kernels` together, as one row about executions."""
    rows = rows.sort_values("sum_ns", ascending=False, kind="stable")
    is_allowed = rows["name"].map(lambda name: any(pattern in name for pattern in allowed))
    is_listed = is_allowed | (pd.Series(range(len(rows)), rows.index) < num_kernels)
    rest = rows[~is_listed]
    if rest.empty:
        return rows
    count, total = rest["call_count"].sum(), rest["sum_ns"].sum()
    squares = (rest["call_count"] - 1) * rest["std_ns"].fillna(0) ** 2 + rest["call_count"] * rest["mean_ns"] ** 2
    deviation = (max(squares.sum() - total**2 / count, 0) / (count - 1)) ** 0.5 if count > 1 else None
    others = {
        "rank": rest["rank"].iloc[0],
        "name": "others",
        "sum_ns": total,
        "max_ns": rest["max_ns"].max(),
        "min_ns": rest["min_ns"].min(),
        "mean_ns": total / count,
        "std_ns": deviation,
    }
    return pd.concat([rows[is_listed], pd.DataFrame([others])])


def kernels_with_user_annotations(t: Trace, rank: int, expand_names: bool, shorten_names: bool) -> pd.DataFrame | None:
    """`TraceAnalysis.get_gpu_kernels_with_user_annotations`."""
    from ..common.trace_symbol_table import decode_symbol_id_to_symbol_name

    if not t.view("annotation_breakdown", [rank])["on_device"].any():
        return None
    annotations = t.view("kernel_annotations", [rank]).set_index("event_id")["annotation"]
    frame = t.get_trace(rank)
    kernels = frame.loc[frame.index.isin(annotations.index)].copy()
    names = annotations.reindex(kernels.index)
    kernels["user_annotation"] = names.map(t.symbol_table.sym_index).fillna(-1).astype("int64")
    if expand_names:
        decode_symbol_id_to_symbol_name(kernels, t.symbol_table, shorten_names)
    return kernels.reset_index(drop=True)
