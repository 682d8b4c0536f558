"""What it costs to check a run from shards, compared with one process; and whether the reports are the same.

    python benches/mapped.py [--program target/release/advisor] [--ranks 16,64,256] [--layers 6] [--steps 6]

For each number of ranks: CPU time, wall time and peak memory of `check`, of all `map` processes one after another, and of
`check --from`; and the size of the mapped data per rank. Runs come from `advisor demo` and are removed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Cost:
    cpu_s: float
    wall_s: float
    memory_mb: float
    output: bytes


def run(command: list[str], ok: tuple[int, ...] = (0,)) -> Cost:
    """Runs a program, and returns what it cost."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        if os.waitstatus_to_exitcode(status) not in ok:
            raise SystemExit(f"{command} failed")
        output.seek(0)
        return Cost(usage.ru_utime + usage.ru_stime, wall_s, usage.ru_maxrss / 1024, output.read())


def total_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", default="target/release/advisor")
    parser.add_argument("--ranks", default="16,64,256")
    parser.add_argument("--layers", default="6")
    parser.add_argument("--steps", default="6")
    parser.add_argument("--ranks-per-shard", type=int, default=32)
    arguments = parser.parse_args()
    program = str(Path(arguments.program).resolve())
    print("| ranks | traces | `check` | all of `map` | `check --from` | CPU, of `check` | mapped, per rank |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for ranks in map(int, arguments.ranks.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            traces, mapped = Path(folder, "run"), Path(folder, "mapped")
            options = ["--ranks", str(ranks), "--layers", arguments.layers, "--steps", arguments.steps]
            run([program, "demo", "-o", str(traces), "--bottleneck", "straggler", *options])
            check = [program, "check", str(traces), "--no-cache", "--format", "json"]
            one = run(check, (0, 1))
            shards = max(2, ranks // arguments.ranks_per_shard)
            workers = [
                run([program, "map", str(traces), "--shard", f"{number}/{shards}", "--to", str(mapped)])
                for number in range(1, shards + 1)
            ]
            put_together = run([*check, "--from", str(mapped)], (0, 1))
            if put_together.output != one.output:
                raise SystemExit(f"{ranks} ranks: the reports differ")
            map_cpu_s = sum(worker.cpu_s for worker in workers)
            ratio = (map_cpu_s + put_together.cpu_s) / one.cpu_s
            print(
                f"| {ranks:,} | {total_bytes(traces) / 1e6:.0f} MB | {one.cpu_s:.1f} s, {one.memory_mb:.0f} MB"
                f" | {map_cpu_s:.1f} s, {max(worker.memory_mb for worker in workers):.0f} MB"
                f" | {put_together.cpu_s:.1f} s, {put_together.memory_mb:.0f} MB | {ratio:.2f} times"
                f" | {total_bytes(mapped) / ranks / 1e6:.2f} MB |",
                flush=True,
            )
            shutil.rmtree(mapped)


if __name__ == "__main__":
    main()
