"""Perfetto: a trace loaded into its UI, in a headless browser, and nothing asked of it.

    $ADVISOR_PERFETTO perfetto_load.py TRACE

Prints as JSON the seconds from opening the page, the browser having started, and the peak memory of the browser's
largest process, which is the one that holds the trace. `.ci/perfetto` installs what it needs.
"""

import json
import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tests" / "integration" / "perfetto"))

import query  # noqa: E402


def status(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def largest_bytes(root):
    """Peak memory of the largest process below `root`."""
    processes = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                processes[int(entry)] = status(entry)
            except OSError:  # it has ended
                continue
    family, below = [], [root]
    while below:
        family += below
        below = [pid for pid, is_in in processes.items() if int(is_in["PPid"]) in below]
    sizes = (processes[pid].get("VmHWM", "0 kB") for pid in family if pid in processes)
    return max(int(size.split()[0]) for size in sizes) * 1024


base = query.serve(os.path.abspath(sys.argv[1]))
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
    browser = query.Browser(profile)
    try:
        start = time.monotonic()
        browser.call("Page.navigate", url=f"{base}/index.html#!/?url={base}/trace")
        while not browser.evaluate("Boolean(window.app && window.app.trace)"):
            time.sleep(0.02)
        seconds = time.monotonic() - start
        answer = {"seconds": seconds, "peak_bytes": largest_bytes(browser.process.pid)}
    finally:
        browser.close()
json.dump(answer, sys.stdout)
