"""What notebooks show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

NUMBER = ' style="text-align:right;font-variant-numeric:tabular-nums"'
TEXT = ' style="text-align:left"'


def table(names: Sequence[str], rows: Iterable[Sequence[str | None]], is_number: Sequence[bool], caption: str) -> str:
    """A table. All texts are escaped."""
    align = [NUMBER if number else TEXT for number in is_number]
    head = "".join(f"<th{style}>{escape(name)}</th>" for name, style in zip(names, align))
    body = "".join(
        "<tr>"
        + "".join(f"<td{style}>{'' if cell is None else escape(cell)}</td>" for cell, style in zip(row, align))
        + "</tr>"
        for row in rows
    )
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<p><small>{escape(caption)}</small></p>"
    )


def frame(page: str, title: str, height: int = 640) -> str:
    """A page in a frame of its own: its style and script do not reach the notebook, nor the notebook's the page."""
    return (
        f'<iframe title="{escape(title)}" sandbox="allow-scripts allow-popups" srcdoc="{escape(page)}" '
        f'style="width:100%;height:{height}px;border:1px solid #8884;border-radius:4px"></iframe>'
    )


def text(content: str) -> str:
    """Text as it is printed."""
    return f"<pre>{escape(content)}</pre>"
