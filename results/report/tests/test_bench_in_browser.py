"""A benchmark's section as people meet it: in a browser, by keyboard, on a small screen, without a script."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ethos_hil.base.record import Record
from ethos_hil.results.report.report import report
from ethos_hil.results.report.tests import bench_samples
from ethos_hil.results.report.tests.test_report_in_browser import OPEN_ALL, opened, violations
from ethos_hil.results.testing.browser import visited

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


def written(folder: Path, name: str, records: tuple[Record, ...]) -> Path:
    file = folder / f"{name}.html"
    file.write_bytes(report(bench_samples.results(records)))
    return file


@pytest.fixture(scope="module")
def bench(folder: Path) -> Path:
    return written(folder, "bench", bench_samples.grid(cases=12))


@pytest.mark.parametrize(
    ("cases", "scheme"),
    [
        (("000",), "dark"),
        pytest.param(("000",), "light", marks=pytest.mark.proof),
        *(pytest.param(("001", "002", "003", "011"), scheme, marks=pytest.mark.proof) for scheme in ("light", "dark")),
    ],
)
def test_everybody_can_use_it(browser: Browser, folder: Path, scheme: str, cases: tuple[str, ...]) -> None:
    records = tuple(record for record in bench_samples.grid(cases=12) if record.model.endswith(cases))
    file = written(folder, f"grid-{len(cases)}", records)
    with visited(browser, file, color_scheme=scheme, bypass_csp=True) as visit:  # axe is a script that is not ours
        visit.page.evaluate(OPEN_ALL)
        assert visit.page.locator("#benchmarks .heat td").count() > 30
        assert violations(visit.page) == []
        assert visit.complaints == []


def test_axe_sees_a_heat_map_that_cannot_be_read(browser: Browser, bench: Path, folder: Path) -> None:
    damaged = bench.read_text()
    for step in range(1, 7):
        damaged = damaged.replace(f".h{step} {{ background: var(--h{step}); }}", f".h{step} {{ background: #555; }}")
    (folder / "damaged.html").write_text(damaged)
    with visited(browser, folder / "damaged.html", color_scheme="light", bypass_csp=True) as visit:
        assert any(
            violation.startswith("color-contrast") and 'class="h' in violation for violation in violations(visit.page)
        )


def test_the_default_grid_opens_at_once(browser: Browser, folder: Path) -> None:
    records = bench_samples.grid()
    assert len(records) == 3300
    began = time.process_time()
    file = written(folder, "whole", records)
    assert time.process_time() - began < 10  # 0.6 s on a quiet machine
    assert file.stat().st_size < 5_000_000
    with opened(browser, file) as page:
        assert page.evaluate("document.querySelectorAll('*').length") <= 80_000
        timing = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
        assert page.evaluate(timing) < 15_000
