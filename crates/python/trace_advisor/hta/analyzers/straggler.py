"""HTA's criterion for stragglers, under HTA's module name."""

from .straggler_analysis import find_stragglers_with_late_start_comm_kernels

__all__ = ["find_stragglers_with_late_start_comm_kernels"]
