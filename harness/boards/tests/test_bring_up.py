"""What the steps of `boards bring-up` say of numbers, and the report. suites/lab/bench/tests has them on a board."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.bring_up_probe import (
    NOCYCCNT,
    CpuIdentity,
    MemorySpan,
    NpuIdentity,
    check_clock,
    check_identity,
    examine_memory,
    halting_state,
)
from ethos_hil.harness.boards.bring_up_report import BringUpReport, BringUpStep, StepFinding
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.gdb.remote import GdbRemote

MHZ = 1_000_000


class SmallMemory:
    """A memory behind a server: it answers at all addresses, with fewer lines for them."""

    server = "a server"
    usable = True

    def __init__(self, size: int) -> None:
        self.bytes = bytearray(size)

    def read(self, address: int, size: int) -> bytes:
        return bytes(self.bytes[(address + at) % len(self.bytes)] for at in range(size))

    def write(self, address: int, data: bytes) -> None:
        for at, byte in enumerate(data):
            self.bytes[(address + at) % len(self.bytes)] = byte


def examined(memory: SmallMemory) -> tuple[int, bool]:
    span = MemorySpan("SRAM", "soc.memories.SRAM", 0, 0x10000, ("pool",))
    return examine_memory(cast(GdbRemote, memory), span, lambda done, parts: None)


def test_a_memory_that_keeps_everything_passes_and_is_put_back() -> None:
    memory = SmallMemory(0x10000)
    memory.bytes[:] = before = bytes(index * 7 % 251 for index in range(0x10000))
    tested, restored = examined(memory)
    assert (tested > 12_000, restored, memory.bytes) == (True, True, before)


@pytest.mark.parametrize("there", [0x1000, 0x4000, 0x8000])
def test_a_memory_that_is_smaller_than_the_file_says_repeats(there: int) -> None:
    with pytest.raises(TargetError, match="has the same bytes at 0x") as caught:
        examined(SmallMemory(there))
    assert caught.value.kind is FailureKind.READBACK
    assert caught.value.hint == "correct soc.memories.SRAM in the board's file to what the board has"


CLOCKS = [
    (100 * MHZ, 300 * MHZ, (2.999, 3.001), 0),
    (100 * MHZ, 302 * MHZ, (2.999, 3.001), 0),
    (100 * MHZ, 600 * MHZ, (2.999, 3.001), 0),
    (100 * MHZ, 294 * MHZ, (2.999, 3.001), 0),
    (100 * MHZ, 0, (3, 3.1), 0),
    (100 * MHZ, 1, (3, 3.1), NOCYCCNT),
]
"""What the firmware says, the cycles that passed between two times of the host, and DWT_CTRL."""


def test_the_clock_is_judged(recorded: Recorded) -> None:
    recorded.check("\n".join(f"{clock}: {check_clock(*clock)}" for clock in CLOCKS))


def test_identities_are_read(recorded: Recorded) -> None:
    processors = [CpuIdentity(word) for word in (0x410FD221, 0x411FD230, 0)]
    npus = [
        NpuIdentity(*words)
        for words in ((0x10066001, 0x1807), (0x20000000, 0x20000008), (0, 0), (0, 0x1807), (2**32 - 1,) * 2)
    ]
    recorded.check(
        [
            *((str(cpu), cpu.core, cpu.runs("cortex-m55"), cpu.runs("cortex-m85")) for cpu in processors),
            *((str(npu), npu.name, npu.answers) for npu in npus),
            *(check_identity((name,), npus[0], {}) for name in ("ethos-u55-128", "ethos-u55-256")),
            halting_state(0x00030003),
        ]
    )


def report(*steps: BringUpStep, **board: Any) -> BringUpReport:
    alif = dataclasses.replace(find_board("alif-e8-hp"), **board)
    return BringUpReport(alif, "", steps, "", "2026-11-26T00:00:00+00:00")


def test_the_first_failure_decides_on_the_status(recorded: Recorded) -> None:
    ok = BringUpStep("file", StepFinding("right"))
    late = BringUpStep("speed", StepFinding.failed(FailureKind.LINK, "slow", "a cable"), 0.5, 1)
    absent = BringUpStep("probe", StepFinding.failed(FailureKind.NOT_LAUNCHED, "no server", "start it"), 0.5, 3)
    left = BringUpStep("clock", StepFinding.left_out("why not"))
    assert (report(ok).exit_status, report(ok, absent, late).exit_status, report(ok, late).exit_status) == (0, 3, 1)
    result = report(ok, absent, left)
    recorded.check([result.summary, result.document()["steps"]])


def test_what_a_board_says_is_no_markup_in_the_report(recorded: Recorded) -> None:
    markup = "<script>alert(1)</script> | `rm -rf` \x1b[31m\n# A heading"
    step = BringUpStep("monitor", StepFinding.failed(FailureKind.LINK, markup, markup, {"console": [markup]}))
    text = report(step, description=markup).markdown()
    recorded.check(text.partition("\nMade ")[0])
    assert not any(word in text for word in ("\x1b", "\n# A heading"))


def test_the_report_has_no_paths_and_no_commands_of_the_user(tmp_path: Path) -> None:
    own = tmp_path / "my-board.toml"
    own.write_text(
        'extends = "alif-e8-hp"\n[link]\nurl = "/dev/ttyACM0"\n[loading]\n'
        f'command = ["{tmp_path}/JLinkGDBServer", "-port", "{{port}}", "-select", "ip=secret.lab"]\n'
        '[power]\ncycle = ["curl", "http://user:word@outlet.lab/cycle"]\n'
    )
    failed = StepFinding.failed(FailureKind.PROBE, f"{tmp_path}/JLinkGDBServer ended", f"look at {tmp_path}/log.txt")
    result = BringUpReport(find_board(str(own)), "", (BringUpStep("probe", failed),), "", "now")
    for text in (result.markdown(), str(result.document())):
        assert str(tmp_path) not in text
        assert "outlet.lab" not in text
        assert "secret.lab" not in text
        assert "/dev/ttyACM0" in text
        assert "JLinkGDBServer ended" in text
