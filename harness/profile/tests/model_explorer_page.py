"""Show a graph with its overlays in Model Explorer in a headless Chromium: run as a program, in an environment with
Model Explorer's packages, which conflict with ours.

usage: model_explorer_page.py CHROMIUM SCREENSHOT GRAPH OVERLAY ...

Writes the screenshot, and the text of the page as JSON on the last line of stdout. Chromium's --screenshot never ends
on this page, whose stream of events stays open; so it is driven over its debugging port.
"""

from __future__ import annotations

import base64
import importlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from itertools import count
from pathlib import Path
from typing import Any

_LIMIT = 60.0
_SHOWN = "Aggregated stats"
"""What the page says once overlays are there."""


class _Page:
    """A page of a browser, over its debugging protocol."""

    def __init__(self, port: int, url: str) -> None:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=_LIMIT) as answer:
            address = json.load(answer)["webSocketDebuggerUrl"]
        websocket = importlib.import_module("websocket")
        self._socket = websocket.create_connection(address, timeout=_LIMIT, suppress_origin=True)
        self._numbers = count(1)
        self.call("Page.navigate", url=url)

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer: dict[str, Any] = json.loads(self._socket.recv())
            if answer.get("id") == number:
                return dict(answer["result"])

    def text(self) -> str:
        answer = self.call("Runtime.evaluate", expression="document.body ? document.body.innerText : ''")
        return str(answer["result"].get("value", ""))


def _served(graph: str, overlays: list[str]) -> str:
    """Serve a graph with its overlays, and return the address."""
    explorer = importlib.import_module("model_explorer")
    config = explorer.config()
    config.add_model_from_path(graph)
    for overlay in overlays:
        config.add_node_data_from_path(overlay)
    port = importlib.import_module("portpicker").pick_unused_port()
    options = {"config": config, "port": port, "no_open_in_browser": True}
    threading.Thread(target=explorer.visualize_from_config, kwargs=options, daemon=True).start()
    return f"http://localhost:{port}/?data={config.to_url_param_value()}"


def main(chromium: str, screenshot: str, graph: str, *overlays: str) -> None:
    url = _served(graph, list(overlays))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless=new", "--no-sandbox", "--remote-debugging-port=0", "--window-size=1600,1000",
                   "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]  # fmt: skip
        browser = subprocess.Popen(
            [chromium, *options, f"--user-data-dir={profile}", "about:blank"], stderr=subprocess.PIPE, text=True
        )
        try:
            assert browser.stderr is not None
            match = next(filter(None, (re.search(r"ws://127.0.0.1:(\d+)/", line) for line in browser.stderr)))
            threading.Thread(target=browser.stderr.read, daemon=True).start()
            page = _Page(int(match[1]), url)
            end = time.monotonic() + _LIMIT
            while time.monotonic() < end and _SHOWN not in page.text():
                time.sleep(0.5)
            time.sleep(3)  # the graph is drawn after the text is there
            image = base64.b64decode(page.call("Page.captureScreenshot", format="png")["data"])
            Path(screenshot).write_bytes(image)
            sys.stdout.write("\n" + json.dumps(page.text()) + "\n")
        finally:
            browser.kill()
            browser.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
