"""The result of a check."""

from __future__ import annotations

import functools
import shutil
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from trace_advisor import _html
from trace_advisor._document import Document
from trace_advisor._options import to_options

if TYPE_CHECKING:
    from trace_advisor import _native


class Gain(NamedTuple):
    """What a fix saves, in percent of the step time: an 80 % interval around the estimate."""

    low_pct: float
    mid_pct: float
    high_pct: float


class Finding:
    """Something that costs time or memory, with its evidence and what to do about it."""

    def __init__(self, native: _native.Report, position: int, data: dict[str, Any]) -> None:
        self._native = native
        self._position = position
        self._data = data

    @property
    def code(self) -> str:
        """Code of the rule, such as `IN001`. `trace_advisor.explain(code)` describes it."""
        return str(self._data["code"])

    @property
    def name(self) -> str:
        """Name of the rule, such as `dataloader-wait`."""
        return str(self._data["name"])

    @property
    def category(self) -> str:
        """Category of the rule, such as `input-pipeline`."""
        return str(self._data["category"])

    @property
    def title(self) -> str:
        """What is slow, in a few words."""
        return str(self._data["title"])

    @property
    def message(self) -> str:
        """What was measured."""
        return str(self._data["message"])

    @property
    def advice(self) -> str:
        """What to do."""
        return str(self._data.get("advice") or "")

    @property
    def severity(self) -> str:
        """`info`, `low`, `medium`, `high` or `critical`."""
        return str(self._data["severity"])

    @property
    def confidence(self) -> str:
        """`low`, `medium` or `high`."""
        return str(self._data["confidence"])

    @property
    def ranks(self) -> list[int]:
        """Ranks that the rule fires on."""
        return list(self._data["affected"]["ranks"])

    @property
    def gain(self) -> Gain | None:
        """What fixing this alone saves; None if it is not known."""
        gain = self._data.get("gain")
        if not gain or gain.get("low_pct") is None:
            return None
        return Gain(gain["low_pct"], gain["share_pct"], gain["high_pct"])

    @property
    def sql(self) -> list[str]:
        """The queries that give its numbers, for `Run.sql`."""
        return [str(query) for query in self._data["sql"].values() if query]

    def to_dict(self) -> dict[str, Any]:
        """All fields, as `advisor check --format json` writes them."""
        return dict(self._data)

    def __repr__(self) -> str:
        return f"<Finding {self.code} [{self.severity}] {self.title}>"

    def __str__(self) -> str:
        return self._native.text_of_finding(self._position)

    def _repr_html_(self) -> str:
        return _html.text(str(self))


class Report(Document["_native.Report"]):
    """What a check found. `print(report)` shows what `advisor check` prints."""

    def __init__(self, native: _native.Report) -> None:
        self._native = native

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        return str(self._data["headline"]["text"])

    @functools.cached_property
    def findings(self) -> list[Finding]:
        """Findings, in the order in which to fix them."""
        return [Finding(self._native, i, finding) for i, finding in enumerate(self._data["findings"])]

    @property
    def plan(self) -> list[dict[str, Any]]:
        """The fixes in order, with what a step takes after each."""
        plan = self._data.get("plan")
        return list(plan["fixes"]) if plan else []

    @property
    def unknown(self) -> list[dict[str, Any]]:
        """Rules without a verdict, with the reason of each."""
        return list(self._data.get("unknown") or [])

    @property
    def recording(self) -> dict[str, Any]:
        """What the recording is, and what it cannot show."""
        return dict(self._data["recording"])

    @property
    def warnings(self) -> list[dict[str, Any]]:
        """Input that could not be read, or only in part."""
        return list(self._data.get("warnings") or [])

    @property
    def damaged_files(self) -> list[dict[str, Any]]:
        """Traces that end in the middle, or of whose events more than 1 % are invalid: the report is about the rest.

        `advisor check` exits with code 2 if there are any.
        """
        return list(self._data.get("damaged_files") or [])

    @property
    def has_failed(self) -> bool:
        """Whether `advisor check` exits with code 1: there are findings of the severity of `fail_on` or above."""
        return self._native.has_failed

    @property
    def is_judged(self) -> bool:
        """True if at least one rule has a verdict. A report that is not judged says nothing, not that all is well."""
        return self._native.is_judged

    def text(
        self, *, full: bool = False, all: bool = False, explain: bool = False,
        color: bool = False, width: int | None = None,
    ) -> str:
        """The report as text: the first screen, or all findings in `full`.

        Args:
            full: All findings in full, the timeline of the first, the plan, and the reasons for unknown verdicts.
            all: Also info findings, notes about the trace, passed rules and all evidence.
            explain: Also the queries behind each finding.
            color: With ANSI escapes.
            width: Characters per line; 100 by default.
        """
        options = to_options(full=full, all=all, explain=explain)
        return self._native.render("text", options, width, color)

    def timeline(
        self, finding: Finding | str | None = None, *, step: int | None = None,
        format: str = "text", color: bool = False, width: int | None = None,
    ) -> str:
        """A step as lanes of threads, launches, streams and waits. `advisor timeline` prints it.

        Args:
            finding: The finding to mark, or the code or name of its rule; by default the first one.
            step: The step to draw; by default the one in which the finding is worst.
            format: "text" (lanes of characters) or "svg" (a picture: `IPython.display.SVG` shows it in a notebook).
            color: Text with ANSI escapes.
            width: Characters per line of text, from 40 to 200; 100 by default.

        Raises:
            AdvisorError: If there is no such finding, step or format, or the run has no timeline, such as a memory snapshot.
        """
        rule = finding.code if isinstance(finding, Finding) else finding
        return self._native.timeline(format, rule, step, width, color)

    def sarif(self) -> str:
        """The report in SARIF 2.1.0, for code scanning."""
        return self._native.render("sarif", [])

    def html(self) -> str:
        """The report as one page, which opens without a network."""
        return self._native.html(overview_only=False)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<Report {self.headline}>"

    def _repr_html_(self) -> str:
        return _html.frame(self._native.html(overview_only=True), "Report of Trace Advisor")

    def print(self, *, full: bool = False) -> None:
        """Prints the report as the program does: in the width and the colors of the terminal."""
        if sys.stdout.isatty():
            print(self.text(full=full, color=True, width=shutil.get_terminal_size().columns), end="")
        else:
            print(self.text(full=full), end="")

