"""What the documents name is there: files of the repository, modules and names of `ethos_hil`, targets of make."""

from __future__ import annotations

import importlib
import re
import subprocess
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from blocks import ROOT, blocks, documents
from test_code_blocks import CHECKED, name_of

from ethos_hil.base.plugins import GROUPS

DOCUMENTS = documents(["*.md", "docs/**/*.md", "firmware/*.md"])
FOLDERS = ("harness", "lowering", "suites", "results", "firmware", "docs", "src", "extra")
PATH = re.compile(rf"(?<![\w./-])(?:\.\./)?(?P<path>(?:{'|'.join(FOLDERS)})/[\w./*-]*\w/?)")
BARE = re.compile(r"`(?:\w+/)*(?P<name>\w+\.(?:py|cc|h|toml|md))`")
MODULE = re.compile(r"(?<![\w.])ethos_hil(?:\.\w+)+")
MAKE = re.compile(r"`make ([a-z-]+)")
# Made by commands, or by a reader who follows a tutorial.
MADE = ("results/runs", "results/history")


def paths_in(text: str) -> set[str]:
    """Paths from the root of the repository; not those in the source trees of others ("ExecuTorch's ...")."""
    return {match["path"].rstrip("/.") for match in PATH.finditer(text)}


def is_there(path: str, document: Path) -> bool:
    """Whether a path leads from the root, or from the document, to a file; a decision may be named by its number."""
    if path.startswith(MADE):
        return True
    patterns = (f"{path}*",) if re.fullmatch(r"docs/decisions/\d{4}", path) else (path, f"{path}.md")
    return any(any(place.glob(pattern)) for place in (ROOT, document.parent) for pattern in patterns)


@cache
def file_names() -> frozenset[str]:
    """The names of all files of the repository, and of Vela's and ExecuTorch's, which the documents cite."""
    packages = Path(sysconfig.get_paths()["purelib"])
    cited = {
        path.name for folder in ("ethosu/vela", "executorch/backends/arm") for path in (packages / folder).rglob("*.py")
    }
    assert len(cited) > 100
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    return frozenset(Path(line).name for line in listed.stdout.splitlines()) | cited


def bare_names_in(document: Path) -> set[str]:
    """File names without a folder, but for those of the reader: what the README and tutorials have them write."""
    own = {Path(block.file).name for page in CHECKED for block in blocks(page) if block.file}
    return {match["name"] for match in BARE.finditer(document.read_text("utf-8"))} - own


def names_in(text: str) -> set[str]:
    """Dotted names below ethos_hil; names of entry point groups are none."""
    return {name for name in MODULE.findall(text) if name not in GROUPS}


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one, or an attribute of that."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(value, part) and part not in getattr(value, "__annotations__", {}):
                return False
            value = getattr(value, part, None)
        return True
    return False


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_what_a_document_names_is_there(document: Path) -> None:
    text = document.read_text("utf-8")
    wrong = [path for path in sorted(paths_in(text)) if not is_there(path, document)]
    wrong += sorted(bare_names_in(document) - file_names())
    wrong += [name for name in sorted(names_in(text)) if not resolves(name)]
    wrong += [f"make {name}" for name in sorted(set(MAKE.findall(text)) - make_targets())]
    assert wrong == []


def test_what_is_not_there_is_seen(tmp_path: Path) -> None:
    text = """`harness/nowhere.py`, [here](../lowering/gone.md), `ethos_hil.harness.nowhere`, ethos_hil.nothing,
    `ethos_hil.harness.run.run`, `ethos_hil.Result.assert_verified`, `harness/run.py`, and `make nothing`."""
    document = ROOT / "docs/glossary.md"
    assert [path for path in sorted(paths_in(text)) if not is_there(path, document)] == [
        "harness/nowhere.py",
        "lowering/gone.md",
    ]
    assert [name for name in sorted(names_in(text)) if not resolves(name)] == [
        "ethos_hil.harness.nowhere",
        "ethos_hil.nothing",
    ]
    assert set(MAKE.findall(text)) - make_targets() == {"nothing"}
    page = tmp_path / "page.md"
    page.write_text("`nowhere.py`, `net.py` and `frames.py`")
    assert bare_names_in(page) - file_names() == {"nowhere.py"}
