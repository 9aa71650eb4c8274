"""Command streams for tests: compiled programs, and the same with other values in registers."""

from __future__ import annotations

import struct
from dataclasses import replace
from time import process_time

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.decode.decoder import FIELDS, decode
from ethos_hil.harness.npu.isa.operations import Instruction
from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER, PAYLOAD_SHIFT, Dialect, Opcode
from ethos_hil.harness.npu.isa.registers_u85 import BRANCH
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS

U55 = "ethos-u55-128"
U85 = "ethos-u85-256"
LISTING = "--verbose-register-command-stream"


def compiled(name: str, npu: str, *flags: str) -> CompiledGraph:
    """Return a program of the conformance run, compiled."""
    program = PROGRAMS[name]
    return compile_graph(program.tosa, npu, *program.flags, *flags)


def short(code: int, value: int = 0) -> bytes:
    """Return a command without payload."""
    return struct.pack("<HH", code, value)


def long(code: int, value: int) -> bytes:
    """Return a command with a payload, and the upper bits of its value above it."""
    return struct.pack("<HHI", 1 << PAYLOAD_SHIFT | code, value >> 32, value & 0xFFFFFFFF)


def dialect_of(npu: str) -> Dialect:
    """Return the command set of a configuration."""
    return FIELDS[EthosU.parse(npu).family.command_set](EthosU.parse(npu)).dialect


def writes(npu: str, stream: bytes) -> list[tuple[str, int]]:
    """Return all commands of a stream by name, with their values."""
    dialect, pairs = dialect_of(npu), []
    for _, code, parameter, payload in commands(stream):
        if payload is not None:
            name = "BRANCH" if code == BRANCH and code not in dialect.long else dialect.long[code].name
            pairs.append((name, parameter << 32 | payload))
        else:
            name = Opcode(code).name if code < FIRST_REGISTER else dialect.short[code].name
            pairs.append((name, parameter))
    return pairs


def changed(graph: CompiledGraph, values: dict[str, int], repeat: int = 1) -> bytes:
    """Return the stream with other values in all writes to some registers, and its operations repeated."""
    stream = b""
    pairs = writes(graph.npu, graph.stream)
    for (name, value), (_, code, _, payload) in zip(pairs, commands(graph.stream), strict=True):
        command = short if payload is None else long
        is_operation = payload is None and Opcode.STOP + 1 < code <= Opcode.DMA_START
        stream += command(code, values.get(name, value)) * (repeat if is_operation else 1)
    return stream


def patched(graph: CompiledGraph, **values: int) -> CompiledGraph:
    """Return the program with other values in registers."""
    return replace(graph, stream=changed(graph, values))


def fault_of(graph: CompiledGraph, stream: bytes) -> Fault:
    """Return the fault of running a stream on a program's memory, within 3 s of CPU time; a hang takes minutes."""
    started = process_time()
    npu = Npu(EthosU.parse(graph.npu))
    with pytest.raises(Fault) as caught:
        npu.run(npu.decode(stream), graph.memory([]))
    assert process_time() - started < 3
    return caught.value


def operations_of(graph: CompiledGraph) -> tuple[Instruction, ...]:
    """Return what a program decodes to, without any cache."""
    return decode(graph.stream, EthosU.parse(graph.npu))
