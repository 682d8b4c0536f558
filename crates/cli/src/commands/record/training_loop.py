"""Finds the training loop of a program through the steps of its optimizers, and records some of them.

`advisor record` writes this file next to `sitecustomize.py`, which imports it once PyTorch is imported. The variable
ADVISOR_RECORD holds what the command line says, as JSON.
"""

import atexit
import functools
import json
import os
import re
import sys
import threading

import _advisor_recorder as recorder


# The first release with `torch.compiler.is_compiling`. `Optimizer._patch_step_function` and what the recorder needs of the
# profiler are older.
MINIMUM_VERSION = (2, 3)


class StepBoundaries:
    """Tells which calls of optimizers end a training step.

    A step is a round of optimizers, each called once: one optimizer, or those of a generator and a discriminator. The
    first round ends when an optimizer is called again, later ones as soon as they are complete.
    """

    def __init__(self):
        self._round, self._last_round = set(), None

    def ended(self, optimizer):
        """The number of steps that ended with this call: of optimizers of one step, 0 for all but the last."""
        key, count = id(optimizer), 0
        if key in self._round:
            self._last_round, self._round = self._round, set()
            count = 1
        self._round.add(key)
        if self._round == self._last_round:
            self._round = set()
            count += 1
        return count


class TrainingLoop:
    """The training loop of this process: that of the thread whose optimizer steps first."""

    def __init__(self, settings):
        self._settings = settings
        self._recorder = None
        self.reset()

    def reset(self):
        """Starts over, as in a child process that inherited the state of its parent."""
        if self._recorder is not None:
            self._recorder.abandon()
        settings = self._settings
        self._thread = None
        self._boundaries = StepBoundaries()
        self._has_snapshot = False
        self._recorder = recorder.Recorder(
            recorder.TraceFolder(settings["folder"], is_exact=True),
            settings["first_step"],
            settings["last_step"],
            on_end=lambda _: self._tell(),
            writer=settings.get("writer", "auto"),
            with_stack=settings["with_stack"],
        )
        self._recorder.watch()

    def optimizer_stepped(self, optimizer):
        """Handles the end of a call of an optimizer. An error must not reach the program."""
        if self._recorder.is_over:
            return
        try:
            self._advance(optimizer)
        except Exception as error:
            recorder.warn(f"{type(error).__name__}: {error}")
            self._recorder.abandon()

    def _advance(self, optimizer):
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
            self._found()
        if thread == self._thread:
            ended_count = self._boundaries.ended(optimizer)
            if ended_count:
                self._recorder.step(ended_count)

    def _found(self):
        # Distributed programs know their rank now.
        import torch

        self._recorder.folder.rank = recorder.process_rank()
        # On the CPU, it makes PyTorch print a warning.
        self._recorder.options["profile_memory"] = torch.cuda.is_initialized()
        self._tell()
        # Children of multiprocessing leave without `atexit`.
        process = sys.modules.get("multiprocessing.process")
        if process is not None and process.parent_process() is not None:
            from multiprocessing.util import Finalize

            Finalize(None, self.finish, exitpriority=100)

    def finish(self):
        """Ends what is left at the end of the process."""
        if self._thread is not None:
            self._recorder.finish()

    def out_of_memory(self, *_):
        """Saves a snapshot of the memory when an allocation fails for the first time."""
        if self._has_snapshot:
            return
        self._has_snapshot = True
        try:
            import torch

            folder = self._settings["folder"]
            os.makedirs(folder, exist_ok=True)
            name = f"rank{recorder.process_rank()}_out_of_memory_{os.getpid()}.pickle"
            with recorder.work_folder(folder) as work:
                torch.cuda.memory._dump_snapshot(os.path.join(work, name))
                os.replace(os.path.join(work, name), os.path.join(folder, name))
        except Exception as error:
            recorder.warn(f"no memory snapshot: {type(error).__name__}: {error}")

    def _tell(self):
        """Tells `advisor record` how far this process is."""
        recorded = self._recorder
        status = {
            "rank": recorded.folder.rank,
            "step_count": recorded.step_count,
            "trace_count": recorded.folder.written_count,
            "problem": recorded.problem,
            "writer": recorded.used_writer,
            "writer_reason": recorded.writer_reason,
        }
        tell("training", status)


def tell(kind, status):
    """Writes what `advisor record` reads after the end of the program. Without it, a daemon has no one to tell."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "status", f"{kind}-{os.getpid()}.json")
    try:
        with open(path + ".partial", "w") as file:
            json.dump(status, file)
        os.replace(path + ".partial", path)
    except OSError:
        pass


def watch():
    """Watches the optimizers and the memory of this process from now on."""
    import torch

    version = str(torch.__version__)
    problem = version_problem(version)
    if problem is None:
        try:
            watch_training(torch)
        except Exception as error:
            problem = f"PyTorch {version} cannot be recorded: {type(error).__name__}: {error}"
    tell("torch", {"version": version, "problem": problem})


def version_problem(version):
    """Why steps cannot be recorded with this version of PyTorch; None if they can."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or tuple(map(int, numbers.groups())) >= MINIMUM_VERSION:
        return None
    needed = "{}.{} or later".format(*MINIMUM_VERSION)
    return f"PyTorch {version} is too old for `advisor record`, which needs {needed}; use torch.profiler in the program"


def watch_training(torch):
    """Watches the optimizers and the memory, with a PyTorch that is new enough."""
    settings = json.loads(os.environ["ADVISOR_RECORD"])
    loop = TrainingLoop(settings)
    watch_optimizers(torch.optim.Optimizer, loop)
    if settings["memory_snapshot"]:
        watch_memory(torch, loop)
    atexit.register(loop.finish)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=loop.reset)


def watch_optimizers(optimizer_class, loop):
    """Calls `loop.optimizer_stepped(optimizer)` after each step of an optimizer that no other optimizer calls.

    A hook of `register_optimizer_step_post_hook` runs inside of the range `Optimizer.step` of the trace, which would
    reach from each step into the next one.
    """
    import torch

    patch_step = optimizer_class._patch_step_function
    is_compiling = torch.compiler.is_compiling
    nesting = threading.local()

    def watched(step):
        @functools.wraps(step)
        def step_and_tell(self, *args, **kwargs):
            if is_compiling() or getattr(nesting, "is_inside", False):
                return step(self, *args, **kwargs)
            nesting.is_inside = True
            try:
                result = step(self, *args, **kwargs)
            finally:
                nesting.is_inside = False
            loop.optimizer_stepped(self)
            return result

        step_and_tell.is_watched = True
        return step_and_tell

    def patch_and_watch_step(optimizer):
        patch_step(optimizer)
        cls = type(optimizer)
        if not getattr(cls.step, "is_watched", False):
            cls.step = watched(cls.step)

    optimizer_class._patch_step_function = patch_and_watch_step


def watch_memory(torch, loop):
    """Keeps track of allocations on the GPU, once the program uses one."""

    def start():
        try:
            torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
            torch._C._cuda_attach_out_of_memory_observer(loop.out_of_memory)
        except Exception as error:
            recorder.warn(f"no memory history: {type(error).__name__}: {error}")

    # Asking whether there is a GPU would initialize CUDA, and break programs that fork.
    if torch.version.cuda or torch.version.hip:
        torch.cuda._lazy_call(start)
