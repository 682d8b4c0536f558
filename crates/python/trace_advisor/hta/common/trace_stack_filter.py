"""Filters by call stack."""

from .._not_offered import not_offered

__getattr__ = not_offered("hta.common.trace_stack_filter", "the columns `parent` and `depth` of the view `op_calls`")
