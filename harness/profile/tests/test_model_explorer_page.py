"""Model Explorer itself loads our graph and overlays, and Chromium shows them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.profile.tests import model_explorer_page
from ethos_hil.harness.run import run
from ethos_hil.results.export import model_explorer

MODEL = str(Path(__file__).parents[3] / "suites/models/digits.py:digits")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PACKAGES = (
    "ai-edge-model-explorer==0.1.34", "blinker", "certifi", "charset-normalizer", "click", "dacite", "flask", "idna",
    "ipython", "itsdangerous", "jinja2", "markupsafe", "numpy", "packaging", "portpicker", "psutil", "requests",
    "termcolor", "typing_extensions", "urllib3", "watchdog", "websocket-client", "werkzeug",
)  # fmt: skip
"""Installed without their dependencies: Model Explorer asks for adapters of several hundred megabytes."""


@pytest.fixture(scope="module")
def explorer_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with Model Explorer."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    folder = tmp_path_factory.mktemp("explorer")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=120)
    python = folder / "bin/python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *PACKAGES], check=True, timeout=300)
    return python


@pytest.fixture(scope="module")
def record() -> Record:
    return run(Question(MODEL, profile=True, found_by=ProfileMethod.SHARES)).record


@pytest.mark.proof
@pytest.mark.slow
def test_it_shows_the_graph_with_both_overlays(explorer_python: Path, record: Record, tmp_path: Path) -> None:
    writers = {"graph": model_explorer.graph, "cycles": model_explorer.cycles, "vela": model_explorer.vela}
    for name, write in writers.items():
        (tmp_path / f"{name}.json").write_text(write(record))
    files = [tmp_path / f"{name}.json" for name in writers]
    picture = tmp_path / "shot.png"
    assert CHROMIUM is not None
    output = subprocess.run(
        [explorer_python, model_explorer_page.__file__, CHROMIUM, picture, *files],
        capture_output=True, text=True, check=True, timeout=180,
    ).stdout  # fmt: skip
    page = " ".join(json.loads(output.splitlines()[-1]).split())
    assert "modelled cycles" in page
    assert "vela cycles" in page
    assert record.profile is not None
    cycles = sum(op.cycles or 0 for op in record.ops)
    vela = sum(cost.vela_cycles or 0 for cost in record.profile.costs.values())
    assert f"Sum {cycles} {vela}" in page, page
    for op in record.ops:
        assert f"{op.npu_op} {op.cycles} " in page, (op.id, page)
    assert _has_colours(picture)


def _has_colours(picture: Path) -> bool:
    """Return whether the left part, where the graph is drawn, has nodes in colours and not only greys."""
    from PIL import Image

    pixels = np.asarray(Image.open(picture).convert("RGB")).astype(int)
    drawn = pixels[100:, : pixels.shape[1] * 3 // 4]
    return bool((drawn.max(axis=2) - drawn.min(axis=2) > 100).sum() > 500)
