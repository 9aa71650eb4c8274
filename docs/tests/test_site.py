"""The site builds without a warning, and a link that leads nowhere is one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import ROOT, documents
from generated_tables import TABLES

import ethos_hil
from ethos_hil.base.testing.once import Once

_ROOMS = ("src/ethos_hil", "harness", "lowering", "results", "suites")
environment = pytest.mark.environment(
    contents=["*.md", "docs/**/*", "firmware/*.md", *(f"{room}/**/*.py" for room in _ROOMS)]
)
"""Pages and tables are made of docstrings and declarations, too."""


def build(sources: Path, output: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-E", "-W", "--keep-going", "-q", "-c", str(ROOT / "docs"), *settings]
    return subprocess.run([*command, str(sources), str(output)], capture_output=True, text=True, timeout=280)


@pytest.fixture(scope="module")
def site(once: Once) -> Path:
    def make(folder: Path) -> None:
        # The wrong page has the site's own theme. It takes a third of the time of all pages, and none of their words.
        done = build(ROOT, folder, "-D", "html_theme=basic")
        assert done.returncode == 0, done.stderr

    return once("site", make)


@environment
@pytest.mark.slow
def test_every_document_is_a_page_of_the_site(site: Path) -> None:
    pages = documents(["*.md", "docs/**/*.md", "firmware/*.md"])
    assert len(pages) > 30
    assert [str(path) for path in pages if not (site / path.relative_to(ROOT)).with_suffix(".html").is_file()] == []
    assert "docs/index.html" in (site / "index.html").read_text()


@environment
@pytest.mark.slow
def test_the_tables_are_in_their_pages_and_the_reference_has_what_is_public(site: Path) -> None:
    """One row of each table, which no prose has."""
    rows = {
        "kernels": r"<td><p><code[^>]*><span[^>]*>aten::fmod.Tensor_out</span>",
        "operators": r"<td><p><code[^>]*><span[^>]*>avg_pool2d.default</span>",
        "targets": r"semihosting-heap_limit.*?<td><p>honoured</p></td>",
        "upstream": r"<td><p>ops/acosh</p></td>",
        "bench-grids": r"<td><p><code[^>]*><span[^>]*>upconv2x2_4x4x32_to_16</span>",
        "npu": r"<td><p>ELEMENTWISE CMP_GE</p></td>",
        "defects/index": r"vela-reduce-min</span></a></p></td>",
        "defects/vela-reduce-min": r"<h2>Met by.*<td><p>Ethos-U55, Ethos-U65</p></td>.*<h2>Repair.*Keep the dimension",
        "laboratory": r"<td[^>]*><p>38,542,755</p></td>",
        "api": r"The result. A wrong answer is not raised",
    }
    pages = {page: (site / f"docs/{page}.html").read_text() for page in rows}
    assert [page for page, row in rows.items() if not re.search(row, pages[page], re.DOTALL)] == []
    names = [*(f"ethos_hil.{name}" for name in ethos_hil.__all__), "ethos_hil.harness.targets.base.Target._run"]
    assert [name for name in names if f'id="{name}"' not in pages["api"]] == []
    assert "<strong>Parameters</strong>" in pages["api"]


WRONG = {
    "[there](nowhere.md)": r"0.md:5: .*target not found: 'nowhere.md'",
    "[there](page.md#nowhere)": r"1.md:5: .*id not found in doc 'docs/page': 'nowhere'",
    "[there](../harness/nowhere.py)": r"2.md:5: .*target not found: '../harness/nowhere.py'",
    "![picture](nowhere.svg)": r"3.md:5: .*not readable: docs/nowhere.svg",
    "```{generated} nowhere\n```": r"4.md:5: .*no table is called nowhere; there are operators-counts",
    "```{eval-rst}\n.. autofunction:: ethos_hil.nowhere\n```": r"failed to import 'nowhere' from module 'ethos_hil'",
}


@environment
def test_a_page_that_is_wrong_is_an_error(tmp_path: Path) -> None:
    pages = {"page": "# Page\n\n## Part\n\nText.\n"}
    pages |= {str(at): f"# Wrong\n\n[good](page.md#part)\n\n{text}\n" for at, text in enumerate(WRONG)}
    pages["index"] = "\n".join(["# Index\n", "```{toctree}", *pages, "```", ""])
    (tmp_path / "docs").mkdir()
    for name, text in pages.items():
        (tmp_path / f"docs/{name}.md").write_text(text)
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert [message for message in WRONG.values() if not re.search(message, done.stderr)] == [], done.stderr
    assert done.stderr.count("WARNING:") + done.stderr.count("ERROR:") == len(WRONG)


def test_every_table_is_shown_and_every_file_of_data_is_used() -> None:
    shown = {
        name
        for path in documents(["docs/**/*.md"])
        for name in re.findall(r"^```\{generated\} (\S+)$", path.read_text("utf-8"), re.MULTILINE)
    }
    assert shown == set(TABLES)
    source = (ROOT / "docs/generated_tables.py").read_text("utf-8")
    # Or a page that a command writes links to its data.
    pages = "".join(path.read_text("utf-8") for path in documents(["docs/*.md"]))
    unused = [path.stem for path in documents(["docs/data/*.json"]) if f'data("{path.stem}")' not in source]
    assert [stem for stem in unused if f"(data/{stem}.json)" not in pages] == []
