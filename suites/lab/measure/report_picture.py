"""Takes the pictures of reports that the documents show, by the browser that the tests use.

    python -m ethos_hil.suites.lab picture docs/images/report.png --mornings docs/images

The first is the top of a report of a sample of the operator suite and of a profile, and the model. The others are the
first screen of four mornings after nights that never happened.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.results.report.links import Links
from ethos_hil.results.report.report import report
from ethos_hil.results.run_results import find_results
from ethos_hil.results.testing.browser import MISSING, browser_path, started, visited
from ethos_hil.results.testing.mornings import MORNINGS, morning
from ethos_hil.suites.lab.shared import ROOT

_MODEL = "suites/models/mlperf_tiny.py:ds_cnn"
_WIDTH, _HEIGHT = 1320, 1990
_SCREEN = {"width": 1280, "height": 900}
_COLOURS = 96
_LINKS = Links("https://git.example/commit/{commit}", "https://git.example/jobs/{job}")
# What lies between the head and the model is left out, so that one picture has both.
_SHORTEN = """() => {
  for (const section of document.querySelectorAll("main > section"))
    if (!["matrix", "models"].includes(section.id)) section.remove();
  for (const row of document.querySelectorAll("#grid tbody tr:nth-child(n + 9)")) row.remove();
  document.querySelector("#model-1").open = true;
  for (const figure of document.querySelectorAll("#model-1 figure:nth-child(n + 3)")) figure.remove();
}"""


def real_report(folder: Path, *, model: str = _MODEL, cases: str = "") -> Path:
    """Run every twelfth case of the operators and profile a model, and return the report of both.

    Args:
        folder: where the records and the report go.
        model: the model.
        cases: an expression of pytest that chooses operators; "" for all.

    Raises:
        CalledProcessError: something of it did not end well.
    """
    suite = ["pytest", "suites/ops", "-q", "--one-in=12", "-k", cases, "-p", "no:cacheprovider"]
    profile = ["ethos_hil.harness.cli.main", "profile", model, "--npu", "ethos-u55-128"]
    for name, words in (("suite", suite), ("profile", profile)):
        command = [sys.executable, "-m", *words, "--runs", str(folder / name)]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=1200)
    file = folder / "report.html"
    file.write_bytes(report(find_results([folder / "suite", folder / "profile"]), output=file))
    return file


def take_picture(page: Path, picture: Path, browser: str) -> None:
    """Take the picture of a report as a PNG: its top, and its first model below, with charts and operations."""
    how: dict[str, Any] = {"viewport": {"width": _WIDTH, "height": 900}, "color_scheme": "light"}
    with started(browser) as session, visited(session, page, **how) as visit:
        visit.page.evaluate(_SHORTEN)
        clip: Any = {"x": 0, "y": 0, "width": _WIDTH, "height": _HEIGHT}
        _write_small(visit.page.screenshot(clip=clip, full_page=True), picture)


def take_mornings(folder: Path, pictures: Path, browser: str) -> None:
    """Take the first screen of each morning's report, as `morning-NAME.png`; its history and page go to a folder."""
    with started(browser) as session:
        for name, edit in MORNINGS.items():
            content = morning(folder / name, edit)
            page = folder / f"{name}.html"
            page.write_bytes(report(content.results, content.comparison, content.history, links=_LINKS))
            with visited(session, page, viewport=_SCREEN, color_scheme="light") as visit:
                _write_small(visit.page.screenshot(), pictures / f"morning-{name}.png")


def _write_small(shot: bytes, picture: Path) -> None:
    """Write a picture with as few colours as a page of text needs."""
    from PIL import Image

    with Image.open(io.BytesIO(shot)) as image:
        image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(picture, optimize=True)


def main(
    picture: Annotated[Path | None, typer.Argument(metavar="[FILE.png]", help="The picture of a real run.")] = None,
    mornings: Annotated[Path | None, typer.Option(metavar="DIR", help="Where pictures of four mornings go.")] = None,
) -> None:
    """Take the pictures of reports that the documents show."""
    browser = browser_path()
    if browser is None:
        raise TargetNotAvailable(MISSING)
    with tempfile.TemporaryDirectory(prefix="ethos-hil-report-") as name:
        if picture is not None:
            take_picture(real_report(Path(name)), picture, browser)
        if mornings is not None:
            take_mornings(Path(name), mornings, browser)
