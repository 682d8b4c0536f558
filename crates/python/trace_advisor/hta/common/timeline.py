"""Plots of events."""

from .._not_offered import not_offered

__getattr__ = not_offered("hta.common.timeline", "trace_advisor.augment and a trace viewer")
