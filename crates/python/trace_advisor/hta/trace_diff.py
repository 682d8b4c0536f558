"""Comparison of the operators and kernels of two runs, as in HTA."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pandas as pd

from . import _figures
from .common.trace import Trace
from .common.trace_symbol_table import decode
from .utils.utils import shorten_name


class DeviceType(Enum):
    """Which events to compare."""

    CPU = 1
    GPU = 2
    ALL = 3


class LabeledTrace:
    """A run with a name for it. All of its profiler steps can be compared, also the last one.

    Args:
        label: name, used in the columns of `TraceDiff.compare_traces`
        t: trace, or
        trace_dir: the folder of the traces
    """

    def __init__(self, label: str | None = None, t: Trace | None = None, trace_dir: str | None = None) -> None:
        if t is None:
            if trace_dir is None:
                raise ValueError("LabeledTrace needs a trace or the folder of a trace")
            t = Trace(trace_dir=trace_dir)
        self.t = t
        self.label = label or "trace"
        self.t.parse_traces()
        table = self.t.symbol_table
        self.s_map, self.s_tab = table.get_sym_index_series(), table.get_sym_table_series()
        self.iteration_df = self._extract_iterations()

    def _extract_iterations(self) -> pd.DataFrame:
        marks = self.s_map[self.s_map.index.str.match(r"ProfilerStep\s*#\s*\d+$")]
        steps = marks.rename_axis("symbol").reset_index(name="id")
        return steps.assign(iteration=steps["symbol"].str.split("#").str[1].astype("int64"))

    def ranks(self) -> list[int]:
        """List the ranks."""
        return self.t.get_ranks()

    def iterations(self) -> list[int]:
        """List the profiler steps."""
        return sorted(self.iteration_df["iteration"].tolist())

    def extract_ops(
        self,
        rank: int | list[int] | None = None,
        iteration: int | list[int] | None = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> pd.DataFrame:
        """Return the events of some ranks and steps, by default of the first rank in the first step.

        Device work belongs to the step that launched it, on stream 0 too. A run without steps is one step.
        """
        ranks = _selected("rank", rank, self.ranks())
        frames = {number: self.t.get_trace(number) for number in ranks}
        events = pd.concat(frames, names=["rank", "idx"]).reset_index() if len(ranks) > 1 else frames[ranks[0]]
        if self.iterations():
            events = events[events["iteration"].isin(_selected("iteration", iteration, self.iterations()))]
        if device_type == DeviceType.ALL:
            return events
        return events[events["stream"].eq(-1) == (device_type == DeviceType.CPU)]

    def get_ops_summary(self, ops: pd.DataFrame) -> pd.DataFrame:
        """Count the events of each category and name and add up their durations, in microseconds."""
        sums = ops.groupby(["cat", "name"])["dur"].agg(counts="count", total_duration="sum").reset_index()
        names = decode(sums["name"], self.t.symbol_table.sym_table)
        return pd.DataFrame(
            {
                "cat": decode(sums["cat"], self.t.symbol_table.sym_table),
                "name": names,
                "short_name": names.map(shorten_name),
                "counts": sums["counts"],
                "total_duration": sums["total_duration"],
                "cat_id": sums["cat"],
                "name_id": sums["name"],
            }
        )


def _selected(what: str, wanted: int | list[int] | None, available: list[int]) -> list[int]:
    if not available:
        raise ValueError(f"the trace has no {what}")
    if wanted is None:
        return available[:1]
    selected = [wanted] if isinstance(wanted, int) else list(wanted)
    if not set(selected) <= set(available):
        raise ValueError(f"the trace has no {what} {wanted}; it has {available}")
    return selected


def _labeled(trace: LabeledTrace | Trace | str, label: str) -> LabeledTrace:
    if isinstance(trace, LabeledTrace):
        return trace
    return LabeledTrace(label, t=trace) if isinstance(trace, Trace) else LabeledTrace(label, trace_dir=trace)


class TraceDiff:
    """Comparison of two runs by name. `trace_advisor.diff` also explains the change of the step."""

    @classmethod
    def compare_traces(
        cls,
        control: LabeledTrace | Trace | str,
        test: LabeledTrace | Trace | str,
        control_rank: int | list[int] | None = None,
        test_rank: int | list[int] | None = None,
        control_iteration: int | list[int] | None = None,
        test_iteration: int | list[int] | None = None,
        device_type: DeviceType = DeviceType.ALL,
        use_short_name: bool = False,
    ) -> pd.DataFrame:
        """Compare how often operators and kernels run in two traces, and how long.

        By default, the first step of the first rank of each is compared; the first step may be a warm-up step.

        Args:
            control: trace, or the folder of one
            test: trace to compare with it
            control_rank: ranks of `control`
            test_rank: ranks of `test`
            control_iteration: profiler steps of `control`
            test_iteration: profiler steps of `test`
            device_type: host, device, or both
            use_short_name: compare names without arguments

        Returns:
            one row per name, which is the index: ``<label>_counts`` and ``<label>_total_duration`` (us) of both,
            ``diff_counts``, ``diff_duration`` (us), and ``counts_change_categories``: +, - or =
        """
        before, after = _labeled(control, "Control"), _labeled(test, "Test")
        labels = [before.label, after.label]
        if before.label == after.label:
            labels = [f"{before.label}_control", f"{after.label}_test"]
        key = "short_name" if use_short_name else "name"
        sides = [(before, control_rank, control_iteration), (after, test_rank, test_iteration)]
        sums = {}
        for label, (trace, rank, iteration) in zip(labels, sides, strict=True):
            summary = trace.get_ops_summary(trace.extract_ops(rank, iteration, device_type))
            sums[label] = summary.groupby(key)[["counts", "total_duration"]].sum().add_prefix(f"{label}_")
        comparison = pd.concat(sums.values(), axis=1, join="outer").fillna(0.0).rename_axis(key)
        for column, of in (("diff_counts", "counts"), ("diff_duration", "total_duration")):
            comparison[column] = comparison[f"{labels[1]}_{of}"] - comparison[f"{labels[0]}_{of}"]
        change = comparison["diff_counts"]
        comparison["counts_change_categories"] = change.gt(0).map({True: "+", False: "="}).mask(change.lt(0), "-")
        return comparison

    @classmethod
    def ops_diff(
        cls,
        control: LabeledTrace | Trace | str,
        test: LabeledTrace | Trace | str,
        control_rank: int | list[int] | None = None,
        test_rank: int | list[int] | None = None,
        control_iteration: int | list[int] | None = None,
        test_iteration: int | list[int] | None = None,
        device_type: DeviceType = DeviceType.ALL,
    ) -> dict[str, list[str]]:
        """List the names that `test` adds, deletes, runs more or less often than `control`, or as often."""
        table = cls.compare_traces(
            control, test, control_rank, test_rank, control_iteration, test_iteration, device_type
        )
        before, after = (table[column] for column in table.columns[[0, 2]])
        changes = {
            "added": before.eq(0),
            "deleted": after.eq(0),
            "increased": before.gt(0) & after.gt(before),
            "decreased": after.gt(0) & after.lt(before),
            "unchanged": after.gt(0) & after.eq(before),
        }
        return {change: table.index[rows].tolist() for change, rows in changes.items()}

    @classmethod
    def visualize_counts_diff(
        cls, df: pd.DataFrame, show_image: bool = True, export_image_path: str | None = None
    ) -> None:
        """Draw the counts of a result of `compare_traces`."""
        _draw(df, "counts", "diff_counts", {"title_text": "Ops Count Comparison"}, show_image, export_image_path)

    @classmethod
    def visualize_duration_diff(
        cls, df: pd.DataFrame, show_image: bool = True, export_image_path: str | None = None
    ) -> None:
        """Draw the durations of a result of `compare_traces`."""
        layout = {
            "title_text": "Ops Duration Comparison",
            "yaxis_title": "Total Duration (us)",
            "autosize": True,
            "width": 1000,
            "height": 1000,
        }
        _draw(df, "total_duration", "diff_duration", layout, show_image, export_image_path)


def _draw(
    df: pd.DataFrame, measure: str, difference: str, layout: dict[str, Any], show: bool, path: str | None
) -> None:
    objects = _figures.plotly("graph_objects")
    labels = [column.removesuffix("_total_duration") for column in df.columns if column.endswith("_total_duration")]
    bars = [objects.Bar(name=label, x=df.index, y=df[f"{label}_{measure}"]) for label in labels]
    figure = objects.Figure([*bars, objects.Bar(name="Difference", x=df.index, y=df[difference])])
    figure.update_layout(barmode="group", **layout)
    if show:
        figure.show()
    if path:
        figure.write_image(path)
