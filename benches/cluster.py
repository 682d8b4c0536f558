"""What it costs to map a run on a cluster of Ballista, compared with one process; and whether the reports are the same.

    python benches/cluster.py [--program target/release/advisor] [--cluster target/release/advisor-cluster]
        [--ranks 16,64,1024] [--executors 1,2,4] [--layers 6] [--steps 6] [--kill]

For each number of ranks and of executors: wall time of `advisor-cluster map`; CPU time of scheduler, executors and client,
and peak memory of an executor; CPU time of `check --from`; and all of it as a multiple of the CPU time of `check`. All processes
share this machine. With `--kill`, a fifth of the executors, at least one, is killed at random moments of the job. Runs come from
`advisor demo` and are removed.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

from processes import Cost, Process, add_run_options, demo_run, run


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


def map_on_cluster(
    program: str, traces: Path, mapped: Path, executors: int, kills_until_s: float | None
) -> tuple[Cost, list[Cost]]:
    """Maps a run on a new cluster. Returns the costs of the client, and those of the scheduler and the executors.

    With `kills_until_s`, a fifth of the executors is killed before that time.
    """
    address = f"127.0.0.1:{free_port()}"
    services = [Process([program, "scheduler", "--bind", address])]
    executor = [program, "executor", "--scheduler", address, "--bind", "127.0.0.1"]
    services += [Process(executor) for _ in range(executors)]
    # The executors are there: what is measured is work.
    time.sleep(2)
    if kills_until_s is not None:
        for victim in random.sample(services[1:], max(1, executors // 5)):
            timer = threading.Timer(random.uniform(0, kills_until_s), victim.send, [signal.SIGKILL])
            timer.daemon = True
            timer.start()
    client = run([program, "map", str(traces), "--to", str(mapped), "--scheduler", f"df://{address}"])
    return client, [service.end() for service in reversed(services)]


def main() -> None:
    parser = argparse.ArgumentParser()
    add_run_options(parser, ranks="16,64,1024")
    parser.add_argument("--cluster", default="target/release/advisor-cluster")
    parser.add_argument("--executors", default="1,2,4")
    parser.add_argument("--kill", action="store_true")
    arguments = parser.parse_args()
    cluster = str(Path(arguments.cluster).resolve())
    print("| ranks | executors | `check` | `map`, wall | `map`, CPU, memory of an executor | `check --from` | CPU, of `check` |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for ranks in map(int, arguments.ranks.split(",")):
        with demo_run(arguments, ranks) as demo:
            one = demo.one
            for executors in map(int, arguments.executors.split(",")):
                # All of the work takes longer than that of one process.
                kills_until_s = one.wall_s / executors if arguments.kill else None
                client, services = map_on_cluster(cluster, demo.traces, demo.mapped, executors, kills_until_s)
                put_together = demo.check_mapped(f"{ranks} ranks, {executors} executors")
                shutil.rmtree(demo.mapped)
                map_cpu_s = client.cpu_s + sum(service.cpu_s for service in services)
                memory_mb = max(service.memory_mb for service in services)
                ratio = (map_cpu_s + put_together.cpu_s) / one.cpu_s
                print(
                    f"| {ranks:,} | {executors} | {one.cpu_s:.1f} s | {client.wall_s:.1f} s"
                    f" | {map_cpu_s:.1f} s, {memory_mb:.0f} MB | {put_together.cpu_s:.1f} s | {ratio:.2f} times |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
