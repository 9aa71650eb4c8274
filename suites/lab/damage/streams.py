"""Damaged command streams: compiled programs of the catalogue whose stream, constants or memory are damaged.

For every stream, with any weights and any memory, a run on the functional NPU must end within a second, in a result or
in a Fault of a known kind, and must not touch anything outside of its regions. Everything else is a finding. Most
damage gives one register another value, because damage that is too coarse ends in the decoder every time.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import resource
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, NpuProgram
from ethos_hil.harness.npu.isa.operations import Access
from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER, PAYLOAD_SHIFT
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph, modes_of
from ethos_hil.harness.verdict.run_delegate import WEIGHTS
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.tosa_program import draw
from ethos_hil.lowering.vela.compiler import VelaRefusal
from ethos_hil.suites.lab.damage import loop, mutation
from ethos_hil.suites.lab.damage.loop import CRASHED, DamageEnding
from ethos_hil.suites.lab.damage.mutation import FieldPlace, Way
from ethos_hil.suites.lab.damage.stream_trial import FAULT_KINDS, RESULT, StreamCase, examine
from ethos_hil.suites.lab.shared import CORES, Jobs, JsonFile

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


ADDRESS_BITS = 40
BLOCK = 64
"""Cases of a configuration that are made from the same programs."""
PROGRAMS_OF_A_BLOCK = 4
"""Programs of a block."""
MEMORY_BYTES = 1 << 30
"""What a worker may ask for beyond what it has when its first block is prepared."""
HAZARDS_EVERY = 4
_HANG_SECONDS = 30.0
"""Of a case, which is run up to 18 times where it is slow and has many steps of damage."""
_MOST_STEPS = 5
"""Of a case: three of its stream, one of memory, one of a region."""


@dataclass(frozen=True)
class Streams:
    """The damaged streams of a seed.

    Attributes:
        seed: of all randomness.
        npus: the configurations, which take turns.
        only: part of the names of the programs to use.
    """

    seed: int
    npus: tuple[str, ...] = EthosU.names()
    only: str = ""
    title = "Running damaged streams"
    seconds = _HANG_SECONDS
    outcomes = (RESULT, *FAULT_KINDS, CRASHED)

    @property
    def command(self) -> str:
        """The words of its command line."""
        options = [f"--npu {npu}" for npu in self.npus if self.npus != EthosU.names()]
        options += [f"--program '{self.only}'"] if self.only else []
        return " ".join((f"streams --seed {self.seed}", *options))

    def kin(self, number: int) -> tuple[str, int]:
        """Return configuration and block: the cases in it are made from the same programs."""
        turn, place = divmod(number, len(self.npus))
        return self.npus[place], turn // BLOCK

    def maker(self, number: int) -> Callable[..., StreamCase]:
        """Compile the programs of a block. Return the function that makes the case of a number in it."""
        npu, block = self.kin(number)
        seeds = draw_seeds(npu, random.Random(f"{self.seed}/{npu}/{block}/programs"), PROGRAMS_OF_A_BLOCK, self.only)
        return partial(self._case, seeds)

    def prepare(self, number: int) -> Callable[[int], DamageEnding]:
        """Compile the block's programs, and limit the memory of this process."""
        make = self.maker(number)
        limit_memory()  # only now: the compiler, which is loaded by now, reserves a lot
        return partial(self._examined, make)

    def lost(self, number: int, reason: str) -> DamageEnding:
        """Return the ending of a case that crashed or hung."""
        npu, block = self.kin(number)
        return DamageEnding(number, f"{npu}, block {block}", npu, CRASHED, finding=reason)

    def _case(self, seeds: Sequence[CompiledSeed], number: int, kept: Collection[int] | None = None) -> StreamCase:
        """Make a case from the programs of its block, with all steps of its damage or only some."""
        name = f"{self.seed}/{self.kin(number)[0]}/{number // len(self.npus)}"
        rng = random.Random(name)
        damaged = _Damaged(rng.choice(seeds), seeds, rng)
        steps = damaged.steps(rng)
        words = [
            step(random.Random(f"{name}/{at}")) for at, step in enumerate(steps) if kept is None or at in kept
        ]  # each step draws for itself, so that one can be left out
        return damaged.case(tuple(words))

    def _examined(self, make: Callable[..., StreamCase], number: int) -> DamageEnding:
        hazards = number // len(self.npus) % HAZARDS_EVERY == 0

        _, ending = loop.smallest(_MOST_STEPS, lambda kept: examine(make(number, kept), number, hazards=hazards))
        return ending


