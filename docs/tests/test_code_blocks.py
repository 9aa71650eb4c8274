"""The commands in the README and the tutorials do what the documents say, and print what they show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from blocks import NOT_RUN, ROOT, Block, WrongDocument, blocks, documents, run_blocks

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
