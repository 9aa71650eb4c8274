"""TOML files that someone else wrote: reading one ends soon and says what is wrong, by a JSON schema with line and
key, whatever is in it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import read_text, reason
from ethos_hil.base.plain_text import did_you_mean

if TYPE_CHECKING:
    from jsonschema import ValidationError

_MOST, _LONGEST_LINE = 1 << 20, 10_000
"""Largest size of such a file, bytes, and of a line, characters. tomllib takes time and memory by the square of the
parts of a key, 31 s and 6 GB for 50,000 of them, and a key is in one line."""
_HEADER = re.compile(r"""\s*\[(?P<array>\[)?\s*(?P<name>(?:[\w.-]|"[^"]*"|'[^']*')+)\s*\]""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_KEY = re.compile(r"""\s*(?P<name>(?:[\w-]+|"[^"]*"|'[^']*'))\s*=""")


@dataclass(frozen=True)
class CheckedToml:
    """A TOML file that is as its schema says.

    Attributes:
        name: the file, in messages.
        text: what is in it.
        data: the same as objects. A date is text, as in ISO 8601.
    """

    name: str
    text: str = field(repr=False)
    data: Mapping[str, Any]

    def line_of(self, *place: str | int) -> str:
        """Return the line of a key, or of what is nearest to it: "grid.toml:12"."""
        return f"{self.name}:{line_of(self.text, place)}"


def read_checked(path: Path, schema: Traversable | Mapping[str, Any], see: str, name: str | None = None) -> CheckedToml:
    """Return what a TOML file says.

    Args:
        path: the file.
        schema: its JSON schema, or the file with it.
        see: the document that explains such files, for hints: "docs/nightly.md has an example".
        name: what messages call the file; by default its path.

    Raises:
        UsageError: it cannot be read, is not TOML, or is not as the schema says.
    """
    shown = str(path) if name is None else name
    try:
        text = read_text(path, most=_MOST)
        if any(len(line) > _LONGEST_LINE for line in text.splitlines()):
            raise ValueError(f"a line has more than {_LONGEST_LINE:,} characters")
        data: dict[str, Any] = _dates_as_text(tomllib.loads(text))
    except OSError as error:
        raise UsageError(f"{shown} cannot be read: {reason(error)}", hint=see) from error
    except ValueError as error:
        raise UsageError(f"{shown} is not TOML: {error}", hint=see) from error
    except RecursionError as error:
        raise UsageError(f"{shown} is not TOML: arrays or tables are nested too deeply", hint=see) from error
    checked = CheckedToml(shown, text, data)
    problem = problem_of(data, schema if isinstance(schema, Mapping) else json.loads(schema.read_text()))
    if problem is not None:
        place, message = problem
        raise UsageError(f"{checked.line_of(*place)}: {message}", hint=see)
    return checked


def problem_of(data: Mapping[str, Any], rules: Mapping[str, Any]) -> tuple[Sequence[str | int], str] | None:
    """Return the key that is not as a JSON schema says, and what is wrong with it; None where all is right."""
    from jsonschema import Draft202012Validator  # late: it takes 0.1 s
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(rules).iter_errors(data))
    if error is None:
        return None
    place = list(error.absolute_path)
    unknown = _unknown(error)
    if unknown is None:
        return place, f"{_show(place)}: {error.message}" if place else error.message
    known = sorted(error.schema["properties"])
    suggestion = did_you_mean(unknown, known)
    return [*place, unknown], f"{_show([*place, unknown])} is not known: {suggestion}there are {', '.join(known)}"


def _unknown(error: ValidationError) -> str | None:
    """Return the first key that the schema does not know, where that is the error."""
    if error.validator != "additionalProperties" or not isinstance(error.instance, Mapping):
        return None
    return next(name for name in error.instance if name not in error.schema.get("properties", {}))


def _show(place: Sequence[str | int]) -> str:
    """Return a place in a file as its author counts: the first of a list is 1."""
    return "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def line_of(text: str, place: Sequence[str | int]) -> int:
    """Return the line of a key of a TOML file, or of what is nearest to it: its table, or the file."""
    best, line = 0, 1
    table: list[str | int] = []
    seen: dict[str, int] = {}
    for number, content in enumerate(text.splitlines(), start=1):
        header, key = _HEADER.match(content), _KEY.match(content)
        if header is not None:
            name = header["name"]
            table = [part.strip("\"'") for part in _PART.findall(name)]
            if header["array"]:
                seen[name] = seen.get(name, -1) + 1
                table.append(seen[name])
            here = table
        elif key is not None:
            here = [*table, key["name"].strip("\"'")]
        else:
            continue
        shared = here[: len(place)]
        if len(shared) > best and shared == list(place[: len(shared)]):
            best, line = len(shared), number
    return line


def _dates_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _dates_as_text(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_dates_as_text(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value
