"""The documents' examples and the notebooks run."""

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import pytest
from conftest import TOP
from nbclient import NotebookClient

mpl.use("Agg")


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


NOTEBOOKS = sorted((TOP / "python/notebooks").glob("*.ipynb"))


def test_there_are_three_notebooks_without_outputs() -> None:
    assert len(NOTEBOOKS) == 3
    for path in NOTEBOOKS:
        cells = read(path).cells
        assert not any(cell.get("outputs") for cell in cells), path


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path) -> None:
    notebook = read(path)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=200, resources=resources).execute()
    shown = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    kinds = {kind for out in shown for kind in out.get("data", {})}
    assert {"text/html", "image/png"} <= kinds


@pytest.mark.parametrize("name", ["docs/python.md"])
def test_the_examples_of_a_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (TOP / name).read_text(), re.M | re.S)
    assert blocks
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, name, "exec"), space)


def test_doctests() -> None:
    import doctest

    import destage
    import destage.testing

    for module in (destage, destage.testing):
        assert doctest.testmod(module).failed == 0
