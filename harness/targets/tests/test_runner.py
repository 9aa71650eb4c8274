"""The host's side of the semihosting runner: our firmware where it goes well, scripts where it does not."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import TargetError, TargetNotAvailable, UsageError
from ethos_hil.base.testing.recorded import Recorded, plain, shown
from ethos_hil.harness.fvp_stand_in.tests.jobs import load
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.targets.contract import endless
from ethos_hil.harness.targets.executor_runner import RunnerJob, command_line, run_program
from ethos_hil.harness.targets.fvp import FvpTarget
from ethos_hil.harness.targets.tests.conftest import U55, Fake, fails, image_of
from ethos_hil.harness.targets.tests.variants import DATA
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.tests import programs
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.formats.pte_reader import Program

TIMEOUT = 60.0
PMU = """I [executorch:arm_perf_monitor.cpp:172 StopMeasurements()] NPU Inferences : 2
I [executorch:arm_perf_monitor.cpp:227 StopMeasurements()] ethosu_pmu_cycle_cntr : % 2468 (1234.00 per inference)
I [executorch:arm_executor_runner.cpp:771 log_mem_status()] method_allocator_planned:  192 bytes"""


def job_of(program: programs.Recorded, repeat: int = 1) -> RunnerJob:
    return RunnerJob(program.pte, [program.inputs], Program.parse(program.pte).plan().output_tensors, repeat)


ADD = job_of(load("add", "corstone-300"))


def run(job: RunnerJob = ADD, *, fast: bool = False, timeout: float = TIMEOUT) -> Outcome:
    return run_program(FvpTarget("corstone-300", U55, fast=fast), b"the runner", job, timeout=timeout)


# --- Our firmware as the runner. ---


def test_an_error_of_our_firmware_keeps_its_kind() -> None:
    recorded = load("add", "corstone-300")
    damaged = bytearray(recorded.pte)
    damaged[recorded.pte.index(b"quantize_per_tensor")] ^= 1
    job = RunnerJob(bytes(damaged), [recorded.inputs], ADD.outputs)
    with pytest.raises(TargetError, match="exit status 1") as caught:
        run_program(VirtualTarget(str(U55)), find_firmware(), job, timeout=TIMEOUT)
    assert caught.value.kind == "unsupported"
    assert caught.value.console


def test_a_program_without_end_on_the_virtual_board_says_where_it_is_and_where_it_writes() -> None:
    image, target = endless(image_of(load("add", "corstone-320"), "corstone-320")), VirtualTarget("ethos-u85-256")
    fails(lambda: run_program(target, image.elf, ADD, timeout=0.5), "timeout", "the program is in reset")
    target.load(image)
    fails(lambda: target.run(timeout=0.5), "timeout", "writes to the UART at 0x59303000 or 0x58203000")


@pytest.mark.parametrize("elf", [b"", b"\x7fELF\x02\x01 of another machine" + bytes(64)], ids=["empty", "64 bits"])
def test_what_is_no_elf_for_the_board_is_refused(elf: bytes) -> None:
    with pytest.raises(UsageError, match="the runner cannot be run"):
        run_program(VirtualTarget(str(U55)), elf, ADD, timeout=TIMEOUT)


# --- Runners that behave otherwise. ---


def answers(folder: Path) -> str:
    """Shell commands that write the right outputs of "add"."""
    (output,) = load("add", "corstone-300").outputs
    (folder / "right").write_bytes(output.tobytes())
    return f"cp {folder / 'right'} out-0.bin"


def test_files_arguments_and_numbers_are_those_of_the_protocol(recorded: Recorded, fake: Fake, tmp_path: Path) -> None:
    copies = tmp_path / "seen"
    copies.mkdir()
    folder = fake(f"cp * {copies}; echo {shlex.quote(PMU)}; {answers(tmp_path)}")
    outcome = run()
    program = load("add", "corstone-300")
    given = {"program.pte": program.pte, "i0.bin": program.inputs[0], "i1.bin": program.inputs[1]}
    assert {path.name: path.read_bytes() for path in copies.iterdir()} == given
    arguments = (folder / "arguments").read_text().replace("-C\n", "-C ")
    recorded.check(
        re.sub(r"=/.*/ethos-hil-runner-\w+$|/.*/image.elf|--timelimit\n\d+", "[of the run]", arguments, flags=re.M)
    )
    assert outcome.runs[0].counted == 1234, "2,468 cycles of two inferences"
    assert outcome.memory == {"planned_bytes": 192}
    np.testing.assert_equal(outcome.runs[0].outputs, program.outputs, strict=True)
    assert any("ethosu_pmu_cycle_cntr" in line for line in outcome.console)


def test_an_output_with_channels_last_comes_in_its_own_shape(fake: Fake, tmp_path: Path) -> None:
    """It is contiguous, whatever its layout in the file, as upstream's runner_utils gives it since executorch 1.5."""
    rows = np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)
    (tmp_path / "rows").write_bytes(rows.tobytes())
    fake(f"cp {tmp_path / 'rows'} out-0.bin")
    output = Tensor("CHAR", (1, 4, 2, 3), (0, 2, 3, 1), None, 0, None)
    (answer,) = run(RunnerJob(ADD.program, ADD.input_sets, [output])).runs[0].outputs
    np.testing.assert_array_equal(answer, rows.transpose(0, 3, 1, 2), strict=True)
    assert answer.flags.c_contiguous


