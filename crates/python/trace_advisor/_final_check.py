"""The check of a run at the end of its recording, inside of the program that recorded it."""

import sys
import time

from trace_advisor._recorder import warn

POLL_S = 0.05


class FinalCheck:
    """Checks the traces of all ranks, and prints the report on stderr of rank 0. Nothing here raises."""

    def __init__(self, is_enabled=True, timeout_s=60.0, on_report=None, **check_options):
        self.is_enabled = is_enabled
        self.timeout_s = timeout_s
        self.on_report = on_report
        self.check_options = check_options
        self.report = None
        self._count = 0

    def run(self, folder, cycle=None):
        """Checks what the ranks wrote into a `TraceFolder`, the last cycle by default. Only rank 0 waits, for
        `timeout_s` at most."""
        if not self.is_enabled:
            return
        try:
            self._count += 1
            missing = _missing_ranks(folder, self._count, self.timeout_s)
            if folder.rank == 0:
                self._print_report(folder, cycle, missing)
        except Exception as error:
            warn(f"{folder.path} could not be checked: {error}")

    def _print_report(self, folder, cycle, missing):
        import trace_advisor

        if missing:
            ranks = ", ".join(map(str, missing))
            warn(f"no trace from rank {ranks} within {self.timeout_s:g} s; the report is about the others")
        self.report = trace_advisor.open(folder.path, cycle=cycle).check(**self.check_options)
        text = self.report.text(color=sys.stderr.isatty())
        sys.stderr.write(f"{text.rstrip()}\n")
        sys.stderr.flush()
        if self.on_report is not None:
            self.on_report(self.report)


def _missing_ranks(folder, count, timeout_s):
    """Tells the other ranks that this one has written its traces. On rank 0, waits for theirs.

    A key of the store of the process group, not a collective: training continues on the other ranks, and its
    collectives keep their order.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return []
    store = distributed.distributed_c10d._get_default_store()

    def key(rank):
        return f"trace_advisor/check/{count}/{rank}"

    store.set(key(folder.rank), folder.path)
    if folder.rank != 0:
        return []
    others = range(1, distributed.get_world_size())
    deadline_s = time.monotonic() + timeout_s
    # `store.wait` with a timeout prints warnings of its own.
    while others and not store.check([key(rank) for rank in others]):
        if time.monotonic() >= deadline_s:
            return [rank for rank in others if not store.check([key(rank)])]
        time.sleep(POLL_S)
    return []
