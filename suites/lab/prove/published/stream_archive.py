"""The command streams that ran, kept in one file.

A stream has the shapes, blocks, addresses and sizes of what the NPU does, and no weight. So its cycles can be modelled
without the network and without the version of Vela that made it. No one makes the file again: Vela 5.0.0 made it once.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Npu, NpuProgram

ARCHIVE = Path(__file__).with_name("streams.zip")
_INDEX = "streams.json"


@dataclass(frozen=True)
class CompiledStream:
    """A command stream, and what Vela says of it.

    Attributes:
        network, npu, memory_mode, system: what was compiled, and for what.
        vela: its version.
        file: SHA-256 of the .tflite that Vela wrote; a published run says the same where it is the same program.
        stand_in: whether the network stands for one that was not at hand.
        vela_op: Vela's estimate of all cycles; `vela_npu` without memories.
        encoded: bytes of constants.
        code: the stream.
    """

    network: str
    npu: str
    memory_mode: str
    system: str
    vela: str
    file: str
    stand_in: bool
    vela_op: int
    vela_npu: int
    encoded: int
    code: bytes

    @property
    def name(self) -> str:
        """Its name in the archive."""
        return f"{self.network}/{self.npu}/{self.memory_mode}"

    def program(self) -> NpuProgram:
        """Return the decoded stream."""
        return Npu(EthosU.parse(self.npu)).decode(self.code)


@cache
def kept_streams(path: Path = ARCHIVE) -> Mapping[str, CompiledStream]:
    """Return the streams of the archive, by name."""
    known = {field.name for field in fields(CompiledStream)} - {"code"}
    with zipfile.ZipFile(path) as archive:
        rows = json.loads(archive.read(_INDEX))
        streams = (
            CompiledStream(
                **{key: row[key] for key in known},
                code=archive.read(f"{row['network']}/{row['npu']}/{row['memory_mode']}.bin"),
            )
            for row in rows
        )
        return {stream.name: stream for stream in streams}
