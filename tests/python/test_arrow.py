"""Rows in other libraries, without a copy."""

from pathlib import Path

import duckdb
import pandas
import polars
import pyarrow

import trace_advisor as ta


def test_libraries_take_rows(sample: Path) -> None:
    rows = ta.open(sample).sql("SELECT rank, name, dur_ns, stream FROM kernels ORDER BY ts_ns")
    expected = pyarrow.table(rows)
    assert expected.num_rows == rows.num_rows == len(rows) and expected.column_names == rows.column_names
    assert polars.DataFrame(rows)["dur_ns"].to_list() == expected["dur_ns"].to_pylist()
    assert rows.to_polars().height == rows.num_rows
    frame = rows.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["dur_ns"].tolist() == expected["dur_ns"].to_pylist()
    assert isinstance(frame["name"].iloc[0], str)
    total = duckdb.sql("SELECT sum(dur_ns) FROM rows").fetchall()
    assert total == [(sum(expected["dur_ns"].to_pylist()),)]


def test_an_empty_result_has_columns(sample: Path) -> None:
    rows = ta.open(sample).sql("SELECT name, dur_ns FROM kernels WHERE dur_ns < 0")
    assert rows.num_rows == 0 and rows.to_pandas().columns.tolist() == ["name", "dur_ns"]
    assert "dur_ns" in repr(rows) and "dur_ns" in rows._repr_html_()


def test_a_stream_can_be_taken_twice(sample: Path) -> None:
    rows = ta.open(sample).sql("SELECT dur_ns FROM kernels")
    first, second = pyarrow.table(rows), pyarrow.table(rows)
    assert first.equals(second)
    addresses = [table["dur_ns"].chunk(0).buffers()[1].address for table in (first, second)]
    assert addresses[0] == addresses[1]


def test_ten_million_rows_are_not_copied(sample: Path) -> None:
    rows = ta.open(sample).sql("SELECT value, value * 2 AS twice FROM generate_series(1, 10000000)")
    assert rows.num_rows == 10_000_000
    before = pyarrow.table(rows)["value"].chunk(0).buffers()[1].address
    frame = polars.DataFrame(rows)
    taken = frame["value"].to_arrow() if frame["value"].n_chunks() == 1 else frame["value"].get_chunks()[0].to_arrow()
    assert taken.buffers()[1].address == before
    assert frame["twice"].sum() == 10_000_000 * 10_000_001
