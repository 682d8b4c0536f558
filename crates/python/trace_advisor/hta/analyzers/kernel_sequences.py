"""Recurring sequences of kernels under an operator, and traces that mark them."""

from __future__ import annotations

import logging
import os
from typing import Any

import pandas as pd

from .. import _figures
from ..common.trace import Trace

logger = logging.getLogger("trace_advisor.hta")


def frequent_kernel_sequences(
    t: Trace,
    operator_name: str,
    output_dir: str,
    min_pattern_len: int,
    rank: int,
    top_k: int,
    visualize: bool,
    compress_other_kernels: bool,
) -> pd.DataFrame:
    """`TraceAnalysis.get_frequent_cuda_kernel_sequences`."""
    if not operator_name:
        logger.error("operator_name is empty: pass a part of the name of an operator")
        return pd.DataFrame()
    if not (os.path.isdir(output_dir) and os.access(output_dir, os.W_OK)):
        logger.error("output_dir `%s` is not a folder that can be written to", output_dir)
        return pd.DataFrame()
    rows = t.view("op_kernel_sequences", [rank], operator=operator_name, min_pattern_len=min_pattern_len, top_k=0)
    if rows.empty:
        logger.error("no call whose name contains `%s` launches %d kernels", operator_name, min_pattern_len)
        return pd.DataFrame()
    patterns = pd.DataFrame(
        {
            "pattern": rows["pattern"],
            "count": rows["occurrence_count"],
            "GPU kernel duration (us)": rows["device_dur_ns"] / 1000,
            "CPU op duration (us)": rows["host_dur_ns"] / 1000,
        }
    ).sort_values(["count", "pattern"], ascending=[False, True], ignore_index=True)
    top = patterns.head(top_k)
    overlaid = os.path.join(output_dir, f"overlaid_{os.path.basename(t.trace_files[rank])}")
    t.write_raw_trace(overlaid, _overlaid(t, rank, operator_name, min_pattern_len, top, compress_other_kernels))
    if visualize:
        _draw(top, rank)
    return patterns


def _occurrences(t: Trace, rank: int, operator_name: str, min_pattern_len: int) -> pd.DataFrame:
    """The events of each sequence: its call, the calls below, and the kernels of all of them."""
    calls = t.view("op_calls", [rank])
    work = t.view("device_activities", [rank])
    work = work[work["launch"].notna()]
    names = calls["name"]
    named = calls[names.str.contains(operator_name, regex=False)]
    roots = named[(named["depth"] == named["depth"].min()) & (named["kernel_count"] >= min_pattern_len)]
    parent = calls.set_index("event_id")["parent"].dropna().astype("int64").to_dict()
    root_of: dict[int, int] = {event: event for event in roots["event_id"]}
    for event in calls["event_id"]:
        _find_root(event, parent, root_of)
    events = pd.DataFrame({"event": calls["event_id"], "root": calls["event_id"].map(root_of)})
    kernels = pd.DataFrame(
        {"event": work["event_id"], "root": work["launch"].map(root_of), "ts_ns": work["ts_ns"], "name": work["name"]}
    )
    kernels = kernels[kernels["root"] >= 0].sort_values(["ts_ns", "event"])
    sequences = kernels.groupby("root")["name"].agg("|".join)
    root_names = names.groupby(calls["event_id"]).first()
    events = pd.concat([events[events["root"] >= 0], kernels[["event", "root"]]])
    return events.assign(pattern=events["root"].map(root_names) + "|" + events["root"].map(sequences))


def _find_root(event: int, parent: dict[int, int], root_of: dict[int, int]) -> None:
    """Note for an event, and the calls around it, the call of interest around them; -1 if there is none."""
    chain = []
    while event not in root_of:
        chain.append(event)
        if event not in parent:
            root_of[event] = -1
            break
        event = parent[event]
    root_of.update(dict.fromkeys(chain, root_of[event]))


def _overlaid(
    t: Trace, rank: int, operator_name: str, min_pattern_len: int, top: pd.DataFrame, compress_other_kernels: bool
) -> dict[str, Any]:
    """The trace with the most frequent sequences as the argument `Patterns` of their events."""
    raw = t.get_raw_trace_for_one_rank(rank)
    counts = dict(zip(top["pattern"], top["count"].tolist(), strict=True))
    occurrences = _occurrences(t, rank, operator_name, min_pattern_len)
    occurrences = occurrences[occurrences["pattern"].isin(counts)]
    pattern_of = dict(zip(occurrences["event"].tolist(), occurrences["pattern"].tolist(), strict=True))
    ids = t.symbol_table.sym_index
    for index, event in enumerate(raw["traceEvents"]):
        if index in pattern_of:
            pattern = pattern_of[index]
            event.setdefault("args", {})["Patterns"] = {pattern: counts[pattern]}
        elif compress_other_kernels and event.get("ph") == "X":
            event["args"] = {}
            if "PyTorch Profiler" in event["name"]:
                event["args"] = {str(i): name for name, i in ids.items()}
            elif event["name"] in ids:
                event["name"] = str(ids[event["name"]])
    return raw


def _draw(top: pd.DataFrame, rank: int) -> None:
    shown = top.assign(pattern=top["pattern"].str.replace("|", "<br>", regex=False))
    _figures.bars(
        shown,
        {"xaxis": {"type": "category"}},
        x=shown.index,
        y="count",
        hover_data=["pattern", "count"],
        title=f"Top {len(top)} frequent patterns for rank {rank}",
        labels={"x": "Pattern Index", "count": "Pattern Count"},
    )
