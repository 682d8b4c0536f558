"""Each public method gives the frame that HTA gives, except where exceptions.py says why not."""

from __future__ import annotations

from typing import Any

import pytest

from analyzers import REPOSITORY, ours, theirs
from calls import CALLS, Call
from exceptions import EXCEPTIONS
from frames import difference

#: Traces, and by how much times in microseconds may differ: HTA holds times since 1970 as doubles.
TRACES = {
    "critical_path_alexnet": 0.0,
    "cuda_event_sync_multi_stream": 0.0,
    "cupti_counters": 0.0,
    "diff_control": 0.0,
    "resnet50_workers0": 0.0,
    "two_ranks": 0.0,
    "h100_bert": 0.5,
    "mi300_bert": 0.5,
    "nccl_rank": 0.5,
    "ns_resolution": 0.5,
}


def outcome(call: Call, analyzer: Any, rank: int) -> Any:
    """What a call returns, or the type of what it raises."""
    try:
        return call(analyzer, rank)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("trace", TRACES)
def test_call_equals_hta(trace: str, name: str) -> None:
    rank = min(ours(trace).t.get_ranks())
    expected = outcome(CALLS[name], theirs(trace), rank)
    found = outcome(CALLS[name], ours(trace), rank)
    text = difference(expected, found, TRACES[trace])
    if (trace, name) in EXCEPTIONS:
        assert text is not None, "the exception is no longer needed"
    else:
        assert text is None, text


def test_exceptions_are_explained() -> None:
    documentation = (REPOSITORY / "docs/evidence/differences.md").read_text()
    for (trace, name), reason in EXCEPTIONS.items():
        assert trace in TRACES, trace
        assert name in CALLS, name
        assert reason in documentation, reason
