"""What the comparisons with HTA share."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(autouse=True)
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures are collected here, not shown."""
    import plotly.graph_objects

    figures: list[Any] = []
    monkeypatch.setattr(plotly.graph_objects.Figure, "show", lambda figure, *_, **__: figures.append(figure))
    return figures
