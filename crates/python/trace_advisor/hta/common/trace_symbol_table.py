"""The table of names and categories that frames of events refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pandas as pd

from ..utils.utils import shorten_name


class TraceSymbolTable:
    """Names and categories with their ids. The ``name`` and ``cat`` columns of a trace hold ids.

    Attributes:
        sym_table: symbols, by id
        sym_index: ids, by symbol
    """

    def __init__(self) -> None:
        self.sym_table: list[str] = []
        self.sym_index: dict[str, int] = {}

    def is_empty(self) -> bool:
        """Tell whether the table has no symbols."""
        return not self.sym_table

    def add_symbols(self, symbols: Iterable[str]) -> None:
        """Add the symbols that are not in the table."""
        for symbol in symbols:
            if symbol not in self.sym_index:
                self.sym_index[symbol] = len(self.sym_table)
                self.sym_table.append(symbol)

    add_symbols_mp = add_symbols

    def get_sym_id_map(self) -> dict[str, int]:
        """Return ids, by symbol."""
        return self.sym_index

    get_sym_index = get_sym_id_map

    def get_sym_table(self) -> list[str]:
        """Return symbols, by id."""
        return self.sym_table

    def get_sym_index_series(self) -> pd.Series:
        """Return ids as a series, by symbol."""
        return pd.Series(self.sym_index, dtype="int64")

    def get_sym_table_series(self) -> pd.Series:
        """Return symbols as a series, by id."""
        return pd.Series(self.sym_table, dtype="str")

    def find_matches(self, patterns: list[str]) -> list[int]:
        """Return the ids of the symbols that contain one of the patterns, literally."""
        return [i for i, symbol in enumerate(self.sym_table) if _contains_any(symbol, patterns)]

    def find_matched_symbols(self, patterns: list[str]) -> list[str]:
        """Return the symbols that contain one of the patterns, literally."""
        return [symbol for symbol in self.sym_table if _contains_any(symbol, patterns)]

    def ids_like(self, pattern: str) -> list[int]:
        """Return the ids of the symbols whose beginning matches a regular expression."""
        matches = re.compile(pattern).match
        return [i for i, symbol in enumerate(self.sym_table) if matches(symbol)]

    def get_profiler_step_ids(self) -> list[int]:
        """Return the ids of ``ProfilerStep`` marks."""
        return self.ids_like("ProfilerStep")

    def get_symbol_names(self, symbol_ids: list[int]) -> dict[int, str]:
        """Return the symbols with these ids."""
        return {i: self.sym_table[i] for i in symbol_ids if 0 <= i < len(self.sym_table)}

    def add_symbols_to_trace_df(self, trace_df: pd.DataFrame, col: str) -> None:
        """Replace the ids in a column by their symbols, unknown ids by an empty text."""
        trace_df[col] = decode(trace_df[col], self.sym_table)

    def decode_df(self, df: pd.DataFrame, create_new_columns: bool = True) -> None:
        """Decode ``name`` and ``cat``, into ``s_name`` and ``s_cat`` or in place."""
        for column in {"name", "cat"} & set(df.columns):
            if df[column].dtype.kind == "i":
                df[f"s_{column}" if create_new_columns else column] = decode(df[column], self.sym_table)

    def encode_df(self, df: pd.DataFrame) -> None:
        """Encode ``name`` and ``cat`` in place, where they are text."""
        for column in {"name", "cat"} & set(df.columns):
            if df[column].dtype.kind != "i":
                df[column] = df[column].map(self.sym_index)

    @staticmethod
    def combine_symbol_tables(tables: list[TraceSymbolTable]) -> TraceSymbolTable:
        """Make a table with the symbols of several."""
        combined = TraceSymbolTable()
        for table in tables:
            combined.add_symbols(table.sym_table)
        return combined

    @staticmethod
    def clone(symbol_table: TraceSymbolTable) -> TraceSymbolTable:
        """Copy a table."""
        return TraceSymbolTable.combine_symbol_tables([symbol_table])

    @staticmethod
    def create_from_df(df: pd.DataFrame) -> TraceSymbolTable:
        """Make a table of the names and categories of a frame that holds them as text."""
        if not {"name", "cat"} <= set(df.columns) or "i" in {df["name"].dtype.kind, df["cat"].dtype.kind}:
            raise ValueError("the frame needs the columns `name` and `cat`, as text")
        table = TraceSymbolTable()
        table.add_symbols(sorted(set(df["cat"]) | set(df["name"])))
        return table

    @staticmethod
    def create_from_symbol_id_map(symbol_id_map: dict[str, int]) -> TraceSymbolTable:
        """Make a table from ids by symbol. Ids without a symbol get ``Undefined-<id>``."""
        symbols = {i: symbol for symbol, i in symbol_id_map.items()}
        table = TraceSymbolTable()
        table.add_symbols(symbols.get(i, f"Undefined-{i}") for i in range(max(symbols) + 1))
        return table


def decode(ids: pd.Series, symbols: list[str]) -> pd.Series:
    """Replace ids by their symbols, unknown ids by an empty text."""
    known = {i: symbols[i] if 0 <= i < len(symbols) else "" for i in ids.unique()}
    return ids.map(known).astype("str")


def decode_symbol_id_to_symbol_name(df: pd.DataFrame, symbol_table: TraceSymbolTable, use_shorten_name: bool) -> None:
    """Decode ``name``, ``cat`` and ``user_annotation`` into columns with the prefix ``s_``."""
    symbols = symbol_table.sym_table
    if use_shorten_name:
        symbols = [shorten_name(symbol) for symbol in symbols]
    for column in ("name", "cat", "user_annotation"):
        if column in df.columns and df[column].dtype.kind == "i":
            df[f"s_{column}"] = decode(df[column], symbols)


def _contains_any(symbol: str, patterns: list[str]) -> bool:
    return any(pattern in symbol for pattern in patterns)
