"""The program: `advisor`, `trace-advisor` and `python -m trace_advisor`."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Runs the program with the arguments of the process, and returns its exit code."""
    from trace_advisor._native import main as run

    # As in the plain program, Ctrl-C ends it at once, not when the interpreter runs again.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return run(["advisor", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
