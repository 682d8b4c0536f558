"""Runs that the tests read: the sample of the repository, and real traces."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder with real traces; tests that need it fail without it."""
    return Path(os.environ.get("ADVISOR_CORPUS", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def sample() -> Path:
    """The sample run: two ranks that wait for the loader."""
    return ROOT / "examples/run"


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test reads its traces."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", "")
