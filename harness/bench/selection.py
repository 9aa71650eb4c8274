"""The cases of a grid that are asked for."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.bench.case import BenchGrid


def select(grid: BenchGrid, tags: Sequence[str] = (), names: Sequence[str] = ()) -> BenchGrid:
    """Return the grid with the cases that have one of the tags, and one of the names.

    Args:
        grid: the grid.
        tags: such as "short"; empty for all.
        names: patterns of a shell for the names of cases, or the names of groups; empty for all.

    Raises:
        UsageError: a tag or name takes none of the grid's cases, or no case has both; says which come close.
    """
    for tag in tags:
        known = sorted({each for case in grid.cases for each in case.tags})
        if tag not in known:
            raise _takes_nothing(grid, "tag", tag, known)
    for pattern in names:
        if not any(_matches(case.name, case.group, pattern) for case in grid.cases):
            known = sorted({each for case in grid.cases for each in (case.name, case.group)})
            raise _takes_nothing(grid, "name or group", pattern, known)
    chosen = tuple(
        case
        for case in grid.cases
        if (not tags or set(tags) & set(case.tags))
        and (not names or any(_matches(case.name, case.group, pattern) for pattern in names))
    )
    if not chosen:
        raise UsageError(
            f"no case of the grid {grid.name} is tagged {' or '.join(tags)} and called {' or '.join(names)}",
            hint="ask for other tags, or other names",
        )
    return replace(grid, cases=chosen)


def _matches(name: str, group: str, pattern: str) -> bool:
    return group == pattern or fnmatchcase(name, pattern)


def _takes_nothing(grid: BenchGrid, what: str, asked: str, known: Sequence[str]) -> UsageError:
    close = difflib.get_close_matches(asked.strip("*?"), known, n=3, cutoff=0.4)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(known[:8])}"
    return UsageError(f"no case of the grid {grid.name} has the {what} {asked!r}", hint=hint)
