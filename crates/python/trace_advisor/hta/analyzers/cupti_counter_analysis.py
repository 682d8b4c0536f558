"""Hardware counters of kernels, with the operators that launched them."""

from __future__ import annotations

import json

import pandas as pd

from ..common.trace import Trace

#: Floating-point operations per executed instruction of one thread, by counter.
CUDA_SASS_INSTRUCTION_COUNTER_FLOPS: dict[str, float] = {
    f"smsp__sass_thread_inst_executed_op_{precision}{operation}_pred_on.sum": 2 if operation == "fma" else 1
    for precision in "fhd"
    for operation in ("fma", "mul", "add")
}


def counter_data_with_operators(t: Trace, ranks: list[int]) -> list[pd.DataFrame]:
    """`TraceAnalysis.get_cupti_counter_data_with_operators`."""
    rows = t.view("cupti_counters", ranks)
    return [_by_kernel(t, rank, of_rank) for rank, of_rank in rows.groupby("rank")]


def _by_kernel(t: Trace, rank: int, rows: pd.DataFrame) -> pd.DataFrame:
    """One row per kernel, in order of time, with a column per counter."""
    counters = rows.pivot(index="event_id", columns="counter", values="value").rename_axis(None, axis=1)
    kernels = rows.drop_duplicates("event_id").set_index("event_id")
    frame = t.get_trace(rank).loc[kernels.sort_values("position").index].copy()
    frame["name"] = kernels["name"]
    frame["cat"] = "cuda_profiler_range"
    frame = frame.join(counters).assign(
        index_runtime=kernels["launch"],
        op_stack=kernels["op_stack"].astype("object").map(json.loads, na_action="ignore"),
        top_level_op=kernels["top_level_op"],
        bottom_level_op=kernels["bottom_level_op"],
    )
    return frame.reset_index(drop=True)
