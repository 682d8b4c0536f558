"""The code that the documentation shows, and a notebook."""

import re
import shutil
from pathlib import Path

import nbclient
import nbformat
import pytest

from conftest import ROOT

PAGES = ["README.md", "docs/python.md"]


def blocks() -> list[tuple[str, str]]:
    """The blocks of Python that use the package, by page."""
    found = []
    for page in PAGES:
        for code in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL):
            if "import trace_advisor" in code:
                found.append((page, code))
    return found


def test_every_page_has_code() -> None:
    assert {page for page, _ in blocks()} == set(PAGES)


@pytest.mark.parametrize(("page", "code"), blocks())
def test_code_of_the_documentation_runs(
    page: str, code: str, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(sample, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {})


def test_notebook(sample: Path, tmp_path: Path) -> None:
    cells = [
        "import trace_advisor as ta\nrun = ta.open('run/')\nrun",
        "run.check()",
        "run.sql('SELECT name, call_count, sum_ns FROM gpu_kernels LIMIT 3')",
        "run.check().findings[0]",
        "ta.diff(run, run)",
    ]
    shutil.copytree(sample, tmp_path / "run")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, resources={"metadata": {"path": tmp_path}}).execute()
    shown = [cell.outputs[0]["data"]["text/html"] for cell in notebook.cells]
    assert "kernels" in shown[0] and "<table>" in shown[2]
    assert all(html.startswith("<iframe ") for html in (shown[1], shown[4]))
    assert "IN001" in shown[1] and "IN001" in shown[3]
