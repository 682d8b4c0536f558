"""Records training steps and writes the trace of each rank.

`advisor record` embeds this file and runs it under any Python: it must not import other files of the package, and it
imports PyTorch only when a recording starts.
"""

import contextlib
import gzip
import importlib.util
import json
import os
import secrets
import shutil
import sys
import time

if sys.platform != "win32":
    import fcntl

PROGRAM_START_S = time.time()
TRACE_SUFFIX = ".pt.trace.json.gz"
# Host events compress 10 to 1 at any level, and the training waits for it.
GZIP_LEVEL = 3
# Steps that the profiler runs for before it keeps events.
WARMUP_STEPS = 2
# Trace writers. "auto" is Cuspy if it can record, otherwise Kineto.
WRITERS = ("auto", "kineto", "cuspy")
# Options of the profiler that also select the writer.
WRITER_OPTIONS = ("activities", "experimental_config")


# Steps before the recording that are not timed: the first ones compile, allocate and fill caches.
SETTLING_STEPS = 3
# Fewer steps do not make a mean; more may contain an evaluation or a checkpoint.
MIN_TIMED_STEPS, MAX_TIMED_STEPS = 3, 20


def _time_when_devices_are_done():
    """The time in ns once the devices of this process have done their work; None if that is unknown."""
    torch = sys.modules.get("torch")
    accelerator = getattr(torch, "accelerator", None)
    try:
        if accelerator is not None and accelerator.is_available():
            accelerator.synchronize()
        elif torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.synchronize()
    except Exception:  # A device that cannot be waited for makes the time unknown, not the training fail.
        return None
    return time.perf_counter_ns()


def warn(message, kind="warning"):
    """Prints a warning or a note on stderr; never raises."""
    try:
        sys.stderr.write(f"{kind}: trace-advisor: {message}\n")
        sys.stderr.flush()
    except Exception:  # A closed stderr must not end the training.
        pass


# The text that says whose a work folder is, as in crates/ingest/src/output/work_folder.rs.
WORK_MARKER = "Trace Advisor writes here until an output is complete, and then removes this folder.\n"


@contextlib.contextmanager
def work_folder(parent):
    """A folder to write in until an output is complete. Its name is random and only its owner may enter it.

    If this process dies, `advisor` removes the folder when it writes to `parent`.
    """
    path = os.path.join(parent, f".advisor-{secrets.token_hex(6)}.partial")
    os.mkdir(path, 0o700)
    try:
        with open(os.path.join(path, "lock"), "x") as lock:
            with contextlib.suppress(OSError):  # Without locks, nobody can tell whether this process is alive.
                if sys.platform != "win32":
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    lock.write(WORK_MARKER)
                    lock.flush()
            yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# Instruction sets that decide which data types are fast, as Linux names them.
INSTRUCTION_SETS = (
    "avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "amx_fp16",
    "amx_int8", "asimd", "asimdhp", "bf16", "i8mm", "sve", "sve2",
)  # fmt: skip


def processor_properties():
    """The processor of this process: its name, cores, threads and instruction sets. Unknown values are None."""
    name, flags = None, None
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:  # On Linux only.
        for line in lines:
            key, _, text = line.partition(":")
            key = key.strip().lower()
            if key == "model name" and name is None:
                name = text.strip()
            elif key in ("flags", "features") and flags is None:
                flags = [flag for flag in INSTRUCTION_SETS if flag in text.split()]
            if name is not None and flags is not None:
                break
    torch = sys.modules.get("torch")
    return {
        "name": name,
        "cores": usable_cores(),
        "threads": torch.get_num_threads() if torch is not None else None,
        "flags": flags,
    }


