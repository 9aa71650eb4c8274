"""The commands in the README and the tutorials print what the documents show, and their Python runs in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from blocks import NOT_RUN, ROOT, Block, WrongDocument, blocks, documents, environment, run_blocks
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

CHECKED = documents(["README.md", "docs/api.md", "docs/tutorials/*.md"])
ALWAYS = ("README.md", "docs/api.md", "docs/tutorials/other-frameworks.md")
"""`make test` runs their commands, `make lab` those of all."""


def name_of(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.fixture
def run_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[Block]]:
    """Run the blocks of a page with a text."""
    monkeypatch.setattr("blocks.ROOT", tmp_path)
    (tmp_path / "run").mkdir()

    def run(text: str) -> list[Block]:
        (tmp_path / "page.md").write_text(text)
        return run_blocks(tmp_path / "page.md", tmp_path / "run")

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "document",
    [pytest.param(document, marks=[] if name_of(document) in ALWAYS else pytest.mark.proof) for document in CHECKED],
    ids=map(name_of, CHECKED),
)
def test_the_commands_do_what_the_document_says(document: Path, reader_folder: Path) -> None:
    run_blocks(document, reader_folder)


def test_what_is_not_run_says_why() -> None:
    left_out = [NOT_RUN.search(block.comment) for page in CHECKED for block in blocks(page) if not block.is_run]
    assert left_out
    assert all(match and len(match["reason"].split()) > 3 for match in left_out)


def test_the_readme_shows_a_pass_and_then_a_failure() -> None:
    first, *_ = (ROOT / "README.md").read_text("utf-8").split("## Your model")
    assert len(first.splitlines()) <= 45
    shown = [block.text.split()[0] for block in blocks(ROOT / "README.md") if block.language == "text"]
    assert shown[:2] == ["verified", "failed"]
    assert "monitor.py:14" in first
    assert "tensor tosa_reshape_default_2" in first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```sh\nfalse\n```\n", "end with status 1, not 0"),
        ("<!-- status 1 -->\n```sh\ntrue\n```\n", "end with status 0, not 1"),
        ("```sh\nfalse; true\n```\n", "end with status 1, not 0"),
        ("```sh\necho good\n```\n\n```text\nbad\n```\n", "this is not printed"),
        ("```sh\necho no good\n```\n\n```text\ngood\n```\n", "this is not printed"),
        ("```sh\necho good or not\n```\n\n```text\ngood\n```\n", "more is printed"),
        ("```sh\necho one two\n```\n\n```text\ntwo\n...\none\n...\n```\n", "this is not printed"),
        ("```yaml\na: 1\n```\n", "say its name in the first line"),
        ("```yaml\n# a.yml\na: [1\n```\n", "this is not yaml"),
        ("```toml\n# a.toml\na: 1\n```\n", "this is not toml"),
        ("Text.\n\n    make test\n", "is indented"),
        ("```bash\ntrue\n```\n", "the language of a block is 'bash'"),
    ],
)
def test_a_document_that_is_wrong_is_seen(text: str, message: str, run_page: Callable[[str], list[Block]]) -> None:
    with pytest.raises(WrongDocument, match=message):
        run_page(text)


def test_a_document_that_is_right_is_run(run_page: Callable[[str], list[Block]]) -> None:
    text = """
```python
# sub/two.py
print(2)
```

<!-- not run: this one would fail -->
```sh
false
```

```sh
python sub/two.py; echo one   three four
```

```text
2
one  ... four
```

```python
1 + 1
```
"""
    (cell,) = run_page(text)
    assert (cell.text, cell.place) == ("1 + 1\n", "page.md:21")


# The Python of the documents runs in a notebook: each block a cell, in Jupyter's kernel.


def run_notebook(document: Path, folder: Path) -> Any:
    """Run a document's cells in a folder that has its files. Raise CellExecutionError if a cell raises."""
    run = [block for block in blocks(document) if block.is_run]
    for block in run:
        if block.file is not None:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text)
    cells = [block.text for block in run if block.language == "python" and block.file is None]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
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
@pytest.mark.proof
def test_the_readmes_example_and_the_tutorial_run_in_a_notebook(tmp_path: Path) -> None:
    (cell,) = shown(run_notebook(ROOT / "README.md", tmp_path))
    assert [text for text in ("net.py:13", "<table") if text not in cell["text/html"]] == []
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
