"""Change what is in a .pt2."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PROGRAM = "models/model.json"
INPUTS = "data/sample_inputs/model.pt"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


def contents(path: Path) -> dict[str, bytes]:
    """The members of a .pt2, without the name of their folder."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a .pt2 of these members."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"model/{name}", data)
    return path


def changed(path: Path, member: str, change: Callable[[Any], object]) -> Path:
    """Write `evil.pt2` beside a .pt2, with one document changed in place by a function."""
    members = contents(path)
    document = json.loads(members[member])
    change(document)
    members[member] = json.dumps(document).encode()
    return write(path.with_name("evil.pt2"), members)


def replaced(path: Path, member: str, data: bytes) -> Path:
    """Write `evil.pt2` beside a .pt2, with one member replaced or added."""
    return write(path.with_name("evil.pt2"), {**contents(path), member: data})
