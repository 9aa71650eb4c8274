"""Mutants that mean the same as the code: nothing that is promised differs, so no test can tell them apart."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from ethos_hil.suites.lab.mutants_of_code.changes import CodeChange

EQUIVALENT = "equivalent"
FILE = Path(__file__).with_name("equivalent.toml")


@cache
def reasons() -> Mapping[tuple[str, str, str], str]:
    """Return why, by file, the statement's first line, and "before -> after"."""
    listed = tomllib.loads(FILE.read_text("utf-8"))["equivalent"]
    return {(entry["file"], entry["line"], change): entry["why"] for entry in listed for change in entry["changes"]}


def why_equivalent(change: CodeChange) -> str:
    """Return why a mutant means the same as the code, or ""."""
    return reasons().get((change.file, change.text, f"{change.before} -> {change.after}"), "")
