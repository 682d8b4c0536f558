"""Filters for frames of events."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod

import pandas as pd

from .trace_symbol_table import TraceSymbolTable, decode

logger = logging.getLogger("trace_advisor.hta")


class Filter(ABC):
    """Selects rows of a frame of events."""

    @abstractmethod
    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        """Return the selected rows. `symbol_table` decodes the ids in ``name`` and ``cat``."""


class _ValueFilter(Filter):
    """Selects rows by the values of one column."""

    column: str

    def __init__(self, values: int | list[int]) -> None:
        if not isinstance(values, (int, list)):
            raise TypeError(f"{type(self).__name__} takes an integer or a list of integers, not {values!r}")
        self.values = [values] if isinstance(values, int) else values

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        if self.column not in df.columns:
            logger.warning("the frame has no column `%s`: no rows are dropped", self.column)
            return df
        return df.loc[df[self.column].isin(self.selected(df))]

    def selected(self, df: pd.DataFrame) -> list[int]:
        """Return the values of rows to keep."""
        return self.values


class IterationFilter(_ValueFilter):
    """Keeps the events of these profiler steps."""

    column = "iteration"

    def __init__(self, iterations: int | list[int]) -> None:
        super().__init__(iterations)
        self.iterations = self.values


class IterationIndexFilter(_ValueFilter):
    """Keeps the events of the profiler steps at these positions, counted from 0. A frame without steps is kept."""

    column = "iteration"

    def __init__(self, iteration_index: int | list[int]) -> None:
        super().__init__(iteration_index)
        self.iteration_index = self.values

    def selected(self, df: pd.DataFrame) -> list[int]:
        """Return the steps at these positions."""
        steps = sorted(step for step in df["iteration"].unique() if step != -1)
        if not steps:
            return [-1]
        return [step for i, step in enumerate(steps) if i in self.values]


class FirstIterationFilter(IterationIndexFilter):
    """Keeps the events of the first profiler step."""

    def __init__(self) -> None:
        super().__init__(0)


class RankFilter(_ValueFilter):
    """Keeps the events of these ranks."""

    column = "rank"

    def __init__(self, ranks: int | list[int]) -> None:
        super().__init__(ranks)
        self.ranks = self.values


class TimeRangeFilter(Filter):
    """Keeps events that lie within a range of times, in microseconds."""

    def __init__(self, time_range: tuple[int, int]) -> None:
        if not isinstance(time_range, tuple) or len(time_range) != 2:
            raise TypeError("time_range is a tuple: the start and the end, in microseconds")
        if time_range[0] > time_range[1]:
            raise ValueError(f"the time range {time_range} ends before it begins")
        self.time_range = time_range

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        start, end = self.time_range
        return df.loc[df["ts"].ge(start) & (df["ts"] + df["dur"]).le(end)]


class NameFilter(Filter):
    """Keeps events whose name begins with a match of a regular expression. Ids need a symbol table."""

    def __init__(self, name_pattern: str, symbol_table: TraceSymbolTable | None = None) -> None:
        self.name_pattern = name_pattern
        self.symbol_table = symbol_table

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        table = symbol_table or self.symbol_table
        names = df["s_name"] if "s_name" in df.columns else df["name"]
        if names.dtype.kind == "i":
            if table is None:
                raise ValueError("names are ids here: pass the symbol table, `trace.symbol_table`")
            names = decode(names, table.sym_table)
        return df.loc[names.str.match(self.name_pattern)]


NameIdColumnFilter = NameFilter
NameStringColumnFilter = NameFilter


class QueryFilter(Filter):
    """Keeps the rows that `DataFrame.query` selects."""

    def __init__(self, query_str: str) -> None:
        self.filter_query = query_str

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        return df.query(self.filter_query)


#: Drops events without a duration.
ZeroDurationFilter = QueryFilter("dur > 0")


class GPUKernelFilter(Filter):
    """Keeps device activities, and with a symbol table synchronizations of a whole context or by events."""

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        return df.loc[_on_device(df, symbol_table)]


class CPUOperatorFilter(Filter):
    """Keeps what `GPUKernelFilter` drops."""

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        return df.loc[~_on_device(df, symbol_table)]


def _on_device(df: pd.DataFrame, symbol_table: TraceSymbolTable | None) -> pd.Series:
    if symbol_table is None:
        return df["stream"].ge(0) & df["correlation"].ge(0)
    syncs = [symbol_table.sym_index.get(name, -1) for name in ("Event Sync", "Context Sync")]
    return (df["stream"].ge(0) & df["correlation"].ge(0)) | df["name"].isin(syncs)


class CompositeFilter(Filter):
    """Applies filters one after the other."""

    def __init__(self, filters: list[Filter]) -> None:
        if not all(isinstance(f, Filter) for f in filters):
            raise TypeError("CompositeFilter takes a list of filters")
        self.filters = filters

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        for f in self.filters:
            df = f(df, symbol_table)
        return df


class MemCopyEventFilter(Filter):
    """Keeps the copies with one name, such as ``Memcpy DtoH (Device -> Pageable)``."""

    def __init__(self, memory_copy_type: str, symbol_table: TraceSymbolTable | None = None) -> None:
        self.memory_copy_type = memory_copy_type
        self.symbol_table = symbol_table

    def __call__(self, df: pd.DataFrame, symbol_table: TraceSymbolTable | None = None) -> pd.DataFrame:
        table = symbol_table or self.symbol_table
        if df.empty or table is None or self.memory_copy_type not in table.sym_index:
            return df.iloc[:0]
        ids = table.sym_index
        return df.loc[df["name"].eq(ids[self.memory_copy_type]) & df["cat"].eq(ids["gpu_memcpy"])]
