"""HTA's plot of an exported memory timeline."""

from __future__ import annotations

import os

import pandas as pd
import trace_advisor as ta

from . import _figures

#: Columns of `memory_timeline_curve` by HTA's name, from the bottom of the plot to the top.
CATEGORIES = {
    "Parameter": "parameter_bytes",
    "Optimizer state": "optimizer_state_bytes",
    "Input": "input_bytes",
    "Temporary": "temporary_bytes",
    "Activation": "activation_bytes",
    "Gradient": "gradient_bytes",
    "Autograd": "autograd_detail_bytes",
    "Unknown": "unknown_bytes",
}


class MemoryAnalysis:
    """The memory of a device by category of tensor.

    Args:
        path: file that `export_memory_timeline` wrote, in either of its forms
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def curve(self) -> pd.DataFrame:
        """Return the memory of each category over time: ``time (ms)`` and a column per category, in bytes."""
        rows = ta.open(self.path).view("memory_timeline_curve").to_pandas()
        sizes = {name: rows[column] for name, column in CATEGORIES.items()}
        return pd.DataFrame({"time (ms)": rows["since_start_ns"] / 1e6, **sizes})

    def plot_memory_timeline(self, save_graph: bool = False) -> None:
        """Draw the memory over time, or write the figure to ``images/memory_plot.png``."""
        objects, curve = _figures.plotly("graph_objects"), self.curve()
        colors = _figures.plotly("colors").qualitative.Pastel
        stacked = curve[list(CATEGORIES)].cumsum(axis=1) / 1024**3
        figure = objects.Figure()
        for name, color in zip(CATEGORIES, colors, strict=False):
            figure.add_trace(
                objects.Scatter(
                    x=curve["time (ms)"],
                    y=stacked[name],
                    mode="lines",
                    fill="tonexty",
                    fillcolor=color,
                    marker={"color": color},
                    name=name,
                    showlegend=True,
                )
            )
        figure.update_xaxes(title="Time (ms)")
        figure.update_yaxes(title="Memory (GB)")
        figure.update_layout(title_text="Memory timeline", title_x=0.5, width=1200, height=800)
        if save_graph:
            os.makedirs("images", exist_ok=True)
            figure.write_image("images/memory_plot.png")
        else:
            figure.show()
