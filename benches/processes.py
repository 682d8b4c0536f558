"""Processes, what they cost, and demo runs that several ways of checking a run are compared on."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Cost:
    cpu_s: float
    wall_s: float
    memory_mb: float
    output: bytes


class Process:
    """A program that runs, and then what it cost."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.output = tempfile.TemporaryFile()
        self.started = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=self.output, stderr=subprocess.DEVNULL)

    def cost(self, ok: tuple[int, ...] = (0,)) -> Cost:
        _, status, usage = os.wait4(self.process.pid, 0)
        wall_s = time.perf_counter() - self.started
        self.process.returncode = os.waitstatus_to_exitcode(status)
        if self.process.returncode not in ok:
            raise SystemExit(f"{self.command} failed")
        self.output.seek(0)
        return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024, self.output.read())

    def send(self, number: int) -> None:
        # `Popen.send_signal` would take the cost of a process that has ended.
        os.kill(self.process.pid, number)

    def end(self) -> Cost:
        self.send(signal.SIGTERM)
        return self.cost((0, -signal.SIGKILL))


def run(command: list[str], ok: tuple[int, ...] = (0,)) -> Cost:
    """Runs a program, and returns what it cost."""
    return Process(command).cost(ok)


def add_run_options(parser: argparse.ArgumentParser, ranks: str) -> None:
    """Adds the options that `demo_run` reads, and `--ranks` with this default."""
    parser.add_argument("--program", default="target/release/advisor")
    parser.add_argument("--ranks", default=ranks)
    parser.add_argument("--layers", default="6")
    parser.add_argument("--steps", default="6")
    parser.add_argument("--bottleneck", default="straggler")


@dataclass
class DemoRun:
    """A run of `advisor demo`, and its check in one process."""

    program: str
    traces: Path
    # Removed with the run; does not exist yet.
    mapped: Path
    one: Cost

    def check_mapped(self, what: str) -> Cost:
        """Checks the run from `mapped`. Ends the program if the report is not that of one process."""
        put_together = check(self.program, self.traces, "--from", str(self.mapped))
        if put_together.output != self.one.output:
            raise SystemExit(f"{what}: the reports differ")
        return put_together


def check(program: str, traces: Path, *more: str) -> Cost:
    return run([program, "check", str(traces), "--no-cache", "--format", "json", *more], (0, 1))


@contextmanager
def demo_run(arguments: argparse.Namespace, ranks: int) -> Iterator[DemoRun]:
    """A run of this many ranks, which is removed at the end."""
    program = str(Path(arguments.program).resolve())
    with tempfile.TemporaryDirectory() as folder:
        traces = Path(folder, "run")
        options = ["--ranks", str(ranks), "--layers", arguments.layers, "--steps", arguments.steps]
        run([program, "demo", "-o", str(traces), "--bottleneck", arguments.bottleneck, *options])
        yield DemoRun(program, traces, Path(folder, "mapped"), check(program, traces))
