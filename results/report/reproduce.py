"""Links to commits and jobs of the CI, by templates of the reader's own servers; and commands to copy: what shows a
result again, what bundles it, and what accepts a change.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from urllib.parse import quote

from ethos_hil.base.asking import BENCH, again, words
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.plain_text import portable
from ethos_hil.base.record import Record

_SCHEME = "https://"


@dataclass(frozen=True)
class Links:
    """Templates of addresses.

    Attributes:
        commit: with {commit} in it, such as "https://github.com/me/repo/commit/{commit}"; "" for no links.
        job: with {job} in it, such as "https://github.com/me/repo/actions/runs/{job}"; "" for none. A job that is an
            address itself, as on GitLab, needs no template.
    """

    commit: str = ""
    job: str = ""

    def to_commit(self, commit: str) -> str:
        """Return the address of a commit, "" for none."""
        return _fill(self.commit, "{commit}", commit)

    def to_job(self, job: str) -> str:
        """Return the address of a job, "" for none."""
        return job if job.startswith(_SCHEME) else _fill(self.job, "{job}", job)


NO_LINKS = Links()


def check_template(template: str, name: str) -> str:
    """Return what is wrong with a template, "" for nothing.

    Args:
        template: the template.
        name: what must be in it: "commit" or "job".
    """
    if not template.startswith(_SCHEME):
        return f"{template!r} does not begin with {_SCHEME}"
    if f"{{{name}}}" not in template:
        return f"{template!r} has no {{{name}}} in it"
    return ""


def _fill(template: str, place: str, value: str) -> str:
    if not value or not template.startswith(_SCHEME):
        return ""
    return template.replace(place, quote(value, safe=""))


_OF_MODELS = "models"
_OUR_GRIDS = ("default", _OF_MODELS)
"""Grids that are not files of the user's: that of `ethos-hil bench`, and of its MODELs."""
_BUNDLED = ("virtual", "fvp", "board")
"""Kinds of targets with an NPU; a test against the reference alone, or one that failed before it ran, had none."""
_NAMED = 8
"""Tests that a command names one by one."""


def rerun(record: Record) -> str:
    """Return the command that asks a record's question again, on any machine; "" where no command can."""
    point = record.bench
    if point is None:
        return again(record.asked, elsewhere=True)
    model, *options = words(record.asked, BENCH, elsewhere=True)
    users = (point.source.rpartition(":")[0],) if point.grid not in _OUR_GRIDS else ()
    grid = [word for file in users for word in ("--grid", portable(file))]
    case = [model] if point.grid == _OF_MODELS else ["--case", point.case, *grid]
    booted = "--boot" if record.executions else "--no-boot"
    return shlex.join((*BENCH.command, *case, *options, booted))


def bundle(run: str, record: Record) -> str:
    """Return the command that writes a zip which shows the result elsewhere; "" where there is nothing to bundle.

    Args:
        run: the name of the run's folder.
        record: what failed or changed.
    """
    if not run or not record.npu or record.target.kind not in _BUNDLED or record.runner is not None:
        return ""
    return shlex.join(["ethos-hil", "bundle", run, record.label])


def accept(run: str, baseline: str, labels: Iterable[str]) -> str:
    """Return the command that puts what changed into a baseline.

    Args:
        run: the name of the run's folder.
        baseline: the baseline's file.
        labels: what to accept; many become one pattern.
    """
    names = sorted(set(labels))
    chosen = names if len(names) <= _NAMED else [pattern(names)]
    only = (part for name in chosen for part in ("--only", name))
    return shlex.join(["ethos-hil", "accept", run, "--baseline", portable(baseline), *only])


def also_accepted(labels: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    """Return which others the command of `accept` takes as well."""
    names = sorted(set(labels))
    chosen = names if len(names) <= _NAMED else [pattern(names)]
    rest = set(others) - set(names)
    return tuple(sorted(name for name in rest if any(text in name or fnmatchcase(name, text) for text in chosen)))


def pattern(labels: Sequence[str]) -> str:
    """Return a shell's pattern for labels: what they begin and end with, and anything between."""
    start = _beginning(labels)
    end = _beginning([label[len(start) :][::-1] for label in labels])[::-1]
    return f"{_quote(start)}*{_quote(end)}"


def _beginning(texts: Sequence[str]) -> str:
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False))
    return "".join(column[0] for column in columns)


def _quote(text: str) -> str:
    """Return a text as a shell's pattern that fits it alone."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)
