"""The files that a recording writes, with a profiler that needs no PyTorch."""

import contextlib
import gzip
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from trace_advisor import _recorder
from trace_advisor._recorder import (
    INSTRUCTION_SETS,
    Recorder,
    TraceFolder,
    cuspy_problem,
    usable_cores,
    with_properties,
)

TRACE = '{"traceEvents": []}'


class Profiler:
    """Writes a trace, or fails."""

    def __init__(self, error=None):
        self.error, self.paths = error, []

    def export_chrome_trace(self, path):
        self.paths.append(path)
        Path(path).write_text(TRACE)
        if self.error:
            raise self.error


@pytest.mark.skipif(sys.platform == "win32", reason="permissions and links")
def test_traces_are_written_where_nobody_else_can_write(tmp_path):
    folder = TraceFolder(tmp_path / "run")
    (tmp_path / "run").mkdir()
    victim = tmp_path / "victim"
    for suffix in ("", ".json"):
        (tmp_path / "run" / f".rank0.{os.getpid()}.partial{suffix}").symlink_to(victim)
    (tmp_path / "run" / "rank0_cycle0.pt.trace.json.gz").symlink_to(victim)
    profiler = Profiler()
    modes = []
    export = profiler.export_chrome_trace
    profiler.export_chrome_trace = lambda path: (modes.append(os.stat(os.path.dirname(path)).st_mode), export(path))
    path = folder.write(profiler)
    assert path.endswith("rank0_cycle1.pt.trace.json.gz")
    assert json.load(gzip.open(path, "rt"))["traceEvents"] == []
    assert [mode & 0o777 for mode in modes] == [0o700]
    assert not victim.exists()
    assert len(os.listdir(tmp_path / "run")) == 4


@pytest.mark.parametrize("is_late", [False, True])
def test_traces_that_the_profiler_compresses_are_read(tmp_path, is_late):
    """Cuspy appends `.gz` to the path, and may write the file only in wait_for_exports()."""

    class Cuspy:
        def export_chrome_trace(self, path):
            self.path = path
            is_late or self.wait_for_exports()

        def wait_for_exports(self):
            with gzip.open(self.path + ".gz", "wt") as file:
                file.write(TRACE)

    path = TraceFolder(tmp_path / "run").write(Cuspy())
    assert list(json.load(gzip.open(path, "rt"))) == ["processorProperties", "traceEvents"]
    assert os.listdir(tmp_path / "run") == ["rank0_cycle0.pt.trace.json.gz"]


def test_a_profiler_that_writes_no_trace_is_an_error(tmp_path):
    folder = TraceFolder(tmp_path / "run")
    with pytest.raises(OSError, match="the profiler wrote no trace"):
        folder.write(SimpleNamespace(export_chrome_trace=lambda path: None))
    assert os.listdir(tmp_path / "run") == [] and folder.written_count == 0


