"""Names of a program's outputs: those that the model gives them, by the keys of a dictionary, or their numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBERED = re.compile(r"output (\d+)")
_UNUSABLE = re.compile(r"[/\\\x00-\x1f\x7f]")
"""Characters that the name of a member of an archive should not have."""
LONGEST = 100
"""Characters of a name. A longer one is replaced by a number."""


def number_names(count: int) -> tuple[str, ...]:
    """Return the names of outputs that have none: "output 0", "output 1", ..."""
    return tuple(f"output {index}" for index in range(count))


def fitting(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the names of a number of outputs; numbers, if there are not as many names."""
    return tuple(names) if len(names) == count else number_names(count)


def archive_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of outputs in an archive of arrays: "output 1" is output_1, others keep their name.

    Args:
        names: the outputs' names.
    """
    usable = tuple(_NUMBERED.sub(r"output_\1", _UNUSABLE.sub("_", name)) for name in names)
    return usable if len(set(usable)) == len(usable) else tuple(f"output_{index}" for index in range(len(names)))
