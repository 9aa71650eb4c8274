"""Programs of newer ExecuTorch run, or are refused by name: data in .ptd files, state that starts with values, memory
that is to be fast, direct drive.
"""

from __future__ import annotations

import io
import json
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

import ethos_hil as api
from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.once import Once
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.cli.tests import newer_programs
from ethos_hil.harness.cli.tests.newer_programs import STATE
from ethos_hil.harness.image.pack import SECTION_NAME
from ethos_hil.harness.image.preflight import package_bytes
from ethos_hil.harness.testing.command import Run, check_errors, check_session
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.named_data import read_ptd
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.formats.pte_reader import Program


@pytest.fixture
def here(here: Path, once: Once) -> Path:
    """Be in a folder that has a folder for each kind of program, with whatever lies beside it."""
    shutil.copytree(once("newer programs", newer_programs.write), here, dirs_exist_ok=True)
    return here


BOTH = "--ptd both/flash.ptd --ptd both/dram.ptd"
CONSTANTS = "constants/_default_external_constant.ptd"


def test_what_lacks_its_data_is_refused_by_name(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    """By each command, before anything is packed: the key is never decoded as weights."""
    for command in ("run", "preflight"):
        check_errors(recorded, ethos_hil, command, [
            "weights/net.pte", "both/net.pte", "both/net.pte --ptd both/dram.ptd", "constants/net.pte",
            "variable/net.pte", f"variable/net.pte --ptd {CONSTANTS}", "direct/net.pte --npu ethos-u85-256",
            "weights/net.pte --ptd absent.ptd", "weights/net.pte --ptd net.py", "net.py:net --ptd weights/dram.ptd",
        ], lowers=True)  # fmt: skip


def test_what_has_its_data_runs_and_answers_right(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    """The program of the same network in one file says what is right for those whose delegates are in several."""
    shown = "| verified failed unverified failure output"
    check_session(recorded, ethos_hil, [
        "run whole/net.pte --outputs right.npz --allow-unverified | unverified",
        f"run weights/net.pte --ptd weights/dram.ptd --expected right.npz {shown}",
        f"run inside/net.pte --expected right.npz {shown}",
        f"run both/net.pte {BOTH} --expected right.npz --json r.json {shown}", "json r.json question.model.ptd",
        "bundle r.json -o x.zip", f"run x.zip {shown}",
        f"run constants/net.pte --ptd {CONSTANTS} --allow-cpu-only {shown}",
        f"run variable/net.pte --ptd variable/trained.ptd --repeat 3 --allow-cpu-only {shown}",
        f"run pools/net.pte --allow-cpu-only {shown}",
    ])  # fmt: skip


def test_the_ptd_of_the_programs_own_name_is_found(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    """Where it is needed, and nothing else is given; it is not mixed with what lies there for another program."""
    for name, file in {
        "weights": "dram",
        "constants": "_default_external_constant",
        "whole": "../weights/dram",
    }.items():
        shutil.copy(here / name / f"{file}.ptd", here / name / "net.ptd")
    (here / "variable/net.ptd").write_bytes((here / CONSTANTS).read_bytes())
    (here / "both/other.ptd").write_bytes(b"no data")
    shown = "| verified failed unverified failure note output"
    check_session(recorded, ethos_hil, [
        "run whole/net.pte --outputs right.npz --allow-unverified --json w.json | note",
        f"run weights/net.pte --expected right.npz --json r.json {shown}",
        f"run constants/net.pte --allow-cpu-only {shown}", "bundle r.json -o x.zip", "run x.zip | verified",
    ])  # fmt: skip
    assert "net.ptd" not in (here / "w.json").read_text()
    check_errors(recorded, ethos_hil, "run", [
        "variable/net.pte --allow-cpu-only", "weights/net.pte --ptd both/flash.ptd",
    ], lowers=True)  # fmt: skip


@pytest.mark.parametrize("name", ["initial", "variable"])
def test_state_starts_with_its_initial_value_and_goes_on(name: str, here: Path) -> None:
    files = tuple(map(str, (here / name).glob("*.ptd")))
    result = api.run(
        here / name / "net.pte", ptd=files, inputs=[(np.ones(8, np.float32),)], repeat=3, allow_cpu_only=True
    )
    assert result.verdict is Verdict.VERIFIED
    for step in range(1, 4):
        cache, other = result.outputs_of(0, step - 1)
        np.testing.assert_array_equal(cache, 2 * (STATE.numpy() + step))
        np.testing.assert_array_equal(other, np.full(8, -2.0 * step))


def test_fast_memory_is_in_sram_and_the_rest_is_not(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    rows = "| fast planned scratch"
    check_session(recorded, ethos_hil, [
        f"preflight pools/net.pte --allow-cpu-only {rows}", f"preflight large/net.pte --allow-cpu-only {rows}",
        "run pools/net.pte --allow-cpu-only --json r.json | verified",
    ])  # fmt: skip
    used = {row["name"]: row["value"] for row in json.loads((here / "r.json").read_text())["metrics"]}
    assert (used["planned_bytes"], used["ddr_used"]) == (128, 64)


def test_what_is_needed_is_what_is_packed(ethos_hil: Run, here: Path) -> None:
    """Sees red: without the .ptd files in the package's size, preflight would promise room that is not there."""
    assert ethos_hil("image", "both/net.pte", *BOTH.split(), "image.elf").status == 0
    files = {name: (here / name).read_bytes() for name in BOTH.split()[1::2]}
    artifact = Artifact.of_program((here / "both/net.pte").read_bytes(), "both", files)
    section = ELFFile(io.BytesIO((here / "image.elf").read_bytes())).get_section_by_name(SECTION_NAME)
    assert section.data_size == package_bytes(artifact, 1)


def edit(data: bytes, old: bytes, at: int, new: int) -> bytes:
    """Return the data with one byte changed, `at` bytes after the only place of `old`."""
    begin = data.index(old) + at
    return data[:begin] + bytes([new]) + data[begin + 1 :]


@pytest.mark.parametrize("at", [20, 21, 31])
def test_what_a_block_says_and_nobody_knows_is_refused(at: int, here: Path) -> None:
    pte = edit((here / "whole/net.pte").read_bytes(), b"weight_data\0\0\0\0\0", at, 2)
    path = here / "new.pte"
    path.write_bytes(pte)
    with pytest.raises(UsageError, match=r"'weight_data' has .* which this program does not know"):
        api.run(path)


def test_a_region_that_no_bare_metal_runtime_has_is_refused(here: Path) -> None:
    pte = (here / "whole/net.pte").read_bytes()
    count = b"\1\0\0\0"  # of inputs, after the header of their block
    pte = edit(pte, b"inputs".ljust(16, b"\0"), 32 + len(count) + 8 * 4, 3)
    with pytest.raises(UsageError, match=r"inputs\[0\] is in region 3, expected the scratch area"):
        Artifact.of_program(pte, "new.pte")


def test_memory_of_another_device_and_a_newer_ptd_are_refused(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    check_errors(recorded, ethos_hil, "run", [
        "tensor_elsewhere/net.pte", "memory_elsewhere/net.pte", "weights/net.pte --ptd newer.ptd",
    ], lowers=True)  # fmt: skip


def test_a_tensor_of_another_form_or_a_second_file_that_differs_is_refused(here: Path) -> None:
    pte, ptd = (here / "variable/net.pte").read_bytes(), (here / "variable/trained.ptd").read_bytes()
    other = ptd[:-1] + b"\x7f"
    with pytest.raises(UsageError, match=r"b\.ptd has other data under 'cache' than a \.ptd before it"):
        Program.parse(pte, "net.pte", {"a.ptd": ptd, "b.ptd": other})
    assert Program.parse(pte, "net.pte", {"a.ptd": ptd, "b.ptd": ptd})
    (cache,) = [value for value in Program.parse(pte, "", {"": ptd}).plan().values
                if isinstance(value, Tensor) and value.initial is not None]  # fmt: skip
    assert (cache.initial, cache.data) == (STATE.numpy().tobytes(), None)
    size = np.array([1, 8], "<i4").tobytes()  # how many sizes there are, and the first
    assert ptd.count(size) == 1
    with pytest.raises(UsageError, match=r"tensor \d is \(6, \(8,\), \(0,\)\), 'cache' in the .ptd is \(6, \(9,\)"):
        Program.parse(pte, "net.pte", {"a.ptd": ptd.replace(size, np.array([1, 9], "<i4").tobytes())})


def test_every_truncation_of_a_ptd_is_an_error_and_damage_never_crashes_its_reader(here: Path) -> None:
    ptd = (here / "both/dram.ptd").read_bytes()
    whole = read_ptd(ptd, "")
    for end in range(len(ptd)):
        with pytest.raises(UsageError, match=r"short\.ptd: not a usable \.ptd"):
            read_ptd(ptd[:end], "short.ptd")
    generator = random.Random(0)
    for _ in range(2000):
        damaged = bytearray(ptd)
        for _ in range(generator.randrange(1, 4)):
            damaged[generator.randrange(len(ptd) // 2)] = generator.choice((0, 1, 255, generator.randrange(256)))
        read: Callable[[], object] = partial(read_ptd, bytes(damaged), "")
        try:
            read()
        except UsageError:
            continue
    assert [len(entry.data) % 16 for entry in whole.values()] == [0]
