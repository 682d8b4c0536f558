"""Measures how instructions and cache misses of views grow with the number of events. If time grows faster than instructions,
memory access is the cause.

    python benches/instructions.py [--program target/release/advisor] [--steps 12,48,192] [--native] [VIEW...]

Runs of `advisor demo` are exported to Parquet and counted by `valgrind --tool=cachegrind`, whose instruction counts do not
depend on the machine; its last-level cache is that of the machine. Each view is computed alone, with all that it reads. The
counts of a run of two steps are subtracted. With `--native`, views run without valgrind, and their time and page faults are
measured, the best of three: for larger runs. Linux only.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

VIEWS = ["critical_path", "critical_edges", "hta_critical_path", "op_calls", "module_calls", "roofline_calls", "op_device_time"]
COUNTER_LABELS = {"instructions": "I +refs", "last-level misses": "LL misses"}
REPETITIONS = 3


def export(program: str, folder: Path, steps: int) -> tuple[Path, int]:
    """A run with so many steps as Parquet, and its number of events."""
    run, exported = folder / f"run-{steps}", folder / f"export-{steps}"
    demo = f"demo --bottleneck none --ranks 1 --layers 8 --json --steps {steps} -o"
    subprocess.run([program, *demo.split(), run], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([program, "export", run, "-o", exported], check=True, capture_output=True)
    shutil.rmtree(run)
    query = [program, "sql", exported, "SELECT count(*) FROM events", "--format", "csv"]
    rows = subprocess.run(query, check=True, capture_output=True, text=True).stdout.split()
    return exported, int(rows[-1])


def count(program: str, run: Path, view: str) -> dict[str, int]:
    """Instructions and cache misses of all rows of a view."""
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]
    query = [program, "sql", run, f"SELECT count(*) FROM {view}", "--no-cache"]
    text = subprocess.run([*tool, *query], check=True, capture_output=True, text=True).stderr
    found = {name: re.search(rf"{label}: +([\d,]+)", text) for name, label in COUNTER_LABELS.items()}
    if not all(found.values()):
        raise SystemExit(f"valgrind counts nothing:\n{text}")
    return {name: int(match[1].replace(",", "")) for name, match in found.items() if match}


def measure(program: str, run: Path, view: str) -> dict[str, int]:
    """Time and page faults of all rows of a view."""
    query = [program, "sql", run, f"SELECT count(*) FROM {view}", "--no-cache"]
    measured = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        process = subprocess.Popen(query, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{view} fails")
        cpu_s, wall_s = usage.ru_utime + usage.ru_stime, time.perf_counter() - start
        measured.append({"CPU us": int(cpu_s * 1e6), "wall us": int(wall_s * 1e6), "page faults": usage.ru_minflt})
    return {name: min(one[name] for one in measured) for name in measured[0]}


def exponent(sizes: list[int], values: list[int]) -> float:
    """Slope in a log-log plot, by least squares."""
    x, y = [math.log(size) for size in sizes], [math.log(max(value, 1)) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / sum((a - mean_x) ** 2 for a in x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("views", nargs="*", metavar="VIEW")
    parser.add_argument("--program", default="target/release/advisor")
    parser.add_argument("--steps", default="12,48,192")
    parser.add_argument("--native", action="store_true", help="measure time and page faults")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        steps = [2, *(int(number) for number in options.steps.split(","))]
        if min(steps[1:]) <= 2:
            parser.error("--steps: at least 3 each")
        runs = [export(options.program, Path(folder), number) for number in steps]
        sizes = [events for _, events in runs]
        print("| | | " + " | ".join(f"{events:,} events" for events in sizes[1:]) + " | exponent |")
        print("|---|---|" + "--:|" * len(sizes))
        for view in options.views or VIEWS:
            of_view = measure if options.native else count
            fixed, *counts = (of_view(options.program, run, view) for run, _ in runs)
            for name in fixed:
                values = [of_run[name] - fixed[name] for of_run in counts]
                # The counts of the smallest run are subtracted, and so are its events.
                slope = exponent([size - sizes[0] for size in sizes[1:]], values)
                cells = " | ".join(f"{value:,}" for value in values)
                print(f"| `{view}` | {name} | {cells} | {slope:.2f} |", flush=True)


if __name__ == "__main__":
    main()
