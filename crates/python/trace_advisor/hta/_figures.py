"""Plotly figures. Plotly is optional and imported when a figure is drawn."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def plotly(module: str) -> Any:
    """Import a module of plotly, such as `express`."""
    try:
        return importlib.import_module(f"plotly.{module}")
    except ImportError as error:
        raise ImportError("figures need plotly: `pip install 'trace-advisor[hta]'`, or pass visualize=False") from error


def can_draw() -> bool:
    """Tell whether plotly is installed."""
    return importlib.util.find_spec("plotly") is not None


def bars(frame: pd.DataFrame, layout: dict[str, Any], renderer: str | None = None, **options: Any) -> None:
    """Show a bar chart."""
    figure = plotly("express").bar(frame, **options)
    figure.update_layout(**layout)
    figure.show(renderer=renderer or None)


def pies_by_rank(frames: dict[int, pd.DataFrame], title: str, renderer: str | None) -> None:
    """Show the shares of names in the time of each rank, two ranks side by side."""
    row_count = (len(frames) + 1) // 2
    figure = plotly("subplots").make_subplots(rows=row_count, cols=2, specs=[[{"type": "domain"}] * 2] * row_count)
    for place, (rank, frame) in enumerate(frames.items()):
        pie = plotly("graph_objects").Pie(
            labels=frame["name"], values=frame["sum (us)"], title=f"Rank {rank}", automargin=False
        )
        figure.add_trace(pie, place // 2 + 1, place % 2 + 1)
    figure.update_layout(
        title_text=title,
        margin={"l": 50, "r": 50, "b": 50, "t": 50},
        showlegend=True,
        height=400 * (1 + len(frames) / 2),
        legend={"yanchor": "bottom", "y": -0.1, "xanchor": "left", "x": 0},
    )
    figure.show(renderer=renderer or None)


def means_by_rank(frame: pd.DataFrame, title: str, renderer: str | None) -> None:
    """Show the mean duration of each name, by rank, with its range."""
    for name, rows in frame.groupby("name", sort=False):
        if name == "others":
            continue
        bars(
            rows,
            {"title_text": title.format(name=name), "xaxis": {"tickmode": "linear", "tick0": 0, "dtick": 1}},
            renderer,
            x="rank",
            y="mean (us)",
            labels={"rank": "Rank", "mean (us)": "Mean Duration (us)"},
            error_y=rows["max (us)"] - rows["mean (us)"],
            error_y_minus=rows["mean (us)"] - rows["min (us)"],
        )
