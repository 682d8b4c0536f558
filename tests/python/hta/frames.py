"""Comparison of results: columns, index, types and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd


def difference(theirs: Any, ours: Any, tolerance: float) -> str | None:
    """Say in what HTA's result and ours differ; None if they are equal.

    Integers of HTA may be floats here: durations are integers in HTA if the trace has whole microseconds only.
    `tolerance` is absolute; it is 0 for traces with whole microseconds, where only sums of doubles are rounded.
    """
    if isinstance(theirs, pd.DataFrame) and isinstance(ours, pd.DataFrame):
        return _of_frames(theirs, ours, tolerance)
    if isinstance(theirs, pd.Series) and isinstance(ours, pd.Series):
        return _of_frames(theirs.to_frame("value"), ours.to_frame("value"), tolerance)
    if type(theirs) is not type(ours):
        return f"types: {type(theirs).__name__} and {type(ours).__name__}"
    if isinstance(theirs, (list, tuple)) and any(isinstance(item, pd.DataFrame) for item in [*theirs, *ours]):
        theirs, ours = dict(enumerate(theirs)), dict(enumerate(ours))
    if isinstance(theirs, dict):
        if theirs.keys() != ours.keys():
            return f"keys: {list(theirs)} and {list(ours)}"
        found = [difference(theirs[key], ours[key], tolerance) for key in theirs]
        return next((text for text in found if text is not None), None)
    return None if theirs == ours else f"{theirs!r} and {ours!r}"


def _of_frames(theirs: pd.DataFrame, ours: pd.DataFrame, tolerance: float) -> str | None:
    if list(theirs.columns) != list(ours.columns):
        return f"columns: {list(theirs.columns)} and {list(ours.columns)}"
    if len(theirs) != len(ours):
        return f"{len(theirs)} and {len(ours)} rows"
    if list(theirs.index.names) != list(ours.index.names):
        return f"names of the index: {theirs.index.names} and {ours.index.names}"
    if not theirs.index.equals(ours.index) and list(theirs.index) != list(ours.index):
        return "index"
    for column in theirs.columns:
        text = _of_columns(theirs[column], ours[column], tolerance)
        if text is not None:
            return f"{column}: {text}"
    return None


def _of_columns(theirs: pd.Series, ours: pd.Series, tolerance: float) -> str | None:
    if theirs.empty:
        return None
    numeric = pd.api.types.is_numeric_dtype
    if numeric(theirs) != numeric(ours):
        return f"{theirs.dtype} and {ours.dtype}"
    if numeric(theirs):
        a, b = theirs.to_numpy("float64"), ours.to_numpy("float64")
        is_equal = np.isclose(a, b, rtol=1e-9, atol=max(tolerance, 1e-6), equal_nan=True)
    else:
        a, b = theirs.to_numpy("object"), ours.to_numpy("object")
        is_equal = np.array(
            [x == y or (pd.api.types.is_scalar(x) and pd.isna(x) and pd.isna(y)) for x, y in zip(a, b, strict=True)]
        )
    wrong = np.flatnonzero(~is_equal)
    return None if not len(wrong) else f"{len(wrong)} of {len(a)} rows, such as {a[wrong[0]]!r} and {b[wrong[0]]!r}"
