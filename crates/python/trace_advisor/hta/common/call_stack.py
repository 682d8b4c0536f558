"""Call stacks of threads."""

from .._not_offered import not_offered

__getattr__ = not_offered("hta.common.call_stack", "the view `op_calls`, or CallGraph of trace_call_graph")