@pytest.mark.parametrize(
    ("torch", "has_package", "problem"),
    [
        ({"version": "2.9.0", "has_cuspy": False}, True, "PyTorch 2.9.0 does not have Cuspy"),
        ({"cuda": None}, True, "Cuspy records NVIDIA GPUs, and the program uses none"),
        ({"is_used": False}, True, "Cuspy records NVIDIA GPUs, and the program uses none"),
        ({}, False, "Cuspy needs the package cupti-python, which is not installed"),
        ({}, True, None),
    ],
)
def test_cuspy_needs_pytorch_a_gpu_and_a_package(monkeypatch, torch, has_package, problem):
    torch = {"version": "2.15.0+cu132", "has_cuspy": True, "cuda": "13.2", "is_used": True, **torch}
    fake = SimpleNamespace(
        __version__=torch["version"],
        profiler=SimpleNamespace(**({"CuspyConfig": object} if torch["has_cuspy"] else {})),
        version=SimpleNamespace(cuda=torch["cuda"]),
        cuda=SimpleNamespace(is_initialized=lambda: torch["is_used"]),
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(_recorder.importlib.util, "find_spec", lambda name: fake if has_package else None)
    assert cuspy_problem() == problem


@pytest.mark.parametrize("fails_to_stop", [False, True])
@pytest.mark.parametrize("reason", ["ImportError: libcupti.so.13", "CUPTI is not available to it"])
def test_what_cuspy_began_is_stopped_before_kineto_starts(tmp_path, monkeypatch, reason, fails_to_stop):
    calls = []

    class Started:
        _use_cuspy = True
        _cuspy_profiler_observer = SimpleNamespace(available=False)

        def __init__(self, on_trace_ready, **options):
            self.on_trace_ready = on_trace_ready

        def start(self):
            calls.append("start")
            if "libcupti" in reason:
                raise ImportError("libcupti.so.13")

        def stop(self):
            calls.append(("stop", self.on_trace_ready))
            if fails_to_stop:
                raise AssertionError("Profiler must be initialized before stopping trace")

    monkeypatch.setattr(_recorder, "cuspy_problem", lambda: None)
    monkeypatch.setattr(_recorder, "cuspy_activities", lambda: [])
    recorder = Recorder(TraceFolder(tmp_path / "run"), 3, 5)
    recorder._others = SimpleNamespace(ours=contextlib.nullcontext)
    monkeypatch.setattr(recorder, "_action", lambda step: None)
    assert recorder._started_with_cuspy(Started) is None
    assert recorder.writer_reason == f"Cuspy did not start: {reason}"
    assert calls == ["start", ("stop", None)]


def test_a_trace_describes_the_processor(tmp_path):
    path = TraceFolder(tmp_path / "run").write(Profiler())
    entries = json.load(gzip.open(path, "rt"))
    assert list(entries) == ["processorProperties", "traceEvents"]
    processor = entries["processorProperties"]
    assert list(processor) == ["name", "cores", "threads", "flags"]
    assert 1 <= processor["cores"] == usable_cores() <= os.cpu_count()
    if sys.platform == "linux":
        assert processor["flags"] == [flag for flag in INSTRUCTION_SETS if flag in processor["flags"]]


@pytest.mark.parametrize("head", [b"", b"{}", b"[1]", b" {\n}", b"x{", b"{ 1"])
def test_what_is_no_object_with_entries_is_not_changed(head):
    assert with_properties(head, (5, 1_000)) == head


def test_the_processor_stands_before_the_first_entry():
    head = with_properties(b' {\n  "schemaVersion": 1')
    assert head.startswith(b' {"processorProperties": {"name": ')
    assert head.endswith(b'},\n  "schemaVersion": 1')


def test_steps_before_the_recording_are_timed(tmp_path, monkeypatch):
    now_ns = iter(range(0, 10**9, 10**6))
    monkeypatch.setattr(_recorder, "_time_when_devices_are_done", lambda: next(now_ns) * 7)
    for first_step, expected in [(10, (5, 7 * 10**6 // 5)), (7, None), (200, (20, 7 * 10**6 // 20))]:
        recorder = Recorder(TraceFolder(tmp_path / str(first_step)), first_step, first_step + 1)
        profiler = SimpleNamespace(step=lambda: None, stop=lambda: recorder.folder.write(Profiler()))
        monkeypatch.setattr(recorder, "_start", lambda: setattr(recorder, "_profiler", profiler))
        monkeypatch.setattr(recorder, "watch", lambda: None)
        recorder.begin()
        for _ in range(first_step + 3):
            recorder.step()
        assert recorder.problem is None
        assert recorder.folder.timed_steps == expected
        [trace] = (tmp_path / str(first_step)).iterdir()
        entry = json.load(gzip.open(trace, "rt")).get("unprofiledSteps")
        assert entry == (expected and {"count": expected[0], "mean_ns": expected[1]})


def test_a_trace_that_fails_leaves_nothing(tmp_path):
    folder = TraceFolder(tmp_path / "run")
    with pytest.raises(OSError, match="disk full"):
        folder.write(Profiler(OSError("disk full")))
    assert os.listdir(tmp_path / "run") == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_what_a_killed_program_leaves_is_removed_by_the_next_command(tmp_path):
    code = f"""
import os, signal, sys
from trace_advisor._recorder import TraceFolder
class Profiler:
    def export_chrome_trace(self, path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
TraceFolder({str(tmp_path)!r}).write(Profiler())
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    (leftover,) = os.listdir(tmp_path)
    assert leftover.startswith(".advisor-") and leftover.endswith(".partial")
    command = [sys.executable, "-m", "trace_advisor", "demo", "-o", str(tmp_path), "--force", "--steps", "2"]
    subprocess.run(command, check=True, capture_output=True)
    assert leftover not in os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("version", "is_supported"),
    [
        ("0.4.1", False),
        ("1.13.1+cu117", False),
        ("2.2.2", False),
        ("2.3.0a0+git1", True),
        ("2.15.0+cu130", True),
        ("10.0", True),
        ("unknown", True),
    ],
)
def test_versions_of_pytorch_that_can_be_recorded(monkeypatch, version, is_supported):
    monkeypatch.setitem(sys.modules, "_advisor_recorder", _recorder)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__=version))
    source = Path(__file__).parents[2] / "crates/cli/src/commands/record/training_loop.py"
    spec = importlib.util.spec_from_file_location("training_loop", source)
    loop = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loop)
    watched, told = [], []
    monkeypatch.setattr(loop, "watch_training", watched.append)
    monkeypatch.setattr(loop, "tell", lambda *status: told.append(status))
    loop.watch()
    assert bool(watched) == is_supported
    [(kind, status)] = told
    assert (kind, status["version"], status["problem"] is None) == ("torch", version, is_supported)
    assert is_supported or status["problem"].startswith(f"PyTorch {version} is too old")
