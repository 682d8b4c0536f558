"""Execution traces."""

from .._not_offered import not_offered

__getattr__ = not_offered(
    "hta.common.execution_trace", "the view `op_execution_nodes`, as in trace.run.view('op_execution_nodes')"
)
