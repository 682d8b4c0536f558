"""HTA and this package on the traces of the corpus."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

# HTA rounds the times of modern traces to whole microseconds otherwise.
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"

REPOSITORY = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("ADVISOR_CORPUS", REPOSITORY.parent / "shared"), "traces")


@cache
def theirs(trace: str) -> Any:
    """HTA's analyses of a trace of the corpus."""
    from hta.trace_analysis import TraceAnalysis

    return TraceAnalysis(trace_dir=str(CORPUS / trace))


@cache
def ours(trace: str) -> Any:
    """This package's analyses of a trace of the corpus."""
    from trace_advisor.hta import TraceAnalysis

    return TraceAnalysis(trace_dir=str(CORPUS / trace))
