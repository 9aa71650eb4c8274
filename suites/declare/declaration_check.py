"""Checks of declarations when they are made: a name that nothing looks up would be ignored in silence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from ethos_hil.base.errors import UsageError
from ethos_hil.suites.declare.suffix import SUFFIXES


def check_profiles(owner: str, attribute: str, names: Iterable[object]) -> None:
    """Check that all of `names` are profiles.

    Args:
        owner: what is declared, for the message: "operator relu".
        attribute: the attribute of the declaration that names them.
        names: the names.

    Raises:
        UsageError: one is not; names the nearest.
    """
    for name in names:
        if name not in SUFFIXES:
            close = difflib.get_close_matches(str(name), SUFFIXES, n=1, cutoff=0.4)
            suggestion = f"did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"{owner}: {attribute} names {name!r}, which is no profile",
                hint=f"{suggestion}profiles: {', '.join(SUFFIXES)}",
            )


def check_by_profile(owner: str, attribute: str, value: object, kind: type[Any]) -> None:
    """Check that `value` is a mapping from profiles to objects of `kind`.

    Raises:
        UsageError: it is not; says what it is.
    """
    if not isinstance(value, Mapping):
        raise UsageError(
            f"{owner}: {attribute} is a {type(value).__name__}", hint="give a dictionary with an entry for each profile"
        )
    check_profiles(owner, attribute, value)
    for profile, entry in value.items():
        check_kind(owner, f"{attribute}[{profile!r}]", entry, kind)


def check_kind(owner: str, attribute: str, value: object, kind: type[Any]) -> None:
    """Check that `value` is an object of `kind`.

    Raises:
        UsageError: it is not; says what it is, and what is wanted.
    """
    if not isinstance(value, kind):
        raise UsageError(f"{owner}: {attribute} is {value!r}, a {type(value).__name__}", hint=f"give a {kind.__name__}")
