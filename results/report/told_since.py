"""Since when something is as it is, as the report says it: the first and the last run, with links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ethos_hil.results.report.links import Links
from ethos_hil.results.report.wording import counted, day
from ethos_hil.results.since import PastNight, Since

_DIGITS = 10
"""Digits of a commit that are shown."""


@dataclass(frozen=True)
class ShownRun:
    """A run of the history: its name, its day, its commit and the CI's job with the addresses of both, "" for none."""

    run: str
    day: str
    commit: str
    commit_link: str
    job_link: str


@dataclass(frozen=True)
class ToldSince:
    """Since when.

    Attributes:
        new: whether it was otherwise in the run before.
        first: the first run in which it was so; None where that is tonight's.
        last: the last run in which it was otherwise; None where the history has none.
        nights: for how many runs it has been so, with tonight's.
        spread: what to say where not all tests of a group are so since one run.
    """

    new: bool
    first: ShownRun | None
    last: ShownRun | None
    nights: str
    spread: str = ""


def told(found: Sequence[Since | None], links: Links) -> ToldSince | None:
    """Return since when tests that belong together are so: the longest of them; None where nothing is known of one."""
    known = [each for each in found if each is not None]
    if not known:
        return None
    longest = max(known, key=lambda each: each.runs)
    others = sum(each.runs < longest.runs for each in known)
    spread = f"{counted(others, 'other')} for fewer nights" if others else ""
    nights = counted(longest.runs + 1, "night")
    return ToldSince(longest.new, _shown(longest.first, links), _shown(longest.last, links), nights, spread)


def _shown(night: PastNight | None, links: Links) -> ShownRun | None:
    if night is None:
        return None
    commit = night.commit[:_DIGITS]
    return ShownRun(night.run, day(night.created), commit, links.to_commit(night.commit), links.to_job(night.job))
