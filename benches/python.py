"""What the Python package costs beside the bare interpreter and the plain program.

    python benches/python.py [RUN] [--program target/release/advisor]

Prints the median of 15 starts each: the interpreter, `import trace_advisor`, `advisor --help` from the wheel and from the
plain program. Then hands 10 million rows to polars and prints the memory that this adds.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

STARTS = 15
ROWS = 10_000_000
SCRIPTS = Path(sys.executable).parent


def median_ms(command: list[str]) -> float:
    """Median wall time of a program in milliseconds."""
    times = []
    for _ in range(STARTS):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e3


def peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", nargs="?", default="examples/run")
    parser.add_argument("--program", help="the plain program, to compare with")
    arguments = parser.parse_args()
    bare = median_ms([sys.executable, "-c", "pass"])
    imported = median_ms([sys.executable, "-c", "import trace_advisor"])
    print(f"interpreter               {bare:7.1f} ms")
    print(f"import trace_advisor      {imported - bare:7.1f} ms more")
    print(f"advisor --help (wheel)    {median_ms([str(SCRIPTS / 'advisor'), '--help']):7.1f} ms")
    if arguments.program:
        print(f"advisor --help (plain)    {median_ms([arguments.program, '--help']):7.1f} ms")

    import polars

    import trace_advisor

    run = trace_advisor.open(arguments.run, cache=False)
    rows = run.sql(f"SELECT value, value * 2 AS twice FROM generate_series(1, {ROWS})")
    before = peak_bytes()
    started = time.perf_counter()
    frame = polars.DataFrame(rows)
    elapsed = time.perf_counter() - started
    print(f"{frame.height:,} rows, {rows.nbytes / 2**20:.0f} MiB, to polars: {elapsed * 1e3:.1f} ms, ", end="")
    print(f"{(peak_bytes() - before) / 2**20:.1f} MiB more at the peak")


if __name__ == "__main__":
    main()
