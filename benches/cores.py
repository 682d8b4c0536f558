"""How `check` gets faster with more cores: the median time of each part, on 1, 2, 4, ... cores of this machine.

    python benches/cores.py [--program target/release/advisor] [--repetitions 5] [RUN...]

Without RUN, runs of `advisor demo` are checked, and removed: one rank of 55 MB and of 457 MB, 64 ranks as gzip, and 256
short ranks. On each number of cores, reports are compared with that of one core. Linux only.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

DEMO_RUNS = {
    "55 MB": "--bottleneck none --ranks 1 --layers 8 --steps 72 --json",
    "457 MB": "--bottleneck none --ranks 1 --layers 32 --steps 155 --json",
    "64 ranks": "--bottleneck straggler --ranks 64 --layers 6 --steps 6",
    "256 short ranks": "--bottleneck straggler --ranks 256 --layers 2 --steps 6",
}
PARTS = ["read", "session", "views", "rules", "re-timing", "evidence"]
UNITS_S = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6}


def check(program: str, run: str, cores: list[int]) -> tuple[bytes, dict[str, float]]:
    """The report, and the seconds that its parts and the whole process take."""
    command = [program, "check", run, "--no-cache", "--timings", "--format", "json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
    seconds = {"process": time.perf_counter() - start}
    if done.returncode > 1:
        raise SystemExit(done.stderr.decode())
    for line in done.stderr.decode().splitlines():
        part = re.match(r"(\S+) +([\d.,]+) (s|ms|µs|us)$", line)
        if part and part[1] in PARTS:
            seconds[part[1]] = float(part[2].replace(",", "")) * UNITS_S[part[3]]
    return done.stdout, seconds


def measure(program: str, name: str, run: str, repetitions: int) -> None:
    available = sorted(os.sched_getaffinity(0))
    counts = [2**power for power in range(len(available).bit_length()) if 2**power <= len(available)]
    times: dict[int, list[dict[str, float]]] = {count: [] for count in counts}
    report, _ = check(program, run, available)
    for _ in range(repetitions):
        for count in counts:
            same, seconds = check(program, run, available[:count])
            if same != report:
                raise SystemExit(f"{name}: the report of {count} cores differs")
            times[count].append(seconds)
    print(f"\n{name:16}" + "".join(f"{count:>4} cores{'':8}" for count in counts))
    for part in ["process", *PARTS]:
        medians = {count: statistics.median(of.get(part, 0.0) for of in times[count]) for count in counts}
        ratios = {count: medians[1] / median if median else 1.0 for count, median in medians.items()}
        print(f"  {part:14}" + "".join(f"{medians[count]:8.3f} s {ratios[count]:5.2f} x " for count in counts), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="target/release/advisor")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("runs", nargs="*")
    arguments = parser.parse_args()
    program = str(Path(arguments.program).resolve())
    for run in arguments.runs:
        measure(program, run, run, arguments.repetitions)
    for name, options in {} if arguments.runs else DEMO_RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            run = str(Path(folder, "run"))
            subprocess.run([program, "demo", "-o", run, *options.split()], check=True, capture_output=True)
            measure(program, name, run, arguments.repetitions)


if __name__ == "__main__":
    main()
