"""What reports and comparisons share: a result that the program renders."""

from __future__ import annotations

import functools
import json
from typing import Any, Generic, Protocol, TypeVar


class Renderer(Protocol):
    """A result of the native module."""

    def render(self, format: str, options: list[str], columns: int | None = None, color: bool = False) -> str:
        """The result in a format of the program."""


Native = TypeVar("Native", bound=Renderer)


class Document(Generic[Native]):
    """A result with a JSON document and a comment on a pull request."""

    _native: Native

    @functools.cached_property
    def _data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.json())
        return data

    def to_dict(self) -> dict[str, Any]:
        """The document that the program writes with `--format json`."""
        return dict(self._data)

    def json(self) -> str:
        """The document that the program writes with `--format json`."""
        return self._native.render("json", [])

    def markdown(self) -> str:
        """The result as a comment on a pull request."""
        return self._native.render("markdown", [])
