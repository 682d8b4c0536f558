"""`visualize=True` draws the figures that HTA draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from analyzers import ours, theirs

FIGURES: dict[str, Callable[[Any], Any]] = {
    "temporal_breakdown": lambda a: a.get_temporal_breakdown(),
    "idle_time_breakdown": lambda a: a.get_idle_time_breakdown([0, 1]),
    "idle_times": lambda a: a.get_idle_time_breakdown(visualize_pctg=False),
    "kernel_breakdown": lambda a: a.get_gpu_kernel_breakdown(num_kernels=1000),
    "comm_comp_overlap": lambda a: a.get_comm_comp_overlap(),
    "kernel_launch_stats": lambda a: a.get_cuda_kernel_launch_stats(),
    "aten_op_kernels_and_delay": lambda a: a.get_aten_op_kernels_and_delay(),
}


def described(figure: Any) -> tuple[Any, ...]:
    """The kinds of charts in a figure, its title and the titles of its axes."""
    layout = figure.layout
    axes = (layout.xaxis.title.text, layout.yaxis.title.text)
    return tuple(trace.type for trace in figure.data), layout.title.text, axes


@pytest.mark.parametrize("name", FIGURES)
def test_figures_equal_hta(name: str, shown: list[Any]) -> None:
    FIGURES[name](theirs("two_ranks"))
    expected = sorted(map(described, shown), key=str)
    shown.clear()
    FIGURES[name](ours("two_ranks"))
    assert expected
    assert sorted(map(described, shown), key=str) == expected


def test_annotations_are_drawn_as_in_hta(shown: list[Any]) -> None:
    theirs("nccl_rank").get_gpu_user_annotation_breakdown()
    expected = [described(figure) for figure in shown]
    shown.clear()
    ours("nccl_rank").get_gpu_user_annotation_breakdown()
    assert [described(figure) for figure in shown] == expected
