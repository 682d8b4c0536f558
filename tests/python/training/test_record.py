"""`advisor record`: finds the training loop of programs that know nothing about it, and leaves them as they are."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import FOLDER, step_numbers, torchrun

ADVISOR = os.environ.get("ADVISOR_PROGRAM") or shutil.which("advisor", path=Path(sys.executable).parent)
TRACE = "rank0_cycle0.pt.trace.json.gz"
# The test machine has no GPU.
BY_KINETO = "written by Kineto: Cuspy records NVIDIA GPUs, and the program uses none"

# A loop of `argv[1]` steps.
LOOP = """
import sys
from programs import BATCH_SIZE, SlowDataset, small_model
import torch
from torch import nn
from torch.utils.data import DataLoader

def train(step_count, wait_s=0.0, **options):
    torch.manual_seed(1)
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(SlowDataset(step_count, wait_s), BATCH_SIZE, **options):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()
"""


def record(code, *options, program=(), cwd=".", **variables):
    """Runs a program under `advisor record`."""
    return subprocess.run(
        command(code, *options, program=program, cwd=cwd),
        env=environment(**variables),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
    )


def command(code, *options, program=(), cwd="."):
    assert ADVISOR, "no program `advisor` beside this Python, and no variable ADVISOR_PROGRAM"
    Path(cwd, "program.py").write_text(code)
    return [ADVISOR, "record", *options, "--", *(program or [sys.executable]), "program.py"]


def environment(**variables):
    path = os.pathsep.join(filter(None, [variables.pop("first", ""), str(FOLDER), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "ADVISOR_CACHE_DIR": "", "PYTHONPATH": path, **variables}


def traces(folder="run"):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def test_report_names_the_loader_and_the_program_keeps_its_output_and_exit_code():
    code = LOOP + "print(train(18, 0.02)); print('to stderr', file=sys.stderr); sys.exit(3)"
    done = record(code)
    alone = subprocess.run([sys.executable, "program.py"], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, alone.stdout), done.stderr
    assert done.stderr.startswith(f"to stderr\nnote: recorded 1 trace in run; {BY_KINETO}\n"), done.stderr
    # The first row of the list of findings, then the finding below its fix.
    row = r"^ 1  [0-9.]+ to [0-9.]+ % .* Load batches in as many.*(?:\n  .*)*?\n +high +IN001 Steps wait for the DataLoader$"
    assert re.search(row, done.stderr, re.MULTILINE), done.stderr
    assert "Load batches in as many worker processes as there are cores" in " ".join(done.stderr.split()), done.stderr
    assert step_numbers(f"run/{TRACE}") == list(range(10, 17))


def test_steps_and_folder_are_chosen_and_traces_only_written():
    done = record(LOOP + "train(9)", "--steps", "4-6", "-o", "there", "--no-check")
    assert done.stderr == f"note: recorded 1 trace in there; {BY_KINETO}\n"
    assert step_numbers(f"there/{TRACE}") == [4, 5, 6]


def test_writer_that_cannot_record_is_replaced_with_a_warning():
    done = record(LOOP + "train(9)", "--steps", "4-6", "--writer", "cuspy", "--no-check")
    lines = [f"warning: the trace of rank 0 is {BY_KINETO}", f"note: recorded 1 trace in run; {BY_KINETO}"]
    assert done.stderr.splitlines() == lines
    done = record(LOOP + "train(9)", "--steps", "4-6", "--writer", "kineto", "--no-check", "-o", "there")
    assert done.stderr == "note: recorded 1 trace in there; written by Kineto\n"


RANKS = """
import gc
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def train_rank(step_count, **options):
    dist.init_process_group("gloo", **options)
    train_distributed(step_count)
    # Gloo aborts a rank whose peer is late to leave, and at exit if a model still holds the process group.
    gc.collect()
    dist.barrier()
    dist.destroy_process_group()

def train_distributed(step_count):
    model = DistributedDataParallel(small_model())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(SlowDataset(step_count, 0.01), BATCH_SIZE):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
BOTH_RANKS = [f"rank{rank}_cycle0.pt.trace.json.gz" for rank in (0, 1)]


def test_ranks_of_torchrun_are_one_run():
    done = record(LOOP + RANKS + "train_rank(18)", program=torchrun())
    assert done.returncode == 0 and traces() == BOTH_RANKS, done.stderr
    assert "run: 2 ranks, 7 steps" in done.stderr


