"""The report of a real run, in a real browser, and the picture of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.results.testing.browser import MISSING, browser_path, started, visited
from ethos_hil.suites.lab.measure import report_picture


@pytest.mark.proof
@pytest.mark.slow
def test_the_report_of_a_real_run_opens_and_has_its_picture(tmp_path: Path) -> None:
    browser = browser_path()
    if browser is None:
        pytest.skip(MISSING)
    page = report_picture.real_report(tmp_path, model="suites/models/digits.py:digits", cases="add or softmax")
    report_picture.take_picture(page, tmp_path / "report.png", browser)
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")
    with started(browser) as instance, visited(instance, page) as visit:
        assert visit.page.locator("#model-1 table.ops tbody tr").count() > 7
        assert visit.page.locator("#model-1 .chart").count() > 1
        assert visit.page.locator("#grid td.V").count() > 10
        assert "verified." in visit.page.inner_text("h1")
        assert (visit.complaints, visit.requests) == ([], [])
        links = [str(anchor.get_attribute("href")) for anchor in visit.page.locator("#environment a").all()]
        assert any(link.endswith(".jsonl") for link in links)
        assert all((tmp_path / link).exists() for link in links)


def test_pictures_of_mornings_are_small(tmp_path: Path) -> None:
    browser = browser_path()
    if browser is None:
        pytest.skip(MISSING)
    report_picture.take_mornings(tmp_path / "work", tmp_path, browser)
    sizes = {path.name: path.stat().st_size for path in tmp_path.glob("morning-*.png")}
    assert len(sizes) == 4
    assert max(sizes.values()) < 120_000
