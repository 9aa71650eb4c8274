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
    from playwright.sync_api import Browser, Page

CAPTIONS = [
    "The smallest NPU within a time and an SRAM: the first row with no more than you have",
    "The fastest within an SRAM",
]


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


def names_of(page: Page, css: str) -> list[str]:
    """The text of all elements that are seen."""
    return [text.strip() for text in page.locator(f"{css}:visible").all_inner_texts()]


def test_a_case_is_found_with_the_keyboard(browser: Browser, bench: Path) -> None:
    with opened(browser, bench) as page:
        page.locator("nav a[href='#benchmarks']").focus()
        page.keyboard.press("Enter")
        assert page.evaluate("location.hash") == "#benchmarks"
        assert CAPTIONS[0] not in names_of(page, "#benchmarks caption")
        group = page.locator("#benchmarks > details.item > summary", has_text="conv1x1")
        group.focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.innerText").startswith("conv1x1_0")
        page.keyboard.press("Enter")
        assert names_of(page, "#benchmarks caption") == CAPTIONS
        assert (
            page.evaluate("document.activeElement.parentElement.querySelector('svg').getBoundingClientRect().width")
            > 200
        )


def test_points_are_sorted_by_their_numbers(browser: Browser, bench: Path) -> None:
    with opened(browser, bench) as page:
        page.evaluate(OPEN_ALL)
        table = page.get_by_role("region", name="Points of stem_000, virtual").locator("table")
        cells = table.locator("tbody td:nth-child(5)")
        times = [float(text.replace(",", "")) for text in cells.all_inner_texts()]
        assert times == sorted(times)
        table.get_by_role("button", name="ms").click()
        assert [float(text.replace(",", "")) for text in cells.all_inner_texts()] == sorted(times, reverse=True)


def test_without_a_script_and_on_a_small_screen(browser: Browser, bench: Path) -> None:
    with opened(browser, bench, java_script_enabled=False, viewport={"width": 360, "height": 700}) as page:
        assert page.locator("#benchmarks .heat").first.is_visible()
        for name in ("conv1x1", "conv1x1_001"):
            page.locator("#benchmarks summary", has_text=name).first.click()
        assert names_of(page, "#benchmarks caption") == CAPTIONS
    with opened(browser, bench, viewport={"width": 360, "height": 700}) as page:
        page.evaluate(OPEN_ALL)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_on_paper_the_heat_map_is_light(browser: Browser, bench: Path) -> None:
    with opened(browser, bench, color_scheme="dark") as page:
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 718, "height": 1000})
        colour = page.evaluate("getComputedStyle(document.querySelector('.heat .h3')).backgroundColor")
        assert colour == "rgb(200, 218, 245)"
        assert page.evaluate("document.documentElement.scrollWidth") <= 718


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
