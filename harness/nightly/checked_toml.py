"""TOML files that a JSON schema describes; what is wrong with one is said with its line and key."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.errors import UsageError
from ethos_hil.results.regular_file import read_text

if TYPE_CHECKING:
    from jsonschema import ValidationError

_MOST = 10 << 20
"""Largest size of such a file, bytes."""
_HEADER = re.compile(r"""\s*\[(?P<array>\[)?\s*(?P<name>[\w"'.-]+)\s*\]""")
_KEY = re.compile(r"""\s*["']?(?P<name>[\w-]+)["']?\s*=""")
_HINT = "docs/nightly.md has an example"


def read_checked(path: Path, schema: str) -> dict[str, Any]:
    """Return what a TOML file says. A date is text, as in ISO 8601.

    Args:
        path: the file.
        schema: the name of the JSON schema beside this module.

    Raises:
        UsageError: it cannot be read, is no TOML, or is not as the schema says.
    """
    try:
        text = read_text(path, most=_MOST)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", hint=_HINT) from error
    try:
        data: dict[str, Any] = _dates_as_text(tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no TOML: {error}", hint=_HINT) from error
    problem = _problem(data, schema)
    if problem is not None:
        place, message = problem
        raise UsageError(f"{path}:{line_of(text, place)}: {message}", hint=_HINT)
    return data


def _problem(data: Mapping[str, Any], schema: str) -> tuple[Sequence[str | int], str] | None:
    from jsonschema import Draft202012Validator  # late: it takes 0.1 s
    from jsonschema.exceptions import best_match

    rules = json.loads(resources.files(__package__).joinpath(schema).read_text())
    error = best_match(Draft202012Validator(rules).iter_errors(data))
    if error is None:
        return None
    place = list(error.absolute_path)
    unknown = _unknown(error)
    if unknown is None:
        return place, f"{_shown(place)}: {error.message}" if place else error.message
    known = sorted(error.schema["properties"])
    close = difflib.get_close_matches(unknown, known, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    return [*place, unknown], f"{_shown([*place, unknown])} is not known: {suggestion}there are {', '.join(known)}"


def _unknown(error: ValidationError) -> str | None:
    """Return the first key that the schema does not know, where that is the error."""
    if error.validator != "additionalProperties" or not isinstance(error.instance, Mapping):
        return None
    return next(name for name in error.instance if name not in error.schema.get("properties", {}))


def _shown(place: Sequence[str | int]) -> str:
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
            name = header["name"].strip("\"'")
            table = [name]
            if header["array"]:
                seen[name] = seen.get(name, -1) + 1
                table.append(seen[name])
            here = table
        elif key is not None:
            here = [*table, key["name"]]
        else:
            continue
        shared = here[: len(place)]
        if len(shared) > best and shared == list(place[: len(shared)]):
            best, line = len(shared), number
    return line


def _dates_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _dates_as_text(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_dates_as_text(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value
