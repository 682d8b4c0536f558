"""Tests which of PyTorch's trace writers records, Cuspy or Kineto, and what happens if Cuspy cannot record.

The test machine has no GPU: PyTorch's profiler is real, and a fake observer replaces the part of Cuspy that reads CUPTI's records.
"""

import gzip
import os
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch
from conftest import step_numbers
from trace_advisor import TrainingRecorder, _recorder

TRACE = "run/rank0_cycle0.pt.trace.json.gz"


class Observer:
    """Replaces `torch.profiler._cuspy.observers.profiler.ProfilerObserver`: compresses the trace of the host."""

    available = True
    error = None

    def __init__(self, **options):
        if self.error is not None:
            raise self.error

    def open_window(self):
        pass

    def close_window(self):
        return 1

    def push_annotation(self, name):
        return 1

    def pop_annotation(self, *_):
        pass

    def set_export(self, window, host_trace, path):
        with open(host_trace, "rb") as text, gzip.open(path + ".gz", "wb") as packed:
            shutil.copyfileobj(text, packed)

    def join(self):
        pass


@pytest.fixture
def observer(monkeypatch):
    """Enables Cuspy as if the machine had a GPU."""
    observer = type("Observer", (Observer,), {})
    module = SimpleNamespace(ProfilerObserver=observer)
    monkeypatch.setitem(sys.modules, "torch.profiler._cuspy.observers.profiler", module)
    monkeypatch.setattr(_recorder, "cuspy_problem", lambda: None)
    return observer


def train(steps=(3, 5), **options):
    recorder = TrainingRecorder("run", steps=steps, check=False, profile_memory=False, **options)
    model = torch.nn.Linear(4, 4)
    recorder.begin()
    for _ in range(8):
        model(torch.randn(2, 4)).sum().backward()
        recorder.step()
    recorder.finish()


def told(capfd):
    lines = capfd.readouterr().err.splitlines()
    return [line for line in lines if "trace-advisor: " in line]


def test_kineto_records_programs_on_the_cpu_and_says_why(capfd):
    train()
    because = "Cuspy records NVIDIA GPUs, and the program uses none"
    assert told(capfd) == [f"note: trace-advisor: the trace is written by Kineto: {because}"]
    assert step_numbers(TRACE) == [3, 4, 5]
    train(writer="cuspy")
    assert told(capfd) == [f"warning: trace-advisor: the trace is written by Kineto: {because}"]


def test_cuspy_records_where_it_can(capfd, observer):
    train()
    assert told(capfd) == ["note: trace-advisor: the trace is written by Cuspy"]
    assert step_numbers(TRACE) == [3, 4, 5] and os.listdir("run") == [os.path.basename(TRACE)]


def test_kineto_is_used_on_demand(capfd, observer):
    train(writer="kineto")
    assert told(capfd) == ["note: trace-advisor: the trace is written by Kineto"]
    assert step_numbers(TRACE) == [3, 4, 5]


def test_kineto_steps_in_when_cuspy_does_not_start(capfd, observer):
    observer.available = False
    train()
    reason = "Cuspy did not start: CUPTI is not available to it"
    assert told(capfd) == [f"note: trace-advisor: the trace is written by Kineto: {reason}"]
    observer.error = ImportError("libcupti.so.13")
    train(writer="cuspy")
    reason = "Cuspy did not start: ImportError: libcupti.so.13"
    assert told(capfd) == [f"warning: trace-advisor: the trace is written by Kineto: {reason}"]
    assert step_numbers(TRACE) == [3, 4, 5]


def test_kineto_steps_in_when_cuspy_fails_after_it_began(capfd, monkeypatch, observer):
    def open_window(self):
        raise RuntimeError("CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")

    routed = []
    monkeypatch.setattr(observer, "open_window", open_window)
    monkeypatch.setattr(observer, "push_annotation", lambda self, name: routed.append(name))
    # Without warm-up steps, the recording begins immediately.
    train(steps=(0, 2))
    reason = "Cuspy did not start: RuntimeError: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
    assert told(capfd) == [f"note: trace-advisor: the trace is written by Kineto: {reason}"]
    assert step_numbers(TRACE) == [0, 1, 2]
    assert routed == [], "ranges still go to Cuspy"


def test_options_of_the_profiler_choose_the_writer(capfd, observer):
    from torch.profiler import CuspyConfig, ProfilerActivity, ProfilerActivityConfig

    train(activities=[ProfilerActivity.CPU])
    assert told(capfd) == ["note: trace-advisor: the trace is written by Kineto"]
    cuda = ProfilerActivityConfig(profiler_configs=[CuspyConfig(enable_environment_counters=True)])
    train(activities=[ProfilerActivity.CPU, {ProfilerActivity.CUDA: cuda}])
    assert told(capfd) == ["note: trace-advisor: the trace is written by Cuspy"]
    with pytest.raises(ValueError, match="activities chooses the writer"):
        train(writer="cuspy", activities=[ProfilerActivity.CPU])
    with pytest.raises(ValueError, match="writer is one of auto, kineto, cuspy"):
        train(writer="perfetto")
