"""Runs that the tests read: the sample of the repository, and real traces. And the slice of slow suites that a run takes."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON_TESTS = Path(__file__).resolve().parent
# What the terminal tells about slices.
SLICES = pytest.StashKey[list[str]]()


def chosen_slice() -> tuple[int, int] | None:
    """The slice that ADVISOR_SLICE names as `2/4`: number and count. None for `all`, the default."""
    text = os.environ.get("ADVISOR_SLICE", "")
    if text in ("", "all"):
        return None
    parts = text.split("/")
    if len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts):
        number, count = map(int, parts)
        if 1 <= number <= count:
            return number, count
    raise pytest.UsageError(f"ADVISOR_SLICE is `{text}`: set `2/4`, or `all`")


def sliced_suites() -> list[str]:
    """The folders that tests/slices.txt lists."""
    lines = (ROOT / "tests/slices.txt").read_text().splitlines()
    return [line.removeprefix("pytest ") for line in lines if line.startswith("pytest ")]


def suite_of(item: pytest.Item) -> str:
    return item.path.relative_to(PYTHON_TESTS).parts[0]


def unit_of(item: pytest.Item) -> str:
    """What is not divided: the tests of one trace, because they share it, or a single test."""
    callspec = getattr(item, "callspec", None)
    trace = callspec.params.get("trace") if callspec else None
    return trace if isinstance(trace, str) else item.nodeid


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects the tests that are in other slices. Tests that the command line names run in any case."""
    chosen = chosen_slice()
    names_tests = config.option.keyword or any("::" in argument for argument in config.args)
    if chosen is None or names_tests:
        return
    number, count = chosen
    for suite in sliced_suites():
        of_suite = [item for item in items if suite_of(item) == suite]
        units = sorted({unit_of(item) for item in of_suite})
        others = set(units) - set(units[number - 1 :: count])
        left_out = [item for item in of_suite if unit_of(item) in others]
        if of_suite:
            items[:] = [item for item in items if item not in left_out]
            config.hook.pytest_deselected(items=left_out)
            taken = len(of_suite) - len(left_out)
            text = f"slice {number} of {count}, {taken} of {len(of_suite)} tests; all: ADVISOR_SLICE=all .ci/run"
            config.stash.setdefault(SLICES, []).append(f"tests/python/{suite}: {text}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tells how much of the sliced suites ran."""
    for line in terminalreporter.config.stash.get(SLICES, []):
        terminalreporter.write_line(line)


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
