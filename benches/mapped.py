"""What it costs to check a run from shards, compared with one process; and whether the reports are the same.

    python benches/mapped.py [--program target/release/advisor] [--ranks 16,64,256] [--layers 6] [--steps 6]
        [--bottleneck straggler] [--predict 10000,100000] [--workers 16,128] [--core-hour 0.0446]

For each number of ranks: CPU time, wall time and peak memory of `check`, of all `map` processes one after another, and of
`check --from`; and the size of the mapped data per rank. Runs come from `advisor demo` and are removed.

With `--predict`, a model of these costs says what larger runs cost, and what it says of the largest measured run, which it
does not know, is printed beside what was measured.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from processes import Cost, DemoRun, add_run_options, demo_run, run

# Cores of a worker.
WORKER_CORES = 4
# List prices of object stores, in US dollars (AWS S3 Standard, us-east-1): 1,000 requests that read, 1,000 that write.
READS_PRICE, WRITES_PRICE = 0.0004, 0.005
# Traces of a group, and its files: tables, rows of views, and the manifest.
GROUP_RANKS, GROUP_FILES = 256, 95


def total_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


@dataclass
class Measured:
    """The costs of a run."""

    ranks: int
    shards: int
    trace_bytes: int
    mapped_bytes: int
    one: Cost
    workers: list[Cost]
    # A worker with a shard of one rank.
    short_worker: Cost
    put_together: Cost

    @classmethod
    def of(cls, demo: DemoRun, ranks: int, ranks_per_shard: int) -> Measured:
        shards = max(2, ranks // ranks_per_shard)

        def worker(shard: str, to: Path) -> Cost:
            return run([demo.program, "map", str(demo.traces), "--shard", shard, "--to", str(to)])

        workers = [worker(f"{number}/{shards}", demo.mapped) for number in range(1, shards + 1)]
        short_worker = worker(f"1/{ranks}", demo.mapped.with_name("short"))
        trace_bytes, mapped_bytes = total_bytes(demo.traces), total_bytes(demo.mapped)
        put_together = demo.check_mapped(f"{ranks} ranks")
        return cls(ranks, shards, trace_bytes, mapped_bytes, demo.one, workers, short_worker, put_together)

    @property
    def map_cpu_s(self) -> float:
        return sum(worker.cpu_s for worker in self.workers)

    def row(self) -> str:
        one, put_together = self.one, self.put_together
        return (
            f"| {self.ranks:,} | {self.trace_bytes / 1e6:.0f} MB | {one.cpu_s:.1f} s, {one.memory_mb:.0f} MB"
            f" | {self.map_cpu_s:.1f} s, {max(worker.memory_mb for worker in self.workers):.0f} MB"
            f" | {put_together.cpu_s:.1f} s, {put_together.memory_mb:.0f} MB"
            f" | {(self.map_cpu_s + put_together.cpu_s) / one.cpu_s:.2f} times"
            f" | {self.mapped_bytes / self.ranks / 1e6:.2f} MB |"
        )


@dataclass
class Line:
    """A cost that grows with the number of ranks."""

    fixed: float
    per_rank: float

    @classmethod
    def through(cls, small: tuple[int, float], large: tuple[int, float]) -> Line:
        per_rank = (large[1] - small[1]) / (large[0] - small[0])
        return cls(small[1] - per_rank * small[0], per_rank)

    def at(self, ranks: float) -> float:
        return self.fixed + self.per_rank * ranks


@dataclass
class Model:
    """The costs of runs with traces like those that were measured: lines through two of them."""

    worker_cpu_s: Line
    reduce_cpu_s: Line
    reduce_wall_s: Line
    reduce_memory_mb: Line
    trace_bytes: float
    mapped_bytes: float

    @classmethod
    def of(cls, small: Measured, large: Measured) -> Model:
        def line(cost: str) -> Line:
            return Line.through(
                (small.ranks, getattr(small.put_together, cost)), (large.ranks, getattr(large.put_together, cost))
            )

        shard_ranks = large.ranks / large.shards
        worker = Line.through((1, large.short_worker.cpu_s), (round(shard_ranks), large.map_cpu_s / large.shards))
        return cls(
            worker,
            line("cpu_s"),
            line("wall_s"),
            line("memory_mb"),
            large.trace_bytes / large.ranks,
            large.mapped_bytes / large.ranks,
        )

    def cpu_s(self, ranks: int, workers: int) -> float:
        return self.worker_cpu_s.at(ranks / workers) * workers + self.reduce_cpu_s.at(ranks)

    def row(self, ranks: int, workers: int, core_hour: float) -> str:
        cpu_s = self.cpu_s(ranks, workers)
        map_wall_s = self.worker_cpu_s.at(ranks / workers) / WORKER_CORES
        groups = max(workers, ranks / GROUP_RANKS)
        # The first bytes of all files are read by workers and by the last process, and all of what is mapped once.
        reads = 3 * ranks + groups * GROUP_FILES
        requests = (reads * READS_PRICE + groups * GROUP_FILES * WRITES_PRICE) / 1000
        return (
            f"| {ranks:,} | {workers:,} | {self.trace_bytes * ranks / 1e9:.1f} GB"
            f" | {self.mapped_bytes * ranks / 1e9:.1f} GB | {cpu_s:,.0f} s"
            f" | {map_wall_s:,.0f} s, then {self.reduce_wall_s.at(ranks):,.0f} s"
            f" | {self.reduce_memory_mb.at(ranks) / 1e3:.1f} GB"
            f" | ${cpu_s / 3600 * core_hour:.2f}, requests ${requests:.2f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    add_run_options(parser, ranks="16,64,256")
    parser.add_argument("--ranks-per-shard", type=int, default=128)
    parser.add_argument("--predict", default="", help="numbers of ranks; needs three or more of --ranks")
    parser.add_argument("--workers", default="16,128", help=f"of {WORKER_CORES} cores each")
    parser.add_argument("--core-hour", type=float, default=0.0446, help="dollars (AWS c7i, us-east-1, on demand)")
    arguments = parser.parse_args()
    print("| ranks | traces | `check` | all of `map` | `check --from` | CPU, of `check` | mapped, per rank |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    measured = []
    for ranks in map(int, arguments.ranks.split(",")):
        with demo_run(arguments, ranks) as demo:
            measured.append(Measured.of(demo, ranks, arguments.ranks_per_shard))
        print(measured[-1].row(), flush=True)
    if not arguments.predict:
        return
    *known, largest = measured
    model = Model.of(known[0], known[-1])
    measured_s = largest.map_cpu_s + largest.put_together.cpu_s
    print(
        f"\n{largest.ranks:,} ranks, {largest.shards} workers, from smaller runs:"
        f" predicted {model.cpu_s(largest.ranks, largest.shards):.1f} s of CPU time"
        f" and {model.reduce_memory_mb.at(largest.ranks):.0f} MB to put it together;"
        f" measured {measured_s:.1f} s and {largest.put_together.memory_mb:.0f} MB\n"
    )
    model = Model.of(measured[0], largest)
    print("| ranks | workers | traces | mapped | CPU time | wall time | memory of `check --from` | price |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for ranks in map(int, arguments.predict.split(",")):
        for workers in map(int, arguments.workers.split(",")):
            print(model.row(ranks, workers, arguments.core_hour))


if __name__ == "__main__":
    main()
