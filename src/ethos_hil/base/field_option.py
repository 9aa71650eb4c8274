"""How a field of a question is asked for, what its values may be, and digests of what they refer to beyond text."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import digest_of_file
from ethos_hil.base.plain_text import did_you_mean

if TYPE_CHECKING:
    import numpy as np

OPTION = "option"
"""The key of a `FieldOption` in the metadata of its field."""


@dataclass(frozen=True)
class FieldOption:
    """How a field of a question is asked for, and what it may be.

    Attributes:
        help: what it does: for --help, and for the docstrings of the API.
        kind: what one value is read as: str, int, float, bool or Path.
        many: whether it may be given several times.
        flags: its names on the command line; by default the field's.
        metavar: what stands for its value in --help.
        choices: the values that there are; empty for any.
        least, most: the bounds of a number, both included.
        otherwise: what is used where none is given, in words.
        example: a value that is not the default.
        parse: makes the value from the text on the command line and its flag, where `kind` is not enough.
        in_python: the forms that Python accepts beyond those of the command line.
        content: whether the content of what it names belongs to the question, and not only its name.
        session: whether a session of pytest has it.
        panel: the heading of its group in --help.
    """

    help: str
    kind: type = str
    many: bool = False
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    otherwise: str = ""
    example: Any = None
    parse: Callable[[str, str], Any] | None = None
    in_python: str = ""
    content: bool = False
    session: bool = False
    panel: str | None = None

    def flag(self, name: str) -> str:
        """Return the first name on the command line of the field that is called `name`."""
        return self.flags[0] if self.flags else f"--{name.replace('_', '-')}"

    def problem(self, name: str, value: Any) -> UsageError | None:
        """Return what is wrong with a value of the field that is called `name`, or None."""
        flag = self.flag(name)
        unknown = [item for item in (value if self.many else (value,)) if self.choices and item not in self.choices]
        if unknown:
            suggestion = did_you_mean(str(unknown[0]), self.choices)
            return UsageError(f"{flag} is {unknown[0]!r}", hint=f"{suggestion}valid: {', '.join(self.choices)}")
        if self.kind not in (int, float) or not isinstance(value, int | float):
            return None
        low, high = self.least, self.most
        if not math.isfinite(value) or (low is not None and value < low) or (high is not None and value > high):
            ends = (f"from {low:,}" if low is not None else "", f"to {high:,}" if high is not None else "")
            bounds = " ".join(("a number", *filter(None, ends)))
            return UsageError(f"{flag} is {value}", hint=f"give {bounds}, such as {self.example}")
        return None

    def from_json(self, name: str, value: Any) -> Any:
        """Return what `to_json` wrote of the field called `name`. Raises TypeError where it is something else."""
        from ethos_hil.base.typed_json import from_json  # late: only readers need cattrs

        if self.many and not isinstance(value, list):
            raise TypeError(f"{name}: {value!r:.50} is not a list of texts")
        kind: Any = tuple[str, ...] if self.many else str if self.kind is Path else self.kind
        try:
            known = from_json(kind, value)
        except ValueError as error:
            raise TypeError(f"{name}: {error}") from error
        return Path(known) if self.kind is Path else known


def to_json(value: Any) -> Any:
    """Return a field's value ready for JSON, which lacks paths, tuples, NaN and infinities."""
    unwritten = isinstance(value, Path) or (isinstance(value, float) and not math.isfinite(value))
    return str(value) if unwritten else list(value) if isinstance(value, tuple) else value


def option(default: Any, **attributes: Any) -> Any:
    """Return a field of a group, with its default; the attributes are those of `FieldOption`."""
    return field(default=default, metadata={OPTION: FieldOption(**attributes)})


def parse_part(text: str, what: str) -> float:
    """Return a part that is written as "90%" or "0.9". Raises UsageError; `what` is the source of the text."""
    number = text.strip()
    try:
        return float(number.removesuffix("%")) / 100 if number.endswith("%") else float(number)
    except ValueError:
        raise UsageError(f"{what} is {text!r:.50}", hint="give a part, such as 90% or 0.9") from None


def digest_of_readable(*paths: Path | str) -> str:
    """Return the digest of a file, or of several in their order; "" for one that cannot be read: whoever needs it says
    so.
    """
    digests = []
    for path in paths:
        try:
            digests.append(digest_of_file(Path(path)))
        except OSError:
            digests.append("")
    return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


def digest_in_memory(value: Any) -> str:
    """Return a digest of arrays, or of what else a field has in memory."""
    digest = hashlib.sha256()
    for array in _arrays(value):
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    if callable(value):
        digest.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}".encode())
    return digest.hexdigest()


def _arrays(value: Any) -> Iterator[np.ndarray]:
    if isinstance(value, list | tuple):
        for item in value:
            yield from _arrays(item)
    elif hasattr(value, "shape"):
        import numpy as np

        yield np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
