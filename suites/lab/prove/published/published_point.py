"""The published totals, and which of them no fit of the timing model may use.

A pair of a network and a configuration is held out or not, with all its points: the same stream under other adapters
tells much of the same. The third that is held out is drawn by SHA-256 of the pair's names, for each family of NPUs
(operations: for each kind of operation) apart. It was drawn once, before the model was fitted, and stays.
"""

from __future__ import annotations

import csv
import hashlib
import json
import zipfile
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass, fields
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


TOTALS = Path(__file__).with_name("totals.csv")
OF_THREE = 3
IDLE = 550
"""Cycles by which a total exceeds those in which the NPU was active, where only the total is known. An FVP's counter
moves in steps of 1,000, so that idle cycles at the end count: 59 to 1,074, on average 568, in the 113 runs that give
both. IDLE is off by at most 525."""
Pair = tuple[str, str]


class PointKind(StrEnum):
    """Why a run was made."""

    NETWORK = "network"  # a network with the adapters that belong to the system
    OFF = "off"  # the same without adapters
    SWEEP = "sweep"  # the same with changed adapters
    OPERATION = "operation"  # one operation
    MODE = "mode"  # a network in other memory modes, as the sum of its groups of operations, counted one by one
    BOARD = "board"  # a network on an FPGA, whose memories are not the adapters'
    DOCUMENT = "document"  # a log in MLEK's documents, of a stream that another version of Vela made


@dataclass(frozen=True)
class PublishedPoint:
    """A run of an FVP that someone published.

    Attributes:
        kind: why it was made.
        network: short name; operations have their shape in it.
        npu: the configuration.
        memory_mode, system: what Vela compiled it for. `system` names a section of `systems.ini`.
        adapters: profile of the timing adapters, or "off"; `changes` are fields with other values.
        total: the NPU's cycle counter after the job.
        active: event NPU_ACTIVE; None where it is not published.
        beats: words read from port 0, written to it, read from port 1, written to it; None where not published.
        source: key in `sources.toml`.
    """

    kind: PointKind
    network: str
    npu: str
    memory_mode: str
    system: str
    adapters: str
    changes: str
    total: int
    active: int | None
    beats: tuple[int | None, int | None, int | None, int | None]
    source: str

    @property
    def pair(self) -> Pair:
        """Network and configuration, which are held out together."""
        return self.network, self.npu

    @property
    def stream(self) -> str:
        """The name of the command stream that ran."""
        return f"{self.network}/{self.npu}/{self.memory_mode}"

    @property
    def family(self) -> str:
        """The NPU without its number of MACs."""
        return self.npu.rpartition("-")[0]

    @property
    def cycles(self) -> int:
        """Cycles in which the NPU was active: what a model is compared with. A board's are those that software sees."""
        if self.kind is PointKind.BOARD:
            return self.total
        return self.total - IDLE if self.active is None else self.active

    @property
    def held_out(self) -> bool:
        """Whether no fit may use it."""
        return self.pair in held_out()

    @property
    def stratum(self) -> str:
        """What a third is drawn of."""
        return self.network.partition("-")[0] if self.kind is PointKind.OPERATION else self.family


@cache
def published_points() -> tuple[PublishedPoint, ...]:
    """Return all points, in the order of the file."""
    with TOTALS.open(newline="") as file:
        return tuple(_point(row) for row in csv.DictReader(file))


def _point(row: dict[str, str]) -> PublishedPoint:
    beats = tuple(_number(row[name]) for name in ("read0", "written0", "read1", "written1"))
    return PublishedPoint(
        PointKind(row["kind"]), row["network"], row["npu"], row["memory_mode"], row["system"], row["adapters"],
        row["changes"], int(row["total"]), _number(row["active"]), (beats[0], beats[1], beats[2], beats[3]),
        row["source"],
    )  # fmt: skip


def _number(text: str) -> int | None:
    return int(text) if text else None


@cache
def held_out() -> frozenset[Pair]:
    """Return the pairs that are held out."""
    return drawn(published_points())


def drawn(points: Iterable[PublishedPoint]) -> frozenset[Pair]:
    """Return a third of the pairs of points, as it is drawn for each stratum."""
    strata: dict[str, set[Pair]] = {}
    for point in points:
        strata.setdefault(point.stratum, set()).add(point.pair)
    return frozenset(pair for pairs in strata.values() for pair in sorted(pairs, key=_draw)[::OF_THREE])


def _draw(pair: Pair) -> str:
    return hashlib.sha256(" ".join(pair).encode()).hexdigest()
