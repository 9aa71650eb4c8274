"""A failure of a program that was lowered with `--as-upstream`, and so has defects of Vela that are known by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.verdict import Failure
from ethos_hil.lowering.artifact import Artifact

_HINT = "leave out --as-upstream: they are repaired then"


def left_in(artifact: Artifact) -> tuple[str, ...]:
    """Return the ids of the known defects that an artifact's compiled programs have."""
    kept = (each for each in artifact.delegates if each.compiled is None)
    return tuple(dict.fromkeys(defect for each in kept for defect in each.defects))


def named(failure: Failure, artifact: Artifact) -> Failure:
    """Return a failure that names the known defects that the program has, if it has any."""
    defects = left_in(artifact)
    if not defects:
        return failure
    return dataclasses.replace(failure, message=f"{failure.message}; {_said(defects)}", hint=_HINT)


@contextmanager
def naming_defects(artifact: Artifact) -> Iterator[None]:
    """While inside, an error of the run names the known defects that the program has."""
    try:
        yield
    except UsageError:
        raise
    except EthosHilError as error:
        defects = left_in(artifact)
        if not defects:
            raise
        raise error.replace(message=f"{error.message}; {_said(defects)}", hint=_HINT) from error


def _said(defects: tuple[str, ...]) -> str:
    return f"the program has known defects of Vela 5.1, left in by --as-upstream: {', '.join(defects)}"
