"""A real browser, for tests of what people open in one: Debian's Chromium, or Chrome, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
MISSING = f"no browser on PATH ({', '.join(PROGRAMS)}); apt install chromium"


def browser_path() -> str | None:
    """Return where a browser is, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def started(path: str) -> Iterator[Browser]:
    """Yield a browser without a window, and end it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visit:
    """A page that was opened, and what it did.

    Attributes:
        page: the page.
        requests: what it asked for, apart from itself.
        complaints: what it wrote to the console, and errors of its script.
    """

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def visited(
    browser: Browser, file: Path, *, place: str = "", wait_until: Any = "load", **context: Any
) -> Iterator[Visit]:
    """Yield a file that is open in a browser that has nothing stored.

    Args:
        browser: the browser.
        file: an HTML file.
        place: in the file, "#matrix".
        wait_until: what to wait for: "load", or "commit" where something may never be loaded.
        context: of the page, as Playwright names it: color_scheme, viewport, java_script_enabled ...
    """
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