class _Damaged:
    """A program on its way to becoming a case."""

    def __init__(self, seed: CompiledSeed, others: Sequence[CompiledSeed], rng: random.Random) -> None:
        self._seed, self._others = seed, others
        self._stream = bytearray(seed.data)
        self._regions = {number: bytearray(data) for number, data in seed.regions(rng).items()}
        self._read_only = seed.read_only

    def steps(self, rng: random.Random) -> list[Callable[[random.Random], str]]:
        """Draw steps of damage. Each says what it did."""
        damage_data = rng.random() < 0.25
        count = rng.choice((0, 1)) if damage_data else rng.choice((1, 1, 1, 1, 2, 3))
        steps: list[Callable[[random.Random], str]] = [self._damage_stream] * count
        if damage_data or not steps:
            steps.append(self._damage_memory)
        if rng.random() < 0.08:
            steps.append(self._damage_region)
        return steps

    def case(self, words: tuple[str, ...]) -> StreamCase:
        """Return the case as it is now."""
        compiled = self._seed.compiled
        regions = {number: bytes(data) for number, data in self._regions.items()}
        program = f"{self._seed.name}, {compiled.mode}"
        return StreamCase(compiled.npu, bytes(self._stream), regions, self._read_only, program, words)

    def _damage_stream(self, rng: random.Random) -> str:
        way = rng.choices(tuple(WAYS), tuple(WAYS.values()))[0]
        return way(rng, self._stream, self._seed, self._others)

    def _damage_memory(self, rng: random.Random) -> str:
        """Damage weights, scales or row numbers, or any part of a region."""
        if self._seed.tables and rng.random() < 0.8:
            at = rng.choice(self._seed.tables)
            number, begin, end, what = at.region, at.begin, at.end, at.register
        else:
            number = rng.choice(sorted(self._regions))
            begin, end, what = 0, len(self._regions[number]), "bytes"
        data = self._regions[number]
        end = min(end, len(data))
        if begin >= end:
            return f"{what} not there"
        if rng.random() < 0.4:
            begin = rng.randrange(begin, end)
            end = min(end, begin + rng.choice((1, 4, 10, 64)))
        how = rng.choice((mutation.flip, *[mutation.overwrite] * 4))
        return f"{how(rng, data, begin, end)} of region {number} ({what})"

    def _damage_region(self, rng: random.Random) -> str:
        """Shorten a region, take it away, or protect it from being written."""
        number = rng.choice(sorted(self._regions))
        how = rng.choice(("shortened", "missing", "read-only"))
        if how == "shortened":
            how = mutation.cut(rng, self._regions[number], self._seed, ())
        elif how == "missing":
            del self._regions[number]
        else:
            self._read_only |= {number}
        return f"region {number} {how}"


# --- fields; they are those of the undamaged stream, so a second mutation may hit the middle of another command


def _register(rng: random.Random, seed: CompiledSeed) -> FieldPlace:
    """Draw a command that sets a register: its value."""
    command = rng.choice([c for c in seed.commands if c.long or c.code >= FIRST_REGISTER])
    bits = (ADDRESS_BITS if rng.random() < 0.5 else 48) if command.long else 16
    same = [c.value for c in seed.commands if (c.code, c.long) == (command.code, command.long)]
    return _field(command, bits, (rng.choice(same), rng.choice(seed.commands).value))


def _parameter(rng: random.Random, seed: CompiledSeed) -> FieldPlace:
    """Draw an operation: its parameter."""
    return _field(rng.choice(seed.operations), 16, ())


def _operation(rng: random.Random, seed: CompiledSeed) -> FieldPlace:
    """Draw an operation: its code."""
    command = rng.choice(seed.operations)
    alike = (rng.choice(seed.operations).code, rng.randrange(0x20))
    return FieldPlace("operation", command.begin, command.code, 16, partial(struct.pack, "<H"), alike)


def _field(command: CommandSpan, bits: int, alike: Sequence[int]) -> FieldPlace:
    name = f"{'long' if command.long else 'short'} {command.code:#05x}"
    return FieldPlace(name, command.begin, command.value, bits, partial(_encoded, command), alike)


def _encoded(command: CommandSpan, value: int) -> bytes:
    """Return the command with another value, as bytes."""
    if not command.long:
        return struct.pack("<HH", command.code, value)
    return struct.pack("<HHI", 1 << PAYLOAD_SHIFT | command.code, value >> 32, value & 0xFFFFFFFF)


WAYS: dict[Way[CompiledSeed], int] = {
    mutation.renumbers(_register): 60,
    mutation.renumbers(_parameter): 4,
    mutation.renumbers(_operation): 3,
    mutation.bits: 8,
    mutation.word: 4,
    mutation.swap: 6,
    mutation.cut: 3,
    mutation.drop: 4,
    mutation.repeat: 3,
    mutation.splice: 8,
}
"""The ways of damage, with how often each is taken."""


def limit_memory() -> None:
    """Limit this process to MEMORY_BYTES in addition to what it has, unless it is limited already."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        return
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(
    count: loop.Count = 11000,
    seed: loop.Seed = 1,
    npu: Annotated[
        list[str] | None, typer.Option(metavar="NPU", help="Configuration, e.g. ethos-u85-256; default: all.")
    ] = None,
    program: Annotated[str, typer.Option(metavar="TEXT", help="Only programs with this in their name.")] = "",
    first: loop.First = 0,
    only: loop.Only = None,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
) -> None:
    """Damage command streams, weights and regions; find whatever does not end soon in a result or a named fault."""
    npus = tuple(EthosU.parse(name).name for name in npu) if npu else EthosU.names()
    loop.damage(Streams(seed, npus, program), count=count, first=first, only=only, jobs=jobs, json_file=json_file)
