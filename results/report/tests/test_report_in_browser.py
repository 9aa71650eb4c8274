"""The report as people meet it: in a browser, by keyboard, on paper, without a script, with a hostile run."""

from __future__ import annotations

import re
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ethos_hil.base.verdict import FailureKind
from ethos_hil.results.report.report import report
from ethos_hil.results.report.tests import samples
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.tests.profiled import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

OPEN_ALL = "for (const each of document.querySelectorAll('details')) each.open = true"
PAYLOAD = """<script>window.hit = 1</script><img src=x onerror="window.hit = 1"><svg onload='window.hit=1'></svg>
</style></title></textarea><a href="javascript:window.hit=1">x</a>' autofocus onfocus=window.hit=1 x='{{ 7*7 }}"""


PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real browser without a window: Debian's Chromium, or Chrome, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        pytest.skip(f"no browser on PATH ({', '.join(PROGRAMS)}); apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A page that was opened, what it asked for apart from itself, and what it and its script's errors wrote."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def visited(
    browser: Browser, file: Path, *, place: str = "", wait_until: Any = "load", **context: Any
) -> Iterator[Visit]:
    """A file, at a place as "#matrix", that is open in a browser that has nothing stored."""
    opened = browser.new_context(**{"viewport": {"width": 1360, "height": 1000}, **context})
    try:
        visit = Visit(opened.new_page())
        address = file.resolve().as_uri()
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.on("console", lambda message: visit.complaints.append(message.text))
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.goto(f"{address}{place}", wait_until=wait_until)
        visit.requests[:] = [url for url in visit.requests if url.partition("#")[0] != address]
        yield visit
    finally:
        opened.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="module")
def night(folder: Path) -> Path:
    return written(folder, "night", samples.page_of_night(samples.history(folder / "history")))


@contextmanager
def opened(browser: Browser, file: Path, **how: Any) -> Iterator[Page]:
    """A page on which nothing goes wrong while it is open: no complaint, no request."""
    with visited(browser, file, **how) as visit:
        yield visit.page
        assert visit.complaints == []
        assert visit.requests == []


def violations(page: Page) -> list[str]:
    """What axe finds: each rule with the first element that breaks it."""
    from axe_playwright_python.sync_playwright import Axe

    broken = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {rule['nodes'][0]['html'][:200]} {rule['nodes'][0]['failureSummary']}" for rule in broken]


def written(folder: Path, name: str, html: bytes) -> Path:
    file = folder / f"{name}.html"
    file.write_bytes(html)
    return file


def of_grid(*cases: str) -> bytes:
    """The page of a benchmark; of some of its cases."""
    records = (record for record in samples.grid(cases=12) if record.model.endswith(cases or ""))
    return report(samples.bench_run(tuple(records)))


@pytest.mark.parametrize(
    ("cases", "scheme"),
    [
        ((), "light"),
        (("000",), "dark"),
        pytest.param((), "dark", marks=pytest.mark.proof),
        pytest.param(("000",), "light", marks=pytest.mark.proof),
        *(pytest.param(("001", "002", "003", "011"), scheme, marks=pytest.mark.proof) for scheme in ("light", "dark")),
    ],
)
def test_everybody_can_use_it(browser: Browser, night: Path, folder: Path, scheme: str, cases: tuple[str, ...]) -> None:
    """A night, and cases of a benchmark."""
    file = written(folder, f"grid-{len(cases)}", of_grid(*cases)) if cases else night
    with visited(browser, file, color_scheme=scheme, bypass_csp=True) as visit:  # axe is a script that is not ours
        visit.page.evaluate(OPEN_ALL)
        assert not cases or visit.page.locator("#benchmarks .heat td").count() > 30
        assert violations(visit.page) == []
        assert visit.complaints == []


@pytest.mark.parametrize("what", ["", 'class="h'])
def test_axe_sees_what_is_wrong(browser: Browser, night: Path, folder: Path, what: str) -> None:
    """Soft text, or a heat map that cannot be read."""
    damaged = of_grid().decode() if what else night.read_text().replace("--soft: #59606d", "--soft: #cccccc")
    damaged = re.sub(r"\.h(\d) \{ background: var\(--h\1\); \}", r".h\1 { background: #555; }", damaged)
    file = written(folder, "damaged", damaged.encode())
    with visited(browser, file, color_scheme="light", bypass_csp=True) as visit:
        assert any(text.startswith("color-contrast") and what in text for text in violations(visit.page))


