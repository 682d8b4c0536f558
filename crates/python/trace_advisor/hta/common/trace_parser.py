"""Reading of trace files."""

from .._not_offered import not_offered

__getattr__ = not_offered("hta.common.trace_parser", "Trace of trace_advisor.hta.common.trace")
