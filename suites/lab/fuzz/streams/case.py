"""A case of the fuzzer: a damaged command stream and memory. A case can be kept in a file."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class StreamCase:
    """A stream and memory to run.

    Attributes:
        npu: the configuration.
        stream: register command stream.
        regions: the bytes of each region before the run.
        read_only: regions that must not be written.
        program: the conformance program it was made from, and for which memory mode.
        mutations: what was done to it, in words.
    """

    npu: str
    stream: bytes
    regions: Mapping[int, bytes]
    read_only: frozenset[int]
    program: str
    mutations: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.npu}: {self.program}: {'; '.join(self.mutations) or 'as compiled'}"

    def save(self, path: Path, finding: str) -> None:
        """Write the whole case to a file, with what is wrong about it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {
            "finding": finding,
            "npu": self.npu,
            "program": self.program,
            "mutations": self.mutations,
            "read_only": sorted(self.read_only),
            "stream": self.stream.hex(),
            "regions": {number: _packed(data) for number, data in self.regions.items()},
        }
        path.write_text(json.dumps(content, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> StreamCase:
        """Return the case that `save` wrote."""
        content = json.loads(path.read_text())
        return cls(
            npu=content["npu"],
            stream=bytes.fromhex(content["stream"]),
            regions={int(number): _unpacked(text) for number, text in content["regions"].items()},
            read_only=frozenset(content["read_only"]),
            program=content["program"],
            mutations=tuple(content["mutations"]),
        )


def _packed(data: bytes) -> str:
    return base64.b85encode(zlib.compress(data)).decode("ascii")


def _unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))
