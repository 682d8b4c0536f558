"""Plots of kernels."""

from .._not_offered import not_offered

__getattr__ = not_offered("hta.analyzers.timeline", "trace_advisor.augment and a trace viewer")
