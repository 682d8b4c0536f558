"""The API of Holistic Trace Analysis (HTA 0.5, traceinsight 0.6) on Trace Advisor.

A notebook runs after changing ``hta`` to ``trace_advisor.hta`` in its imports::

    from trace_advisor.hta import TraceAnalysis

Times are in microseconds, as in HTA, but exact to the nanosecond: HTA rounds the times of modern traces to whole
microseconds. Where HTA is wrong, methods return the right number and say so in their docstring.
"""

from .trace_analysis import TimeSeriesTypes, TraceAnalysis
from .trace_diff import DeviceType, LabeledTrace, TraceDiff

__all__ = ["DeviceType", "LabeledTrace", "TimeSeriesTypes", "TraceAnalysis", "TraceDiff"]
