"""A compiled program that damaged streams are made from, with its commands and the places of its data."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ethos_hil.harness.npu import Fault, NpuProgram
from ethos_hil.harness.npu.isa.operations import Access
from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph, modes_of
from ethos_hil.harness.verdict.run_delegate import WEIGHTS
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.tosa_program import draw
from ethos_hil.lowering.vela.compiler import VelaRefusal

MAX_BYTES = 1 << 20  # of memory; larger programs take too much of the time
KINDS = ("random", "extremes", "ramp")  # of inputs, see `program.draw`


@dataclass(frozen=True)
class CommandSpan:
    """Bytes [begin, end) of a stream: one command."""

    begin: int
    end: int
    code: int
    value: int
    long: bool


@dataclass(frozen=True)
class CompiledSeed:
    """A compiled program that cases are made from."""

    name: str
    compiled: CompiledGraph

    @property
    def data(self) -> bytes:
        """Its stream."""
        return self.compiled.stream

    def span(self, rng: random.Random) -> tuple[int, int]:
        """Draw some commands in a row. Return where they start and end."""
        first = rng.randrange(len(self.commands))
        part = self.commands[first : first + rng.choice((1, 2, 10, 60))]
        return part[0].begin, part[-1].end

    @cached_property
    def operations(self) -> tuple[CommandSpan, ...]:
        """The commands that are operations."""
        return tuple(command for command in self.commands if not command.long and command.code < FIRST_REGISTER)

    @cached_property
    def commands(self) -> tuple[CommandSpan, ...]:
        """The commands of its stream."""
        return tuple(
            CommandSpan(
                offset,
                offset + (4 if payload is None else 8),
                code,
                parameter if payload is None else parameter << 32 | payload,
                payload is not None,
            )
            for offset, code, parameter, payload in commands(self.compiled.stream)
        )

    @cached_property
    def decoded(self) -> NpuProgram:
        """The decoded stream."""
        return self.compiled.program()

    @cached_property
    def tables(self) -> tuple[Access, ...]:
        """The places of weights, scales and lists of row numbers."""
        accesses = {
            access
            for op in self.decoded.ops
            for access in op.accesses
            if access.register.startswith(("WEIGHT", "SCALE", "DMA0_IDX")) and access.region >= 0
        }
        return tuple(sorted(accesses, key=lambda access: (access.region, access.begin, access.register)))

    def regions(self, rng: random.Random) -> dict[int, bytes]:
        """Return the memory before a run: inputs of a kind drawn at random, and poison elsewhere."""
        program = PROGRAMS[self.name]
        values = program.graph.inputs
        limits = [*program.limits, *[None] * (len(values) - len(program.limits))]
        numbers = np.random.default_rng(rng.getrandbits(32))
        kind = rng.choice(KINDS)
        inputs = [draw(value, kind, numbers, limit) for value, limit in zip(values, limits, strict=True)]
        return {number: data.tobytes() for number, data in self.compiled.memory(inputs).items()}

    @property
    def read_only(self) -> frozenset[int]:
        """Regions that the program does not write."""
        return frozenset({WEIGHTS} - {n for n, extent in self.decoded.extents.items() if extent.write_end})


def draw_seeds(npu: str, rng: random.Random, count: int, only: str = "") -> list[CompiledSeed]:
    """Draw programs for a configuration from those of the catalogue with `only` in their name."""
    names = [name for name in PROGRAMS if only in name]
    return list(itertools.islice(_compiled(npu, rng, rng.sample(names, len(names))), count))


def _compiled(npu: str, rng: random.Random, names: list[str]) -> Iterator[CompiledSeed]:
    for name in names:
        program = PROGRAMS[name]
        try:
            compiled = compile_graph(program.tosa, npu, *program.flags, mode=rng.choice(modes_of(npu)))
        except VelaRefusal:
            continue
        if compiled.weights.size + compiled.scratch_bytes + compiled.fast_bytes > MAX_BYTES:
            continue
        with contextlib.suppress(Fault):  # what the NPU refuses as it is, is not a start
            compiled.program()
            yield CompiledSeed(name, compiled)
