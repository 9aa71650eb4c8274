"""The report of a run: what the nightly keeps and people read in the morning. docs/report.md shows it.

It is one HTML file: style and script are in it, with a Content-Security-Policy that lets nothing else run or load. What
comes from a model, a file or a target is escaped twice: control characters as the terminal has them, and markup as HTML
has it. The policy holds if that should ever fail: a script runs only if its SHA-256 is the one of ours.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from ethos_hil.base.clock import StatedClock, of_system
from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import (
    amount,
    change,
    cut,
    day,
    list_of,
    moment,
    per_second,
    percent,
    share,
    short_operator,
)
from ethos_hil.base.record import JOB, Record
from ethos_hil.results.gate.account import Accounted, account_of
from ethos_hil.results.gate.change import VERDICT, RunComparison
from ethos_hil.results.history import History
from ethos_hil.results.latency import with_latency
from ethos_hil.results.report.bench_page import bench_page, clock, heat_step, intensity, kibibytes, milliseconds, sample
from ethos_hil.results.report.chart import MOST_TEXT, safe
from ethos_hil.results.report.failures import divergence_rows, failure_groups, wrong_outputs
from ethos_hil.results.report.feed import FeedContext, feed, moved_cells, numbers_now, sides
from ethos_hil.results.report.matrix import matrix
from ethos_hil.results.report.model_page import Advise, ModelPage, bound_class, has_page, model_page, op_intensity
from ethos_hil.results.report.reproduce import NO_LINKS, Links
from ethos_hil.results.report.summary import SMALL, facts, origins, summary
from ethos_hil.results.report.trend import trend
from ethos_hil.results.report.upstreams import upstream_sides
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.since import NumberNow, Since, night_before, red_since, value_since
from ethos_hil.results.subject import Names, Subject

if TYPE_CHECKING:
    import jinja2

_ELEMENTS = 32_000
"""Elements of the file that rows of model pages may be, so that a browser opens it at once."""
_OF_ROW, _OF_PROFILED_ROW = 15, 24
"""Elements of an operation and of a line of the source, which there are as many of, without and with a profile."""
_PAGES = 120
_MODEL_OPS = 8
"""Operations from which on a case of a benchmark is a model, whose operations are worth a page."""
_LEAST_ROWS, _MOST_ROWS = 10, 400


def report(
    results: RunResults,
    comparison: RunComparison | None = None,
    history: History | None = None,
    *,
    baseline: str = "",
    clock: StatedClock | None = None,
    advise: Advise = lambda record: (),
    links: Links = NO_LINKS,
) -> bytes:
    """Return the report of a run as an HTML file that needs nothing else and loads nothing.

    Args:
        results: the run, as `ethos_hil.results.run_results.read_results` reads it.
        comparison: what is different from another run or a baseline.
        history: the runs before, and perhaps this one.
        baseline: the baseline's file in the commands that accept a change; "" where the run is compared with another
            run, and there is nothing to accept into.
        clock: the clock of the NPU to make times with, in place of the one that each record has.
        advise: says what to do about where the time of a record goes.
        links: the addresses of commits and of jobs of the CI.

    Raises:
        OSError: the history cannot be read.
        UsageError: it is damaged, or a record has a number that nothing counts to.
    """
    if clock is not None:
        results = replace(results, records=tuple(with_latency(record, clock) for record in results.records))
    try:
        with history.kept_open() if history is not None else nullcontext():
            return render(_content(results, comparison, history, baseline, advise, links))
    except OverflowError as error:
        raise UsageError(f"a record has a number that nothing counts to: {error}", hint="leave it out") from error


def _content(
    results: RunResults, comparison: RunComparison | None, history: History | None, baseline: str,
    advise: Advise, links: Links,
) -> dict[str, Any]:  # fmt: skip
    account = account_of(results, comparison)
    tests = account.tests
    run = results.folders[0].name if results.folders else ""
    before = trend(history) if history is not None else None
    newest = night_before(history, results) if history is not None else ""
    since = _since(history, results, tests, comparison) if history is not None and newest else {}
    changes = comparison.changes if comparison is not None else ()
    names = Names((*(test.subject for test in tests), *(change.subject for change in changes)))
    red = {key: stretch for key, stretch in since.items() if isinstance(key, Subject)}
    groups = failure_groups(tests, run, red, names)
    new = sum(group.count for group in groups if group.standing.red and group.new)
    shown = FeedContext({test.subject: test.record for test in tests}, names, run, baseline, since, newest)
    return {
        "title": results.name,
        "when": moment(results.created),
        "created": results.created,
        "facts": facts(results),
        "head": summary(results, account, new if newest else None, names),
        "failures": [group for group in groups if group.standing.red],
        "known": [group for group in groups if not group.standing.red],
        "comparison": comparison,
        "feed": feed(comparison, shown) if comparison is not None else (),
        "small": f"{SMALL:.1%}",
        "news": bool(newest),
        "newest": newest,
        "run": run,
        "links": links,
        "commit_link": links.to_commit(_manifest_value(results, "commit")),
        "job_link": links.to_job(_manifest_value(results, "job")),
        "matrix": matrix(_without_bench(tests), moved_cells(comparison) if comparison is not None else {}, names),
        "upstreams": upstream_sides(tests),
        "models": _model_pages(tests, advise, names),
        "left_out": max(0, len(_with_page(tests)) - _PAGES),
        "bench": bench_page(tests),
        "trend": before,
        "versions": _versions(results),
        "origins": origins(results),
    }  # fmt: skip


def _manifest_value(results: RunResults, name: str) -> str:
    """Return what the run's first folder says of itself; "" for nothing."""
    return str(results.manifests[0].get(name) or "") if results.manifests else ""


