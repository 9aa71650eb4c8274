"""Which array of a file is for which tensor of a program: by the names, or in the order of the file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from ethos_hil.base.errors import UsageError

_NUMBERED = re.compile(r"(arr|input|output)_(0|[1-9]\d*)")
"""Names that say nothing but a number: numpy's for arrays without one, and ours."""
_ALIKE = 0.75
"""From where on `difflib` calls two names alike: `lef` and `left` have 0.86, `image` and `mask` 0.22."""


def in_order(path: Path, found: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return the names of a file's arrays in the order of the tensors of a program that they are for.

    Arrays that all have names of the tensors may be in any order. Where none has, `input_1` and the like are in the
    order of their numbers, and others in that of the file.

    Args:
        path: the file, for an error.
        found: the names of its arrays, as many as there are tensors.
        names: the tensors' names. If they are not as many as the tensors, they say nothing.

    Raises:
        UsageError: only some of the names fit, or one is only nearly right, so that arrays might be swapped.
    """
    if set(found) == set(names):
        return list(names)
    if len(found) == 1 or len(names) != len(found):
        return _by_number(found)
    fitting = [name for name in found if name in names]
    others = [name for name in found if name not in names]
    free = [name for name in names if name not in found]
    if fitting:
        raise _misnamed(path, others, free, names, f"{', '.join(fitting)} {'do' if len(fitting) > 1 else 'does'}")
    folded = {name.casefold(): name for name in names}
    cased = [name for name in found if name.casefold() in folded]
    if cased:
        raise _misnamed(path, cased, names, names, "upper and lower case differ")
    if _numbers(found):
        return _by_number(found)
    elsewhere = [name for name, own in zip(found, names, strict=True) if _nearest(name, names) not in ("", own)]
    if elsewhere:
        raise _misnamed(path, elsewhere, names, names, "the order in the file is another one")
    return list(found)


def _misnamed(path: Path, wrong: Sequence[str], free: Sequence[str], names: Sequence[str], why: str) -> UsageError:
    near = [close for close in dict.fromkeys(_nearest(name, free, 0.4) for name in wrong) if close]
    suggestion = f"did you mean {', '.join(near)}? " if near else ""
    rule = "give all of them, or none: then the order in the file counts"
    return UsageError(
        f"{path}: {', '.join(wrong)}: not a name of the program's, where {why}",
        hint=f"{suggestion}The names are {', '.join(names)}; {rule}",
    )


def _nearest(name: str, names: Sequence[str], cutoff: float = _ALIKE) -> str:
    folded = {each.casefold(): each for each in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else ""


def _numbers(found: Sequence[str]) -> list[int]:
    """Return the numbers of names that are one word with a number each; none where there are others."""
    matches = [match for match in map(_NUMBERED.fullmatch, found) if match is not None]
    same = len(matches) == len(found) and len({match[1] for match in matches}) == 1
    return [int(match[2]) for match in matches] if same else []


def _by_number(found: Sequence[str]) -> list[str]:
    numbers = _numbers(found)
    return [name for _, name in sorted(zip(numbers, found, strict=True))] if numbers else list(found)
