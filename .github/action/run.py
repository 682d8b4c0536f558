#!/usr/bin/env python3
"""Runs `advisor` for the GitHub Action: annotations go to the log, reports into a folder.

The inputs of the action are environment variables. The exit code of `advisor` becomes the output `status`; a later step of
the action decides about the job, after the reports are uploaded.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

REPORTS = {
    "check": {"markdown": "report.md", "html": "report.html", "json": "report.json", "sarif": "advisor.sarif"},
    "diff": {"markdown": "diff.md", "html": "diff.html", "json": "diff.json"},
}
# GitHub refuses larger summaries.
SUMMARY_LIMIT_BYTES = 1 << 20


def command(inputs):
    """The command without a format, and the runs."""
    mode = inputs["MODE"]
    if mode not in REPORTS:
        sys.exit(f"::error::`mode` is `check` or `diff`, not `{mode}`")
    if (mode == "diff") != bool(inputs["BEFORE"]):
        sys.exit("::error::`diff` needs `before`, the run to compare with; `check` has no such input")
    if inputs["BASELINE"] and mode == "diff":
        sys.exit("::error::`baseline` is an input of `check` only; `diff` compares with `before`")
    words = [inputs["PROGRAM"], mode, "--fail-on", inputs["FAIL_ON"]]
    for option in ("RULES", "BASELINE"):
        if inputs[option]:
            words += [f"--{option.lower()}", inputs[option]]
    runs = [inputs["BEFORE"], inputs["RUN"]] if mode == "diff" else [inputs["RUN"]]
    return words + shlex.split(inputs["ARGUMENTS"]), runs


def write_reports(words, runs, folder, files, errors):
    """Writes each report; those that could be written, by format. They come from the cache, which annotations filled."""
    written = {}
    for report_format, file in files.items():
        path = folder / file
        options = ["--format", report_format, "--output", str(path), "--quiet"]
        subprocess.run([*words, *options, "--", *runs], stdout=subprocess.DEVNULL, stderr=errors, check=False)
        if path.is_file():
            written[report_format] = path
    return written


def add_summary(markdown):
    if (summary := os.environ.get("GITHUB_STEP_SUMMARY")) and markdown.stat().st_size < SUMMARY_LIMIT_BYTES:
        with open(summary, "a", encoding="utf-8") as file:
            file.write(markdown.read_text(encoding="utf-8"))


def main():
    words, runs = command(os.environ)
    os.environ.setdefault("ADVISOR_NO_PROGRESS", "true")
    status = subprocess.run([*words, "--format", "github", "--", *runs], check=False).returncode
    folder = Path(tempfile.mkdtemp(prefix="advisor-report-", dir=os.environ["RUNNER_TEMP"]))
    # An error that the first command printed is printed once.
    errors = subprocess.DEVNULL if status == 2 else None
    written = write_reports(words, runs, folder, REPORTS[os.environ["MODE"]], errors)
    if "markdown" in written:
        add_summary(written["markdown"])
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as outputs:
        for name, value in {"status": status, "folder": folder, **written}.items():
            print(f"{name}={value}", file=outputs)


main()