def test_lines_made_to_be_searched_for_ever_are_searched_once(fake: Fake, tmp_path: Path) -> None:
    fake(f'{answers(tmp_path)}; awk \'BEGIN {{ for (; i < 700; i++) printf "ethosu_pmu_cycle_cntr:%3900s\\n", "" }}\'')
    started = time.monotonic()
    assert run().runs[0].counted is None
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("word", ["ethosu_pmu_cycle_cntr :", "stack_used: 1 /", "sram_pool_used:", "stack_used:"])
def test_a_number_of_thousands_of_digits_is_none(fake: Fake, tmp_path: Path, word: str) -> None:
    fake(f"{answers(tmp_path)}; printf '{word} %03900d\\n' 7")
    outcome = run()
    assert (outcome.runs[0].counted, outcome.runs[0].stack_used) in ((None, 0), (None, 1))
    assert outcome.memory == {}


_LINES = [line.split(" | ", 2) for line in (DATA / "runners.txt").read_text().splitlines() if " | " in line]
RUNNERS = {name: (outputs, script) for outputs, name, script in _LINES}


@pytest.mark.parametrize("name", RUNNERS)
def test_what_is_wrong_with_a_run_has_a_kind_of_its_own(
    recorded: Recorded, fake: Fake, tmp_path: Path, name: str
) -> None:
    """Even with right outputs, and with words of failure also with status 0. It is seen at once: no output file is
    waited for, or read without end."""
    outputs, script = RUNNERS[name]
    fake(f"{answers(tmp_path)}; {script}" if outputs == "right" else script)
    started = time.monotonic()
    with pytest.raises((TargetError, TargetNotAvailable)) as caught:
        run()
    assert time.monotonic() - started < 5
    recorded.check(plain(shown(caught.value.failure), [tmp_path]))


def test_every_execution_starts_with_an_empty_folder(fake: Fake, tmp_path: Path) -> None:
    """The second execution writes nothing, and must not be taken for the first."""
    fake(f"[ -e {tmp_path / 'once'} ] || {{ touch {tmp_path / 'once'}; {answers(tmp_path)}; }}")
    twice = job_of(load("add", "corstone-300"), repeat=2)
    fails(lambda: run(twice), "missing-output", "input set 0, repeat 1: ")


def test_a_command_line_longer_than_fvps_pass_on_is_refused() -> None:
    assert len(command_line(19)) <= 255
    with pytest.raises(UsageError, match="at most 255"):
        command_line(30)
