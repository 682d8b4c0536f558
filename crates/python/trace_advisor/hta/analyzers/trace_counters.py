"""Queue lengths of streams and bandwidth of copies, as series and summaries, and traces with both as counters."""

from __future__ import annotations

import pandas as pd

from ..common.trace import Trace, counter_events

QUEUE_COLUMNS = ["ts", "pid", "tid", "stream", "queue_length"]


def queue_length_time_series(t: Trace, ranks: list[int]) -> dict[int, pd.DataFrame]:
    """`TraceAnalysis.get_queue_length_time_series`."""
    activities = t.view("device_activities", ranks)
    is_queued = activities["launch"].notna() & ~activities["launch_name"].str.contains("GraphLaunch", na=False)
    series = {}
    for rank, rows in activities[is_queued].groupby("rank"):
        series[rank] = _queue_lengths(rows, t.get_trace(rank))
    return series


def _queue_lengths(activities: pd.DataFrame, frame: pd.DataFrame) -> pd.DataFrame:
    """One row per launch and per start of an activity. A launch comes first where both happen at once."""
    event = frame.loc[activities["event_id"]]
    starts = event[["ts", "pid", "tid"]].assign(
        event_id=activities["event_id"].to_numpy(), stream=activities["stream"].to_numpy(), turn=1, change=-1
    )
    launches = starts.assign(event_id=activities["launch"].astype("int64").to_numpy(), turn=0, change=1)
    launches["ts"] = frame.loc[launches["event_id"], "ts"].to_numpy()
    rows = pd.concat([launches, starts]).sort_values(["stream", "ts", "turn"], kind="stable")
    rows["queue_length"] = rows.groupby("stream")["change"].cumsum()
    return rows.set_index("event_id")[QUEUE_COLUMNS].rename_axis("index")


def queue_length_summary(series: dict[int, pd.DataFrame]) -> pd.DataFrame | None:
    """`TraceAnalysis.get_queue_length_summary_from_time_series`."""
    return _describe({rank: rows[["stream", "queue_length"]] for rank, rows in series.items()}, "stream")


def _describe(series: dict[int, pd.DataFrame], key: str) -> pd.DataFrame | None:
    tables = [rows.assign(rank=rank).groupby(["rank", key]).describe() for rank, rows in series.items()]
    return pd.concat(tables) if tables else None


def time_blocked_on_full_queue(t: Trace, series: dict[int, pd.DataFrame], max_queue_length: int) -> pd.DataFrame:
    """`TraceAnalysis.get_time_spent_blocked_on_full_queue`."""
    rows = []
    for rank, changes in series.items():
        for stream, queue in changes.groupby("stream", sort=False):
            is_full = queue["queue_length"] >= max_queue_length
            if is_full.any():
                full_us = (queue["ts"].shift(-1) - queue["ts"])[is_full].sum()
                rows.append((rank, stream, full_us, full_us / t.get_trace_duration(rank)))
    columns = ["rank", "stream", "duration_at_max_queue_length", "relative_duration_at_max_queue_length"]
    return pd.DataFrame(rows, columns=columns)


def memory_bandwidth_time_series(t: Trace, ranks: list[int]) -> dict[int, pd.DataFrame]:
    """`TraceAnalysis.get_memory_bw_time_series`."""
    rows = t.view("memory_bandwidth_series", ranks)
    kinds = rows["kind"]
    rows["name"] = ("Memcpy " + kinds.replace("unknown", "Unknown")).where(kinds != "memset", "Memset")
    rows["ts"] = (rows["ts_ns"] - t.origin_ns) / 1000
    rows = rows.rename(columns={"device": "pid", "bandwidth_gb_per_s": "memory_bw_gbps"})
    rows["memory_bw_gbps"] = rows["memory_bw_gbps"].astype("float64")
    rows = rows.sort_values(["rank", "name", "ts"], kind="stable", ignore_index=True)
    return {rank: of_rank[["ts", "pid", "name", "memory_bw_gbps"]] for rank, of_rank in rows.groupby("rank")}


def memory_bandwidth_summary(series: dict[int, pd.DataFrame]) -> pd.DataFrame | None:
    """`TraceAnalysis.get_memory_bw_summary`."""
    running = {rank: rows.loc[rows["memory_bw_gbps"] > 0, ["name", "memory_bw_gbps"]] for rank, rows in series.items()}
    return _describe(running, "name")


def write_trace_with_counters(
    t: Trace, rank: int, queues: pd.DataFrame | None, bandwidths: pd.DataFrame | None, suffix: str
) -> str:
    """Write a copy of a trace with these series as counters, beside the trace. Return its path."""
    raw = t.get_raw_trace_for_one_rank(rank)
    origin = t.file_time(rank, raw)
    if queues is not None:
        raw["traceEvents"] += counter_events(
            queues.rename(columns={"stream": "id"}), "Queue Length", "queue_length", origin
        )
    if bandwidths is not None:
        raw["traceEvents"] += counter_events(bandwidths, "Memcpy BW", "memory_bw_gbps", origin)
    path = t.trace_files[rank].replace(".json", f"{suffix}.json")
    t.write_raw_trace(path, raw)
    return path
