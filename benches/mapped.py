"""What it costs to check a run from shards, compared with one process; and whether the reports are the same.

    python benches/mapped.py [--program target/release/advisor] [--ranks 16,64,256] [--layers 6] [--steps 6]

For each number of ranks: CPU time, wall time and peak memory of `check`, of all `map` processes one after another, and of
`check --from`; and the size of the mapped data per rank. Runs come from `advisor demo` and are removed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from processes import add_run_options, demo_run, run


def total_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def main() -> None:
    parser = argparse.ArgumentParser()
    add_run_options(parser, ranks="16,64,256")
    parser.add_argument("--ranks-per-shard", type=int, default=32)
    arguments = parser.parse_args()
    print("| ranks | traces | `check` | all of `map` | `check --from` | CPU, of `check` | mapped, per rank |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for ranks in map(int, arguments.ranks.split(",")):
        with demo_run(arguments, ranks) as demo:
            shards = max(2, ranks // arguments.ranks_per_shard)
            workers = [
                run([demo.program, "map", str(demo.traces), "--shard", f"{number}/{shards}", "--to", str(demo.mapped)])
                for number in range(1, shards + 1)
            ]
            one, put_together = demo.one, demo.check_mapped(f"{ranks} ranks")
            map_cpu_s = sum(worker.cpu_s for worker in workers)
            ratio = (map_cpu_s + put_together.cpu_s) / one.cpu_s
            print(
                f"| {ranks:,} | {total_bytes(demo.traces) / 1e6:.0f} MB | {one.cpu_s:.1f} s, {one.memory_mb:.0f} MB"
                f" | {map_cpu_s:.1f} s, {max(worker.memory_mb for worker in workers):.0f} MB"
                f" | {put_together.cpu_s:.1f} s, {put_together.memory_mb:.0f} MB | {ratio:.2f} times"
                f" | {total_bytes(demo.mapped) / ranks / 1e6:.2f} MB |",
                flush=True,
            )


if __name__ == "__main__":
    main()
