"""Rows of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trace_advisor import _html

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

    from trace_advisor import _native

SHOWN_ROWS = 20


class Table:
    """Rows in Arrow record batches.

    Speaks the Arrow PyCapsule interface, so that pyarrow, polars, pandas and DuckDB take it without a copy:
    `polars.DataFrame(table)`, `pyarrow.table(table)`, `pandas.DataFrame.from_arrow(table)`. Names of columns end in
    their unit: `_ns` is nanoseconds, `_bytes` bytes, `_ratio` a share from 0 to 1.
    """

    def __init__(self, rows: _native.Rows) -> None:
        self._rows = rows

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._rows.num_rows

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return self._rows.column_names

    @property
    def nbytes(self) -> int:
        """Bytes of the buffers."""
        return self._rows.nbytes

    def to_arrow(self) -> pyarrow.Table:
        """A `pyarrow.Table` of the same buffers."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A `pandas.DataFrame`; needs pyarrow. Names that repeat become text columns, not categories."""
        import pyarrow

        table = pyarrow.table(self)
        fields = [
            pyarrow.field(field.name, field.type.value_type) if pyarrow.types.is_dictionary(field.type) else field
            for field in table.schema
        ]
        frame: pandas.DataFrame = table.cast(pyarrow.schema(fields)).to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """A `polars.DataFrame` of the same buffers."""
        import polars

        return polars.DataFrame(self)

    def to_dicts(self, limit: int | None = None) -> list[dict[str, Any]]:
        """The rows as dictionaries; needs pyarrow."""
        table = self.to_arrow()
        rows: list[dict[str, Any]] = (table if limit is None else table.slice(0, limit)).to_pylist()
        return rows

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._rows.__arrow_c_schema__()

    def __len__(self) -> int:
        return self._rows.num_rows

    def __repr__(self) -> str:
        if self.num_rows == 0:
            return f"no rows of {', '.join(self.column_names)}"
        text = self._rows.text(SHOWN_ROWS)
        return f"{text}({self._caption()})"

    def _repr_html_(self) -> str:
        types = self._rows.column_types
        columns = [self._rows.cells(i, SHOWN_ROWS) for i in range(len(types))]
        is_number = [kind.startswith(("Int", "UInt", "Float", "Decimal")) for kind in types]
        return _html.table(self.column_names, zip(*columns), is_number, self._caption())

    def _caption(self) -> str:
        rows = self.num_rows
        if rows > SHOWN_ROWS:
            return f"the first {SHOWN_ROWS} of {rows:,} rows"
        return "1 row" if rows == 1 else f"{rows} rows"