def test_ranks_that_a_program_spawns_are_recorded():
    code = (
        LOOP
        + RANKS
        + """
def run(rank):
    train_rank(18, init_method="tcp://127.0.0.1:PORT", rank=rank, world_size=2)

if __name__ == "__main__":
    torch.multiprocessing.spawn(run, nprocs=2)
"""
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = record(code.replace("PORT", str(port)), "--no-check")
    assert done.returncode == 0 and traces() == BOTH_RANKS, done.stderr


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_loader_workers_are_not_recorded(context):
    code = LOOP + f"""
if __name__ == "__main__":
    train(18, num_workers=2, multiprocessing_context="{context}")
"""
    done = record(code, "--no-check")
    assert done.returncode == 0 and traces() == [TRACE], done.stderr


def test_forked_child_that_trains_starts_over():
    # Without a backward pass: its threads do not survive a fork.
    code = """
import os, sys
import torch
parameter = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.SGD([parameter], lr=0.1)
def train(step_count):
    for _ in range(step_count):
        parameter.grad = torch.ones(3)
        optimizer.step()
train(10)
if os.fork() == 0:
    train(15)
    sys.exit()
os.wait()
train(15)
"""
    done = record(code, "--steps", "20-22", "--no-check")
    assert "it made 15 steps" in done.stderr and traces() == [TRACE]


def test_step_of_two_optimizers_ends_with_the_second():
    code = LOOP + """
first, second = small_model(), small_model()
a, b = torch.optim.SGD(first.parameters(), lr=0.1), torch.optim.Adam(second.parameters())
for _ in range(12):
    first(torch.randn(4, 64)).sum().backward(); a.step(); a.zero_grad()
    second(torch.randn(4, 64)).sum().backward(); b.step(); b.zero_grad()
"""
    record(code, "--steps", "5-8", "--no-check")
    import trace_advisor as ta

    order = ta.open(f"run/{TRACE}").sql(
        "SELECT name FROM annotations WHERE name LIKE 'ProfilerStep#%' OR name LIKE 'Optimizer.step#%' ORDER BY ts_ns"
    )
    names = [name.partition("#")[2] for name in order.to_pandas()["name"]]
    assert names == [name for step in "5678" for name in (step, "SGD.step", "Adam.step")]


def test_accumulated_batches_are_one_step():
    code = LOOP + """
model = small_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in range(1, 41):
    model(torch.randn(4, 64)).sum().backward()
    if batch % 4 == 0:
        optimizer.step(); optimizer.zero_grad()
"""
    record(code, "--steps", "5-7", "--no-check")
    assert step_numbers(f"run/{TRACE}") == [5, 6, 7]


def test_program_that_ends_while_recording_leaves_what_it_has():
    done = record(LOOP + "train(12); raise SystemError('mine')", "--no-check")
    assert done.returncode == 1 and "SystemError: mine" in done.stderr
    assert step_numbers(f"run/{TRACE}")[:2] == [10, 11]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (LOOP + "train(9)", "no trace of rank 0: it made 9 steps, and the recording starts with step 10"),
        (LOOP + "small_model()(torch.randn(4, 64))", "no optimizer of PyTorch made a step"),
        ("print('no torch')", "no Python process imported PyTorch"),
    ],
)
def test_program_without_a_trace_says_why(code, reason):
    done = record(code + "\nraise SystemExit(5)")
    assert done.returncode == 5 and reason in done.stderr and traces() == []


def test_profiler_of_the_program_comes_first():
    code = LOOP + """
from torch.profiler import profile, schedule
model = small_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with profile(schedule=schedule(wait=0, warmup=1, active=2, repeat=1)) as profiler:
    for _ in range(20):
        model(torch.randn(4, 64)).sum().backward(); optimizer.step(); profiler.step()
print(len([e for e in profiler.events() if e.name.startswith("ProfilerStep")]))
"""
    for wait_count in (7, 12):  # It warms up when the recording starts, and starts during the recording.
        done = record(code.replace("wait=0", f"wait={wait_count}"))
        assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
        assert "the program uses torch.profiler itself" in done.stderr and traces() == []
    done = record(code, "--no-check")  # It is done when the recording starts.
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert step_numbers(f"run/{TRACE}") == list(range(10, 17))


def test_sitecustomize_and_path_of_the_user_stay():
    Path("mine").mkdir()
    Path("mine/sitecustomize.py").write_text("import builtins; builtins.mine = 'ran'")
    code = LOOP + "train(18); print(mine, sys.path, sys.modules['sitecustomize'].__file__)"
    done = record(code, "--no-check", first=os.path.abspath("mine"))
    alone = subprocess.run(
        [sys.executable, "program.py"], env=environment(first=os.path.abspath("mine")), capture_output=True, text=True
    )
    assert done.stdout == alone.stdout and done.stdout.startswith("ran"), done.stderr
    assert traces() == [TRACE]


def test_other_python_that_replaces_the_program_is_recorded():
    Path("inner.py").write_text(LOOP + "train(18)")
    done = record("import os, sys; os.execv(sys.executable, [sys.executable, 'inner.py'])", "--no-check")
    assert done.returncode == 0 and traces() == [TRACE], done.stderr


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 9), (signal.SIGTERM, 128 + signal.SIGTERM)])
def test_signals_reach_the_program(number, exit_code):
    code = """
import time
try:
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    raise SystemExit(9)
"""
    running = subprocess.Popen(command(code), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert running.stdout.readline() == b"ready\n"
    running.send_signal(number)
    assert running.wait(30) == exit_code
    running.stdout.close()


def test_memory_snapshot_is_taken_once(monkeypatch):
    """The observer of failed allocations, called as PyTorch does: there is no GPU here."""
    import importlib.util

    import torch
    import trace_advisor._recorder

    monkeypatch.setitem(sys.modules, "_advisor_recorder", trace_advisor._recorder)
    source = Path(__file__).parents[3] / "crates/cli/src/commands/record/training_loop.py"
    spec = importlib.util.spec_from_file_location("training_loop", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", lambda path: open(path, "x").close())
    loop = module.TrainingLoop({"folder": "run", "first_step": 1, "last_step": 2, "with_stack": False})
    for _ in range(2):
        loop.out_of_memory(0, 1, 2, 3)
    assert os.listdir("run") == [f"rank0_out_of_memory_{os.getpid()}.pickle"]


def test_program_starts_when_the_recorder_is_gone():
    """A daemon outlives `advisor record` and the folder of its Python files."""
    code = LOOP + """
import os, subprocess
subprocess.Popen([sys.executable, "daemon.py"], start_new_session=True)
"""
    Path("daemon.py").write_text(LOOP + "import time; time.sleep(2); train(18); open('trained', 'w').close()")
    record(code, "--no-check")
    deadline = time.monotonic() + 60
    while not os.path.exists("trained") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert os.path.exists("trained")
