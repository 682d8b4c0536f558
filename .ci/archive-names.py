#!/usr/bin/env python3
"""Packs a stand-in program for each target of the release workflow, and checks that `cargo binstall` would find it.

The templates are those of `crates/cli/Cargo.toml`. What `.ci/archive` packs is unpacked again.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from shutil import unpack_archive

ROOT = Path(__file__).resolve().parent.parent


def toml(path):
    return tomllib.loads((ROOT / path).read_text())


def filled(template, values):
    return re.sub(r"\{ ([\w-]+) \}", lambda found: values[found[1]], template)


def check(target, workspace, binstall, folder):
    """What is wrong with the archive of a target."""
    values = {"repo": workspace["repository"], "version": workspace["version"], "target": target, "bin": "advisor"}
    values["binary-ext"] = ".exe" if "windows" in target else ""
    templates = binstall | binstall["overrides"].get(target, {})
    # `.ci/dist` prints the path without the suffix of Windows.
    program = folder / "program"
    program.with_suffix(values["binary-ext"]).write_text(target)
    command = [ROOT / ".ci/archive", program, target, folder / "archives"]
    archive = Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())
    url = filled(templates["pkg-url"], values)
    release = f"{workspace['repository']}/releases/download/v{workspace['version']}/"
    if url != release + archive.name:
        return f"{target}: `.ci/archive` writes {archive.name}, but `cargo binstall` asks for {url}"
    unpacked = folder / target
    unpack_archive(archive, unpacked, {"tgz": "gztar", "zip": "zip"}[templates["pkg-fmt"]])
    place = filled(templates["bin-dir"], values)
    if not (unpacked / place).is_file() or (unpacked / place).read_text() != target:
        return f"{target}: {archive.name} has no {place}"
    return None


def main():
    workspace = toml("Cargo.toml")["workspace"]["package"]
    binstall = toml("crates/cli/Cargo.toml")["package"]["metadata"]["binstall"]
    targets = set(re.findall(r"\btarget: ([\w-]+)", (ROOT / ".github/workflows/release.yml").read_text()))
    if len(targets) < 5:
        sys.exit(f"the release workflow names {len(targets)} targets")
    with tempfile.TemporaryDirectory() as folder:
        problems = [check(target, workspace, binstall, Path(folder)) for target in sorted(targets)]
    if problems := [problem for problem in problems if problem]:
        sys.exit("\n".join(problems))
    print(f"names of archives: {len(targets)} targets")


main()