def _since(
    history: History, results: RunResults, tests: Sequence[Accounted], comparison: RunComparison | None
) -> Mapping[NumberNow | Subject, Since]:
    """Return since when what is red is red, and since when what moved is as it is."""
    red = dict.fromkeys(test.subject for test in tests if test.standing.red)
    numbers = list(dict.fromkeys(numbers_now(comparison))) if comparison is not None else []
    since: dict[NumberNow | Subject, Since] = dict.fromkeys((*red, *numbers), Since(None, None, 0))  # of no night: new
    since.update(red_since(history, results, list(red)).items())
    since.update(value_since(history, results, numbers).items())
    return since


def _model_pages(tests: Sequence[Accounted], advise: Advise, names: Names) -> tuple[ModelPage, ...]:
    """Return the pages of what has one: with a profile first, then as they ran."""
    models = sorted(_with_page(tests), key=lambda test: test.record.profile is None)[:_PAGES]
    row = sum(_OF_ROW if test.record.profile is None else _OF_PROFILED_ROW for test in models)
    most = min(_MOST_ROWS, max(_LEAST_ROWS, _ELEMENTS // max(1, row)))
    return tuple(model_page(test, most, advise, names.name(test.subject)) for test in models)


def _with_page(tests: Sequence[Accounted]) -> list[Accounted]:
    """Return what has a page of its own: of a benchmark the fastest point of each case, which has many operations."""
    fastest: dict[tuple[str, ...], Accounted] = {}
    models = [test for test in _without_bench(tests) if has_page(test.record)]
    for test in tests:
        if test.record.bench is not None and len(test.record.ops) >= _MODEL_OPS:
            what = test.subject.what
            best = fastest.setdefault(what, test)
            fastest[what] = min(best, test, key=lambda point: _time(point.record))
    return models + list(fastest.values())


def _time(record: Record) -> float:
    """Return how long the NPU needs, in seconds where its clock is known."""
    cycles = record.metric("npu_cycles")
    clock = record.clock or of_system(record.clock_hz, record.system_config)
    return cycles.value / (clock.hz if clock is not None else 1.0) if cycles is not None else math.inf


def _without_bench(tests: Sequence[Accounted]) -> list[Accounted]:
    """Return what no benchmark made: its points have a section of their own."""
    return [test for test in tests if test.record.bench is None]


def _versions(results: RunResults) -> tuple[tuple[str, str], ...]:
    """Return the versions of all tools, with all that there are of each."""
    by_tool: dict[str, dict[str, None]] = {}
    for record in results.records:
        for name, version in record.versions.items():
            by_tool.setdefault(name, {})[version] = None
    for name, digests in (("timing model", {record.timing_model for record in results.records}),
                          ("firmware", {record.firmware_sha256[:16] for record in results.records}),
                          ("lowering", {e.artifact.lowering for e in results.records if e.artifact})):  # fmt: skip
        known = sorted(digest for digest in digests if digest)
        if known:
            by_tool[name] = dict.fromkeys(known)
    return tuple((name, ", ".join(versions)) for name, versions in by_tool.items())


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
        "long": lambda value: escape(safe(str(value), _LONG)),  # may be longer than a name, such as a message
        "pieces": _pieces, "bound": bound_class, "sample": sample, "heat": heat_step,
        "amount": amount, "percent": percent, "kib": kibibytes, "ms": milliseconds, "clock": clock,
        "per_second": per_second, "operator": short_operator, "share": share, "listed": list_of, "change": change,
        "day": day,
    }  # fmt: skip
    environment.globals |= {"intensity": intensity, "op_intensity": op_intensity,
                            "JOB": JOB, "sides": sides, "VERDICT": VERDICT, "divergence_rows": divergence_rows,
                            "wrong_outputs": wrong_outputs}  # fmt: skip
    return environment


def _make_safe(value: Any) -> Any:
    """Return what the file has for a value of a template."""
    return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _pieces(text: str) -> list[str]:
    """Return a name in pieces, between which a line may break: behind a slash, an underscore or a dot."""
    return re.findall(r"[^/_.]*[/_.]+|[^/_.]+", cut(text, MOST_TEXT)) or [text]