def test_the_scheme_is_the_readers(browser: Browser, night: Path) -> None:
    colours = []
    for scheme in ("light", "dark"):
        with opened(browser, night, color_scheme=scheme) as page:
            colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            colours.append(page.evaluate("getComputedStyle(document.querySelector('.series')).stroke"))
    assert len(set(colours)) == 4


def test_by_keyboard_alone(browser: Browser, night: Path) -> None:
    with opened(browser, night) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        assert page.evaluate("document.activeElement.getBoundingClientRect().left") > 0
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"
        for _ in range(6):  # past the buttons that copy the first failure's commands
            if page.evaluate("document.activeElement.tagName") != "SUMMARY":
                page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        before = page.evaluate("document.activeElement.parentElement.open")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.parentElement.open") is not before


def rows_shown(page: Page) -> list[str]:
    return page.locator("#grid tbody tr:visible th").all_inner_texts()


def test_a_filter_is_in_the_address_and_comes_back(browser: Browser, night: Path) -> None:
    with opened(browser, night) as page:
        whole = len(rows_shown(page))
        page.focus("#filter-text")
        page.keyboard.type("case0 OPERATOR00")
        page.focus("input[value=F]")
        page.keyboard.press("Space")
        shown = rows_shown(page)
        assert 0 < len(shown) < whole
        assert page.inner_text("#filter-count") == f"{len(shown)} of {whole} rows"
        address = page.evaluate("location.hash")
        assert address == "#matrix&text=case0+OPERATOR00&verdict=F"
    with opened(browser, night, place=address) as page:
        assert rows_shown(page) == shown
        assert page.input_value("#filter-text") == "case0 OPERATOR00"
        page.select_option("#filter-column", "1")
        assert page.locator("#grid thead th:visible").count() == 2
        assert "column=1" in page.evaluate("location.hash")
        page.fill("#filter-text", "")
        page.uncheck("input[value=F]")
        page.select_option("#filter-column", "")
        assert len(rows_shown(page)) == whole
        assert page.evaluate("location.hash") == "#matrix"


@pytest.mark.parametrize(
    "address", ["#matrix&verdict=%3Cimg%3E&column=99&text=%E2", "#matrix&&=&column=-1", "#nowhere"]
)
def test_an_address_that_says_nothing_breaks_nothing(browser: Browser, night: Path, address: str) -> None:
    with opened(browser, night, place=address) as page:
        assert page.locator("#grid tr").count() > 5


def test_tables_are_sorted_by_their_heads(browser: Browser, night: Path) -> None:
    with opened(browser, night) as page:
        table = page.locator("#model-1 table.ops")
        table.get_by_role("button", name="Cycles").focus()
        page.keyboard.press("Enter")
        assert table.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
        cells = table.locator("tbody td:nth-child(4)").all_inner_texts()
        numbers = [int(match[0].replace(",", "")) for cell in cells if (match := re.match(r"[\d,]+", cell))]
        assert numbers == sorted(numbers, reverse=True)
        table.get_by_role("button", name="Operation").click()
        assert table.locator("th[aria-sort]").count() == 1
        names = table.locator("tbody th").all_inner_texts()
        assert names == sorted(names, key=str.casefold)


