"""Accelerate: `Accelerator(kwargs_handlers=[profile_kwargs("run/")])`, then `with accelerator.profile() as prof`."""

from accelerate.utils import ProfileKwargs

from trace_advisor._recorder import WARMUP_STEPS
from trace_advisor._trace_handler import on_trace_ready

__all__ = ["profile_kwargs"]


def profile_kwargs(folder="run", *, steps=(10, 16), handler_options=None, **profiler_options):
    """Returns the options with which `accelerator.profile()` records some steps and prints the report.

    Call `prof.step()` at the end of each step.

    Args:
        folder: where to write the traces of all ranks.
        steps: the first and the last step to record, both included. The first step in the `with` block is 0.
        handler_options: options of `trace_advisor.on_trace_ready`, such as `{"check": False}`.
        profiler_options: options of `accelerate.utils.ProfileKwargs`. By default, shapes and memory are recorded.
    """
    first_step, last_step = steps
    warmup = min(WARMUP_STEPS, first_step)
    schedule = {
        "wait": first_step - warmup,
        "warmup": warmup,
        "active": last_step - first_step + 1,
        "repeat": 1,
    }
    options = {"record_shapes": True, "profile_memory": True, **profiler_options}
    handler = on_trace_ready(folder, **(handler_options or {}))
    return ProfileKwargs(schedule_option=schedule, on_trace_ready=handler, **options)
