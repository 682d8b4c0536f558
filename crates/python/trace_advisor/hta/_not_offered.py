"""Modules of HTA that have no counterpart here say what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def not_offered(module: str, instead: str) -> Callable[[str], Any]:
    """Return a module's `__getattr__` that names the alternative."""

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"trace_advisor.hta does not offer {module}.{name}: use {instead}")

    return __getattr__