def test_a_command_is_copied(browser: Browser, night: Path) -> None:
    with opened(browser, night, permissions=["clipboard-read", "clipboard-write"]) as page:
        command = page.locator(".failure .cmd").first
        command.get_by_role("button").click()
        command.get_by_text("Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == command.locator("code").inner_text()


def test_on_paper(browser: Browser, night: Path) -> None:
    with opened(browser, night, color_scheme="dark") as page:
        page.emulate_media(media="print")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert not page.locator("nav").is_visible()
        assert not page.locator("#filters").is_visible()
        assert page.locator("#new .message").first.is_visible()
        height = "(each => each.scrollHeight - each.clientHeight)(document.querySelector('.matrix'))"
        assert page.evaluate(height) <= 1  # nothing of the matrix is cut off
        page.set_viewport_size({"width": 718, "height": 1000})  # of A4 with margins of a centimetre
        assert page.evaluate("document.documentElement.scrollWidth") <= 718
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_on_a_small_screen_the_page_does_not_scroll_sideways(browser: Browser, night: Path) -> None:
    with opened(browser, night, viewport={"width": 360, "height": 700}) as page:
        page.evaluate(OPEN_ALL)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_large_matrix_is_as_wide_as_the_page_and_shows_what_is_to_be_looked_at(
    browser: Browser, folder: Path
) -> None:
    records = samples.suite_of(600)
    records[599] = samples.failed(records[599], FailureKind.MISMATCH, "wrong")
    html = report(RunResults("n", "2026-11-25T02:00:00+00:00", tuple(records)))
    with opened(browser, written(folder, "large", html)) as page:
        widths = page.evaluate(
            "['#grid', 'nav ul'].map((n) => document.querySelector(n).getBoundingClientRect().width)"
        )
        assert widths[0] > 0.9 * widths[1]
        assert page.evaluate("(e => e.scrollHeight - e.clientHeight)(document.querySelector('.matrix'))") <= 1
        assert len(rows_shown(page)) == 60
        assert "F" in page.locator("#grid tbody tr").first.inner_text()
        page.get_by_role("button", name="Show all 200 rows").click()
        assert len(rows_shown(page)) == 200
        assert not page.locator("#all-rows").is_visible()


def test_without_a_script(browser: Browser, night: Path) -> None:
    with opened(browser, night, java_script_enabled=False) as page:
        assert page.locator("h1").is_visible()
        assert not page.locator("#filters").is_visible()
        closed = page.locator("details.cause:not([open]) summary").first
        closed.click()
        assert page.locator("#grid tbody tr").first.is_visible()
        page.locator("nav a[href='#history']").click()
        assert page.locator("#history svg").first.is_visible()


@pytest.mark.parametrize("guarded", [True, False])
def test_a_hostile_run_stays_text_with_and_without_the_policy(browser: Browser, folder: Path, guarded: bool) -> None:
    """Escaping alone must do; the policy is for the day on which it does not."""
    file = written(folder, "hostile", report(samples.hostile(PAYLOAD + HOSTILE)))
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\u2028]", file.read_text("utf-8"))
    with opened(browser, file, bypass_csp=not guarded) as page:
        page.evaluate(OPEN_ALL)
        assert page.evaluate("window.hit") is None
        assert page.locator("script").count() == 1
        assert page.locator("img, iframe, object, [onerror], [onload], [onfocus], [autofocus]").count() == 0
        assert page.locator("a[href^='javascript:']").count() == 0
        for text in ("<script>window.hit = 1</script>", "{{ 7*7 }}", r"\x1b[2J \u202e"):
            assert text in page.inner_text("#failures")


def test_the_policy_stops_what_escaping_would_miss(browser: Browser, night: Path, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        image = f"<img src='http://127.0.0.1:{server.getsockname()[1]}/x.png'>"
        inserted = f"<script>window.hit = 1</script>{image}</main>"
        broken = written(folder, "broken", night.read_bytes().replace(b"</main>", inserted.encode()))
        server.settimeout(10)
        with visited(browser, broken, bypass_csp=True, wait_until="commit") as visit:
            server.accept()[0].close()
            visit.page.wait_for_function("window.hit === 1")
        server.settimeout(0.5)
        with visited(browser, broken) as visit:
            with pytest.raises(TimeoutError):
                server.accept()
            assert visit.page.evaluate("window.hit") is None
            assert sum("Content Security Policy" in complaint for complaint in visit.complaints) == 2


@pytest.mark.parametrize("grid", [False, True])
def test_a_night_of_the_whole_suite_and_the_default_grid_open_at_once(
    browser: Browser, folder: Path, grid: bool
) -> None:
    began = time.process_time()
    if grid:
        html = report(samples.bench_run(samples.grid()))  # 3,300 points
    else:
        results = samples.whole_suite()
        html = report(results, samples.comparison(results.records), samples.history(folder / "many", 3, 1000))
    assert time.process_time() - began < 30  # 3 s on a quiet machine for the night, of which the history takes half
    assert len(html) < 5_000_000
    with opened(browser, written(folder, "whole", html)) as page:
        assert page.evaluate("document.querySelectorAll('*').length") <= 80_000
        timing = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
        assert page.evaluate(timing) < 15_000  # 0.8 s on a quiet machine
        if not grid:
            began = time.monotonic()
            page.fill("#filter-text", "case03")
            assert page.inner_text("#filter-count")
            assert time.monotonic() - began < 10
