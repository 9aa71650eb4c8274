"""The processor that follows start-up code computes what QEMU's Cortex-M55 does, and stops at what it does not know."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.image.lint.core import NotFollowed, Undecided
from ethos_hil.harness.image.lint.processor import Processor
from ethos_hil.harness.image.lint.program import ElfProgram
from ethos_hil.harness.image.lint.start_up import PartMemory
from ethos_hil.harness.image.tests.test_lint import ENABLE, Compiler
from ethos_hil.harness.image.thumb import PC
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.virtual.board import new_board
from ethos_hil.harness.virtual.machine import Machine

SOC = find_soc("corstone-300")
RESULTS, SCRATCH = 0x31000000, 0x31100000
CONDITIONS = ("eq", "ne", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le")
SHIFTS = ("lsl", "lsr", "asr", "ror")
_DONE = """
    ldr r0, =0x59303000
    movs r1, #1
    str r1, [r0, #8]
    str r1, [r0]
"""
"""Turns the UART on, and sends a byte: the host waits for it."""


def random_instruction(rng: random.Random) -> str:
    """Return one of the instructions that compilers emit, on r0 to r7, in assembly."""
    d, n, m, a = (f"r{rng.randrange(8)}" for _ in range(4))
    s, amount = rng.choice(("", "s")), rng.randrange(1, 32)
    shift = rng.choice(("", f", {rng.choice(SHIFTS)} #{amount}"))
    immediate = rng.choice(
        (rng.randrange(256), rng.randrange(256) << rng.randrange(25), rng.randrange(256) * 0x01010101)
    )
    low, width = rng.randrange(32), 0
    width = rng.randrange(1, 33 - low)
    first, second = (n, m) if n != m else (n, f"r{(int(n[1:]) + 1) % 8}")
    offset = rng.randrange(0, 64, 4)
    condition = rng.choice(CONDITIONS)
    return rng.choice(
        (
            f"{rng.choice(('add', 'adc', 'sub', 'sbc', 'rsb'))}{s} {d}, {n}, {m}{shift}",
            f"{rng.choice(('add', 'adc', 'sub', 'sbc', 'rsb'))}{s} {d}, {n}, #{immediate}",
            f"{rng.choice(('and', 'orr', 'eor', 'bic', 'orn'))}{s} {d}, {n}, {m}{shift}",
            f"{rng.choice(('and', 'orr', 'eor', 'bic', 'orn'))}{s} {d}, {n}, #{immediate}",
            f"{rng.choice(('mov', 'mvn'))}{s} {d}, {m}",
            f"mvn{s} {d}, {m}{shift}",
            f"{rng.choice(SHIFTS)}{s} {d}, {n}, #{amount}",
            f"{rng.choice(SHIFTS)}{s} {d}, {n}, {m}",
            f"{rng.choice(('cmp', 'cmn', 'tst', 'teq'))} {n}, {m}",
            f"{rng.choice(('cmp', 'cmn', 'tst', 'teq'))} {n}, #{immediate}",
            f"movw {d}, #{rng.randrange(1 << 16)}",
            f"movt {d}, #{rng.randrange(1 << 16)}",
            f"{rng.choice(('ubfx', 'sbfx', 'bfi'))} {d}, {n}, #{low}, #{width}",
            f"bfc {d}, #{low}, #{width}",
            f"{rng.choice(('uxtb', 'uxth', 'sxtb', 'sxth', 'clz', 'rbit', 'rev'))} {d}, {n}",
            f"{rng.choice(('udiv', 'sdiv', 'mul'))} {d}, {n}, {m}",
            f"{rng.choice(('mla', 'mls'))} {d}, {n}, {m}, {a}",
            f"{rng.choice(('umull', 'smull'))} {first}, {second}, {d}, {a}",
            f"{rng.choice(('csel', 'csinc', 'csinv', 'csneg'))} {d}, {n}, {m}, {condition}",
            f"it {condition}; mov{condition} {d}, {m}",
            f"ite {condition}; add{condition} {d}, {n}, {m}; eor{_opposite(condition)} {d}, {d}, {m}",
            f"b{condition} 9f; add {d}, {n}, #1; 9:",
            f"{rng.choice(('cbz', 'cbnz'))} {n}, 9f; add {d}, {n}, #1; 9:",
            f"str {n}, [r8, #{offset}]; {rng.choice(('ldr', 'ldrb', 'ldrh', 'ldrsb', 'ldrsh'))} {d}, [r8, #{offset}]",
            f"{rng.choice(('str', 'strb', 'strh'))} {n}, [r8], #4; ldr {d}, [r8, #-4]!",
            f"strd {n}, {m}, [r8, #8]; ldrd {first}, {second}, [r8, #8]",
            f"str {n}, [r8, #5]; ldr {d}, [r8, #5]",
            "stmia r8!, {r0-r3}; ldmdb r8!, {r4-r7}",
            f"push {{{n}, lr}}; pop {{{d}, lr}}",
            f"movs {d}, #3; dls lr, {d}; 9: add {d}, {d}, {m}; le lr, 9b",
            f"movs {d}, #1; tbb [pc, {d}]; 8: .byte (7f-8b)/2, (9f-8b)/2; 7: mvns {n}, {m}; 9: adds {n}, {n}, #1",
        )
    )  # fmt: skip


def _opposite(condition: str) -> str:
    return CONDITIONS[CONDITIONS.index(condition) ^ 1]


def random_program(seed: int, length: int = 300) -> tuple[list[str], str]:
    """Return instructions, and code that keeps r0 to r7 and the flags after each of them."""
    rng = random.Random(seed)
    instructions = [random_instruction(rng) for _ in range(length)]
    lines = [
        "movs r0, #0",
        f"ldr r8, =0x{SCRATCH - 256:x}",
        "movs r1, #128",
        "1: str r0, [r8], #4",
        "subs r1, #1",
        "bne 1b",
    ]
    lines += [f"ldr r9, =0x{RESULTS:x}", f"ldr r8, =0x{SCRATCH:x}"]
    lines += [f"ldr r{number}, =0x{rng.getrandbits(32):08x}" for number in range(8)]
    for index, instruction in enumerate(instructions):
        lines += [instruction, "stmia r9!, {r0-r7}; mrs r10, apsr; and r10, r10, #0xF0000000; str r10, [r9], #4"]
        lines.append(f"ldr r8, ={SCRATCH}")
        if index % 20 == 19:
            lines.append(f"b.w pool{index}; .ltorg; pool{index}:")
    return instructions, "\n".join(lines)


def followed(elf: bytes) -> PartMemory:
    """Execute a program to `main`. Return what it wrote."""
    program = ElfProgram(elf, SOC)
    memory = PartMemory(program, lambda *_: None)
    stack, reset = (program.word(SOC.boot + offset) for offset in (0, 4))
    assert stack is not None
    assert reset is not None
    processor = Processor(memory, stack, reset)
    goal = program.address_of("main")
    while processor.state.r[PC] != goal:
        processor.step(processor.next())
    return memory


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_it_computes_what_qemu_computes(tmp_path: Path, seed: int) -> None:
    """Protects every check of start-up: where it went another way than a part, nothing that it says would hold."""
    instructions, code = random_program(seed)
    elf = Compiler(tmp_path).elf(f"{code}\n{_DONE}", stack="0x30008000")
    words = followed(elf).words
    here = {address: value for address, value in words.items() if RESULTS <= address < SCRATCH - 256}
    board = new_board(SOC, elf)
    with Machine(board, EthosU.parse("ethos-u55-128"), Deadline(30)) as machine:
        machine.output()
        machine.where()  # stops it
        there = machine.read(RESULTS, 4 * len(here))
    wrong, count = [], 0
    for address, value in sorted(here.items()):
        right = int.from_bytes(there[address - RESULTS : address - RESULTS + 4], "little")
        count += value is not None
        if value is not None and value != right:
            wrong.append((address, value, right))
    assert not wrong, (
        f"{instructions[(wrong[0][0] - RESULTS) // 36]}: word {(wrong[0][0] - RESULTS) // 4 % 9}, {wrong[:3]}"
    )
    assert count > 0.95 * len(here), "nearly everything is known"


def test_code_that_was_overwritten_is_read_again(tmp_path: Path) -> None:
    """Start-up may copy code over other code."""
    call = "str r1, [r0]; orr r2, r0, #1; blx r2; str r3, [r4], #4"
    returns = [f"ldr r1, =0x4770{0x2300 | value:04x}; {call}" for value in (1, 2)]  # movs r3, #value; bx lr
    elf = Compiler(tmp_path).elf(f"ldr r0, =0x{SCRATCH:x}; ldr r4, =0x{RESULTS:x}; {'; '.join(returns)}")
    words = followed(elf).words
    assert [words[RESULTS], words[RESULTS + 4]] == [1, 2]


def test_no_instruction_makes_it_fail(tmp_path: Path) -> None:
    """Whatever the code, it is executed, or not followed: any ELF may be asked about."""
    elf = Compiler(tmp_path).elf(ENABLE)
    program = ElfProgram(elf, SOC)
    rng = random.Random(1)
    for _ in range(20_000):
        memory = PartMemory(program, lambda *_: None)
        memory.cpacr = None
        code = rng.choice((rng.getrandbits(32), rng.getrandbits(16) << 16 | rng.randrange(0xE800, 0x10000)))
        memory.words[SCRATCH] = code
        processor = Processor(memory, 0x30001000, SCRATCH | 1)
        for number in range(13):
            processor.state.r[number] = rng.choice((None, 0, 1, 0x31000000, rng.getrandbits(32)))
        try:
            processor.step(processor.next())
        except (NotFollowed, Undecided):
            continue
