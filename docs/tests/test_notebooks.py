"""The Python of the documents runs in a notebook: each block a cell, in Jupyter's kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from blocks import ROOT, Block, blocks, environment
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


def cells_of(document: Path) -> list[Block]:
    return [block for block in blocks(document) if block.language == "python" and block.is_run and block.file is None]


def run_notebook(document: Path, folder: Path) -> Any:
    """Run a document's cells in a folder that has its files. Raise CellExecutionError if a cell raises."""
    for block in blocks(document):
        if block.file is not None and block.is_run:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(block.text) for block in cells_of(document)])
    client = NotebookClient(notebook, timeout=250, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    return client.execute(env={**environment(), "IPYTHONDIR": str(folder / ".ipython")})


def shown(notebook: Any) -> list[dict[str, str]]:
    """What each cell shows, by kind; what it prints is "text"."""
    cells = []
    for cell in notebook.cells:
        texts = {"text": "".join(output.text for output in cell.outputs if output.output_type == "stream")}
        for output in cell.outputs:
            texts |= output.get("data", {})
        cells.append(texts)
    return cells


@pytest.mark.slow
def test_the_readmes_example_runs_in_a_notebook(tmp_path: Path) -> None:
    (cell,) = shown(run_notebook(ROOT / "README.md", tmp_path))
    assert "net.py:13" in cell["text/html"]
    assert "<table" in cell["text/html"]


@pytest.mark.slow
@pytest.mark.proof
def test_the_tutorial_runs_in_a_notebook(tmp_path: Path) -> None:
    table, facts, operations, in_a_cell, refused, boards, lowered = shown(
        run_notebook(ROOT / "docs/tutorials/python.md", tmp_path)
    )
    assert "verified</b> Net for ethos-u55-256" in table["text/html"]
    assert "equal to tosa_reference_model" in table["text/html"]
    assert facts["text"] == "(1, 16, 15, 15) float32\n9848 modelled\n"
    assert "net.py:13" in operations["text/plain"]
    assert in_a_cell["text"].startswith("<Result verified: Doubled for ethos-u55-128 on virtual, ")
    assert "'ethos-u55-300' is not an Ethos-U configuration\ndid you mean" in refused["text"]
    assert boards["text"].count("<Result verified: Net for ethos-u55-256 on virtual, ") == 2
    assert "['Conv2D', 'MaxPool']" in lowered["text"]


def test_a_cell_that_raises_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = tmp_path / "page.md"
    document.write_text("```python\nassert False, 'it is wrong'\n```\n")
    monkeypatch.setattr("blocks.ROOT", tmp_path)
    with pytest.raises(CellExecutionError, match="it is wrong"):
        run_notebook(document, tmp_path)
