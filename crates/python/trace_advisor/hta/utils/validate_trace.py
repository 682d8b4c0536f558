"""Validation of trace files."""

from .._not_offered import not_offered

__getattr__ = not_offered(
    "hta.utils.validate_trace", "trace_advisor.open and Run.tables, which list what was read and what was skipped"
)
