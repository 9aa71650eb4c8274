"""One HTML file: style and script are in it, with a Content-Security-Policy that lets nothing else run or load.

What comes from a model, a file or a target is escaped twice: control characters as the terminal has them, and markup as
HTML has it. The policy holds if that should ever fail: a script runs only if its SHA-256 is the one of ours.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ethos_hil.base.plain_text import cut
from ethos_hil.base.record import JOB
from ethos_hil.base.wording import amount, change, day, list_of, per_second, percent, share, short_operator
from ethos_hil.results.bench import answer_text
from ethos_hil.results.gate.change import VERDICT
from ethos_hil.results.report.bench_page import heat_step
from ethos_hil.results.report.bench_point import clock, kibibytes, milliseconds, sample
from ethos_hil.results.report.chart import MOST_TEXT, safe
from ethos_hil.results.report.estimates import ratio_cells
from ethos_hil.results.report.failures import divergence_rows, wrong_outputs
from ethos_hil.results.report.feed import sides
from ethos_hil.results.report.roofline import bound_class, intensity, op_intensity

if TYPE_CHECKING:
    import jinja2

_TEMPLATES = Path(__file__).parent / "templates"
_LONG = 4000
"""Characters of a message that are shown."""


def render(content: dict[str, Any]) -> bytes:
    """Return the file.

    Args:
        content: what the template `report.html` shows, by name.
    """
    style, script = (Path(_TEMPLATES, name).read_text("utf-8") for name in ("style.css", "script.js"))
    policy = (f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; "
              "base-uri 'none'; form-action 'none'")  # fmt: skip
    page = _environment().get_template("report.html")
    html = page.render(**content, style=Markup(style), script=Markup(script), policy=policy)
    return html.encode("utf-8")


def _source(content: str) -> str:
    """Return how a policy names an element that holds exactly this."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2  # late: no other command needs it

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        finalize=_make_safe,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "long": _long, "pieces": _pieces, "bound": bound_class, "sample": sample, "heat": heat_step,
        "amount": amount, "percent": percent, "kib": kibibytes, "ms": milliseconds, "clock": clock,
        "per_second": per_second, "operator": short_operator, "share": share, "listed": list_of, "change": change,
        "day": day,
    }  # fmt: skip
    environment.globals |= {"answer_text": answer_text, "intensity": intensity, "op_intensity": op_intensity,
                            "JOB": JOB, "sides": sides, "VERDICT": VERDICT, "divergence_rows": divergence_rows,
                            "wrong_outputs": wrong_outputs, "ratio_cells": ratio_cells}  # fmt: skip
    return environment


def _make_safe(value: Any) -> Any:
    """Return what the file has for a value of a template."""
    return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _pieces(text: str) -> list[str]:
    """Return a name in pieces, between which a line may break: behind a slash, an underscore or a dot."""
    return re.findall(r"[^/_.]*[/_.]+|[^/_.]+", cut(text, MOST_TEXT)) or [text]


def _long(value: object) -> Markup:
    """Return a text that may be longer than a name, such as a message."""
    return escape(safe(str(value), _LONG))
