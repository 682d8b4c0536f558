"""Profiler steps, and ranks that hold others up."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import trace_advisor as ta

from .. import _figures
from ..common.trace import Trace


def profiler_steps(t: Trace) -> list[int]:
    """`TraceAnalysis.get_profiler_steps`."""
    rows = t.view("step_selection")
    is_counted = (rows["source"] == "profiler_step") & rows["is_analyzed"]
    return sorted(int(step) for step in rows.loc[is_counted, "step"].unique())


def find_stragglers_with_late_start_comm_kernels(*_: object) -> pd.Series:
    """HTA's criterion, the default of `get_potential_stragglers`, which computes it."""
    raise NotImplementedError("call `TraceAnalysis.get_potential_stragglers`, whose default is this criterion")


def potential_stragglers(
    t: Trace, steps: list[int] | None, num_candidates: int, visualize: bool, identify: Callable[..., pd.Series]
) -> list[int]:
    """`TraceAnalysis.get_potential_stragglers`."""
    num_candidates = max(num_candidates, 1)
    available = profiler_steps(t)
    selected = available if steps is None else [step for step in steps if step in available]
    if not selected:
        raise ValueError(f"none of the profiler steps {steps} is in the trace; it has {available}")
    if identify is find_stragglers_with_late_start_comm_kernels:
        rows = _rows(t, None if selected == available else selected, num_candidates)
        if visualize:
            _draw(rows)
        return [int(rank) for rank in rows.loc[rows["is_candidate"], "rank"]]
    frames = {rank: t.get_trace(rank) for rank in t.get_ranks()}
    events = pd.concat(frames, names=["rank", "idx"]).reset_index()
    counts = identify(events[events["iteration"].isin(selected)], t.symbol_table, num_candidates, visualize)
    return [int(rank) for rank in counts.sort_values(ascending=False).index[:num_candidates]]


def _rows(t: Trace, steps: list[int] | None, num_candidates: int) -> pd.DataFrame:
    if steps is None:
        return t.view("comm_potential_stragglers", num_candidates=num_candidates).sort_values("place")
    first, last = min(steps), max(steps)
    if set(steps) != set(range(first, last + 1)):
        raise NotImplementedError("profiler_steps must follow one another: call this for each group of steps")
    run = ta.open(t.location, steps=f"{first}-{last}")
    rows = run.view("comm_potential_stragglers", num_candidates=num_candidates, include_last_step=True).to_pandas()
    return rows.assign(rank=rows["rank"].map(t.rank_of)).sort_values("place")


def _draw(rows: pd.DataFrame) -> None:
    shown = rows.assign(
        is_straggler=rows["is_candidate"].map({True: "Yes", False: "No"}), late_us=rows["mean_late_ns"] / 1000
    )
    _figures.bars(
        shown,
        {},
        x="rank",
        y="late_us",
        color="is_straggler",
        color_discrete_map={"Yes": "red", "No": "blue"},
        hover_data=["late_count", "step_count"],
        labels={"late_us": "Mean time after the first rank (us)"},
        title="Potential Stragglers",
    )
