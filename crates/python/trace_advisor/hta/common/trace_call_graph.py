"""Calls on the host, and the device work that they launch."""

from __future__ import annotations

import pandas as pd

from .trace import Trace

#: Columns that HTA adds to the frames: the column of `op_calls`, and the value of events that are no calls.
COLUMNS = {
    "parent": ("parent", -1),
    "depth": ("depth", -1),
    "height": ("height", -1),
    "num_kernels": ("kernel_count", 0),
    "kernel_dur_sum": ("kernel_dur_ns", 0.0),
    "first_kernel_start": ("first_kernel_ts_ns", -1.0),
    "last_kernel_end": ("last_kernel_end_ns", -1.0),
    "kernel_span": ("kernel_span_ns", 0.0),
}


class CallGraph:
    """The call tree of each rank. Its columns are added to `Trace.traces`, with times in microseconds.

    ``parent`` is the event around a call, or the launching call of device work, and -1 at the top level. Parents,
    depths and counts differ from HTA's where ranges overlap, and include work on stream 0.

    Args:
        trace: trace
        ranks: ranks, all by default
    """

    def __init__(self, trace: Trace, ranks: list[int] | None = None) -> None:
        self.trace_data = trace
        self.ranks = ranks or trace.get_ranks()
        for rank in self.ranks:
            _add_columns(trace, rank)

    def get_stack_of_node(self, index: int, rank: int | None = None, skip_ancestors: bool = False) -> pd.DataFrame:
        """Return a call with the calls around it, the calls below it and their device work.

        Args:
            index: event
            rank: rank, the first by default
            skip_ancestors: leave out the calls around it
        """
        frame = self._frame(rank)
        parent = frame["parent"]
        around: list[int] = []
        while not skip_ancestors and parent.get(index if not around else around[-1], -1) >= 0:
            around.append(int(parent[index if not around else around[-1]]))
        below = [index]
        level = parent.index[parent == index]
        while len(level):
            below += level.tolist()
            level = parent.index[parent.isin(level)]
        return frame.loc[[*reversed(around), *below]]

    def get_gpu_kernels(self, rank: int | None = None) -> pd.DataFrame:
        """Return the device work whose launch is in the trace."""
        frame = self._frame(rank)
        return frame[frame["stream"].ge(0) & frame["parent"].ge(0)]

    def _frame(self, rank: int | None) -> pd.DataFrame:
        return self.trace_data.get_trace(self.ranks[0] if rank is None else rank)


def _add_columns(trace: Trace, rank: int) -> None:
    calls = trace.view("op_calls", [rank]).set_index("event_id")
    frame = trace.get_trace(rank)
    starts = calls[["first_kernel_ts_ns", "last_kernel_end_ns"]] - trace.origin_ns
    calls = calls.assign(**{name: starts[name] for name in starts})
    on_device = frame["stream"].ge(0) & frame["index_correlation"].gt(0)
    for column, (source, missing) in COLUMNS.items():
        values = calls[source].reindex(frame.index)
        frame[column] = (values / 1000 if source.endswith("_ns") else values).fillna(missing).astype(type(missing))
    frame.loc[on_device, "parent"] = frame.loc[on_device, "index_correlation"]
    frame.loc[on_device, "depth"] = frame["depth"].reindex(frame.loc[on_device, "parent"]).to_numpy() + 1
    frame.loc[on_device, "height"] = 0