def usable_cores():
    """The cores that this process may use: those it is bound to, and no more than its container gets time of."""
    try:
        count = len(os.sched_getaffinity(0))
    except AttributeError:  # Linux only.
        count = os.cpu_count()
    with contextlib.suppress(OSError, ValueError), open("/sys/fs/cgroup/cpu.max") as limit:
        quota, period = limit.read().split()
        count = max(1, min(count, int(quota) // int(period)))  # `max` is not a number: there is no limit.
    return count


def with_properties(head, timed_steps=None):
    """The beginning of a trace with entries that describe the processor and the steps that were timed before the recording.

    `timed_steps` is their number and mean duration in ns. What is not a JSON object stays unchanged.
    """
    start = head.find(b"{")
    if head[:start].strip() or not head[start + 1 :].lstrip().startswith(b'"'):
        return head
    try:
        entry = f'"processorProperties": {json.dumps(processor_properties())},'
        if timed_steps is not None:
            entry += '"unprofiledSteps": {{"count": {}, "mean_ns": {}}},'.format(*timed_steps)
    except Exception as error:  # The trace is worth more than its description.
        warn(f"the processor could not be described: {error}")
        return head
    return head[: start + 1] + entry.encode() + head[start + 1 :]


def process_rank():
    """The rank of this process: of the process group, as the launcher says, or 0."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    rank = os.environ.get("RANK", "")
    return int(rank) if rank.isdecimal() else 0


def cuspy_problem():
    """Returns why Cuspy, PyTorch's second trace writer, cannot record this process; None if it can."""
    import torch

    if not hasattr(torch.profiler, "CuspyConfig"):
        return f"PyTorch {torch.__version__} does not have Cuspy"
    # Looking for a GPU would initialize CUDA.
    if not torch.version.cuda or not torch.cuda.is_initialized():
        return "Cuspy records NVIDIA GPUs, and the program uses none"
    if importlib.util.find_spec("cupti") is None:
        return "Cuspy needs the package cupti-python, which is not installed"
    return None


def cuspy_activities():
    """Returns the option `activities` that makes a profiler use Cuspy."""
    from torch.profiler import CuspyConfig, ProfilerActivity, ProfilerActivityConfig

    return [ProfilerActivity.CPU, {ProfilerActivity.CUDA: ProfilerActivityConfig(profiler_configs=[CuspyConfig()])}]


def open_exported(profiler, path):
    """Opens the trace that a profiler wrote to a path. Cuspy compresses the trace and appends `.gz` to the path."""
    wait_for_exports = getattr(profiler, "wait_for_exports", None)
    if wait_for_exports is not None:  # Cuspy may write the trace later.
        wait_for_exports()
    if os.path.exists(path):
        return open(path, "rb")
    if os.path.exists(path + ".gz"):
        return gzip.open(path + ".gz", "rb")
    raise OSError("the profiler wrote no trace")


class TraceFolder:
    """The folder that this run writes its traces to: one file for each rank and cycle."""

    def __init__(self, path, is_exact=False):
        """Takes `path`, or `path-2`, `path-3`, ... if an earlier program left traces there, unless `is_exact`."""
        self.path = os.fspath(path)
        self.rank = process_rank()
        self.written_count = 0
        self.last_cycle = None  # The number in the name of the last file.
        self.timed_steps = None  # Number and mean duration in ns of steps before the recording.
        if not is_exact:
            self.path = unused_folder(self.path)

    def write(self, profiler):
        """Writes the trace of a profiler and returns its path."""
        os.makedirs(self.path, exist_ok=True)
        with work_folder(self.path) as work:
            written, compressed = os.path.join(work, "trace.json"), os.path.join(work, "described.json.gz")
            profiler.export_chrome_trace(written)
            with open_exported(profiler, written) as text, gzip.open(compressed, "wb", GZIP_LEVEL) as packed:
                packed.write(with_properties(text.read(1 << 16), self.timed_steps))
                shutil.copyfileobj(text, packed, 1 << 20)
            path = self._reserve(f"rank{self.rank}_cycle{{}}{TRACE_SUFFIX}")
            os.replace(compressed, path)
        self.written_count += 1
        return path

    def _reserve(self, pattern):
        """Creates the first file of this pattern that does not exist."""
        number = self.written_count
        while True:
            path = os.path.join(self.path, pattern.format(number))
            try:
                open(path, "xb").close()
                self.last_cycle = number
                return path
            except FileExistsError:
                number += 1


def unused_folder(path):
    """The first of `path`, `path-2`, `path-3`, ... without traces of an earlier program."""
    base, number, candidate = path.rstrip("/\\") or path, 1, path
    while _has_earlier_traces(candidate):
        number += 1
        candidate = f"{base}-{number}"
    return candidate


def _has_earlier_traces(folder):
    # Other ranks of this program write after it started, so that all ranks choose the same folder.
    try:
        with os.scandir(folder) as entries:
            traces = [entry for entry in entries if entry.name.endswith(TRACE_SUFFIX)]
            return any(entry.stat().st_mtime < PROGRAM_START_S for entry in traces)
    except OSError:
        return False


class Recorder:
    """Records the steps `first_step` to `last_step` of a training loop.

    `step()` ends a step; the first one is step 0. The profiler exists only around the recorded steps.
    `on_end(recorder)` is called once, when the recording is over. Nothing here raises: `problem` says why there is no
    trace. `used_writer` is the writer that records, "kineto" or "cuspy", and `writer_reason` says why Cuspy does not
    record. Both are None before the start.
    """

    def __init__(
        self, folder, first_step, last_step, on_end=None, warmup_steps=WARMUP_STEPS, writer="auto", **options
    ):
        self.folder = folder
        self.first_step, self.last_step = first_step, last_step
        self.options = {"record_shapes": True, "profile_memory": True, **options}
        self.on_end = on_end
        self.writer, self.used_writer, self.writer_reason = writer, None, None
        self.step_count = 0
        self.problem = None
        self.is_over = False
        self._start_step = max(first_step - warmup_steps, 0)
        # Without room for enough steps, nothing is timed and no device waited for.
        first_timed = max(SETTLING_STEPS, self._start_step - MAX_TIMED_STEPS)
        has_room = self._start_step - first_timed >= MIN_TIMED_STEPS
        self._first_timed = first_timed if has_room else self._start_step
        self._profiler = None
        self._others = None
        self._timed_from = None  # Number of steps and time when the timing of unprofiled steps began.

    def watch(self):
        """Watches for profilers of the program from now on."""
        self._guard(self._watch_others)

    def begin(self):
        """Announces the first step."""
        self.watch()
        if self._start_step == 0:
            self._guard(self._start)

    def step(self, count=1):
        """Ends `count` steps at once. Outside of the recorded ones this is a comparison."""
        self.step_count += count
        if self._timed_from is None and self._first_timed <= self.step_count < self._start_step:
            self._timed_from = (self.step_count, _time_when_devices_are_done())
        if self.step_count >= self._start_step and not self.is_over:
            self._guard(self._advance)

    def finish(self):
        """Ends the recording, if it is not over, and writes what it has."""
        if not self.is_over:
            self._guard(self._stop)

    def abandon(self):
        """Ends the recording without a trace and without touching the profiler, which belongs to a parent process."""
        self._profiler, self.is_over = None, True
        if self._others is not None:
            self._others.ignore()

    @property
    def is_recording(self):
        """True while the profiler runs."""
        return self._profiler is not None

    def give_way(self):
        """Drops the recording, because the program uses the profiler itself."""
        if self.is_recording:
            self._profiler.on_trace_ready = None
        self._fail("the program uses torch.profiler itself; check the traces that it writes")

    def _end_timing(self):
        begin_step, begin_ns = self._timed_from or (self.step_count, None)
        count = self.step_count - begin_step
        end_ns = _time_when_devices_are_done() if begin_ns is not None and count >= MIN_TIMED_STEPS else None
        if end_ns is not None:
            self.folder.timed_steps = (count, (end_ns - begin_ns) // count)

    def _advance(self):
        if self._profiler is None:
            self._end_timing()
            self._start()
        else:
            self._profiler.step()
        if self.step_count > self.last_step:
            self._stop()

    def _start(self):
        import torch
        from torch.profiler import profile

        self._watch_others()
        if self._others.is_active or torch.autograd._profiler_enabled():
            self.give_way()
            return
        self._profiler = self._started_with_cuspy(profile) or self._started(profile)

    def _started_with_cuspy(self, profile):
        """Starts a profiler with Cuspy. Returns None if Cuspy was not chosen, or cannot record: see `writer_reason`."""
        if self.writer == "kineto" or any(name in self.options for name in WRITER_OPTIONS):
            return None
        self.writer_reason = cuspy_problem()
        if self.writer_reason is not None:
            return None
        profiler = None
        try:
            profiler = self._created(profile, activities=cuspy_activities())
            self._begin(profiler)
            # Only this object and a log message show whether Cuspy could start.
            if getattr(getattr(profiler, "_cuspy_profiler_observer", None), "available", True):
                return profiler
            self.writer_reason = "Cuspy did not start: CUPTI is not available to it"
        except Exception as error:
            self.writer_reason = f"Cuspy did not start: {type(error).__name__}: {error}"
        # A partly started Cuspy would keep Kineto from starting. stop() raises if the profiler never started.
        if profiler is not None:
            profiler.on_trace_ready = None
            with contextlib.suppress(Exception):
                profiler.stop()
        return None

    def _started(self, profile):
        profiler = self._created(profile)
        self._begin(profiler)
        return profiler

    def _created(self, profile, **options):
        profiler = profile(schedule=self._action, on_trace_ready=self.folder.write, **self.options, **options)
        # Steps in the trace have the numbers of the loop.
        profiler.step_num = self.step_count
        profiler.current_action = self._action(self.step_count)
        return profiler

    def _begin(self, profiler):
        with self._others.ours():
            profiler.start()
        self.used_writer = "cuspy" if getattr(profiler, "_use_cuspy", False) else "kineto"

    def _action(self, step):
        from torch.profiler import ProfilerAction

        if step > self.last_step:
            return ProfilerAction.NONE
        if step == self.last_step:
            return ProfilerAction.RECORD_AND_SAVE
        return ProfilerAction.RECORD if step >= self.first_step else ProfilerAction.WARMUP

    def _watch_others(self):
        if self._others is None:
            self._others = OtherProfilers(lambda: self.is_recording and self.give_way())

    def _stop(self):
        profiler, self._profiler = self._profiler, None
        self.is_over = True
        try:
            if profiler is not None:
                profiler.stop()
        finally:
            if self._others is not None:
                self._others.ignore()
            if self.on_end is not None:
                self.on_end(self)

    def _fail(self, problem):
        self.problem = self.problem or problem
        self._guard(self._stop)

    def _guard(self, action):
        """Runs an action whose errors must not reach the training."""
        try:
            action()
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            if self.is_over:
                self.problem = self.problem or message
                warn(message)
            else:
                warn(f"recording ended: {message}")
                self._fail(message)


class OtherProfilers:
    """Calls `on_start()` before a profiler that is not ours starts: PyTorch runs one at a time."""

    def __init__(self, on_start):
        from torch.autograd.profiler import profile

        self._on_start = on_start
        self._is_ours = False
        self._active = set()
        self._class, self._prepare_trace, self._exit = profile, profile._prepare_trace, profile.__exit__

        def prepare_trace(profiler, *args, **kwargs):
            self._prepares(profiler)
            return self._prepare_trace(profiler, *args, **kwargs)

        def exit_profiler(profiler, *args, **kwargs):
            self._active.discard(id(profiler))
            return self._exit(profiler, *args, **kwargs)

        self._watching = prepare_trace
        profile._prepare_trace, profile.__exit__ = prepare_trace, exit_profiler

    @property
    def is_active(self):
        """True while one warms up or records."""
        return bool(self._active)

    def _prepares(self, profiler):
        if not self._is_ours:
            self._active.add(id(profiler))
            self._on_start()

    def ignore(self):
        """Restores what PyTorch had."""
        if self._class._prepare_trace is self._watching:
            self._class._prepare_trace, self._class.__exit__ = self._prepare_trace, self._exit

    @contextlib.contextmanager
    def ours(self):
        """A block in which a profiler of ours starts."""
        self._is_ours = True
        try:
            yield
        finally:
            self._is_ours = False
