"""Preflight: every row can fail, a failing row says what would help, and the device agrees where it is asked."""

from __future__ import annotations

import dataclasses
import io
import struct

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.errors import TargetError
from ethos_hil.base.question import Question
from ethos_hil.base.record import Check
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint, memory_mode
from ethos_hil.harness.image.formats import DeviceMemoryMode, PackageHeader
from ethos_hil.harness.image.pack import SECTION_NAME, RunPlan, pack
from ethos_hil.harness.image.preflight import (
    FAIL,
    NOTE,
    OK,
    Destination,
    PreflightFailed,
    examine,
    package_bytes,
    raise_if_failed,
)
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.vela.memory_mode import MemoryMode

ADD = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
KIB = 1 << 10
ROOMY = Firmware(0x10000000, 2 << 20, 256 << 20, 256 << 20, 32 * KIB, frozenset(ADD.plan.operators))
HERE = Destination("ethos-u55-128", "corstone-300", ROOMY)
NEEDS = Footprint(planned=(20 * KIB,), scratch=30 * KIB, constants=(4 * KIB, 6 * KIB), fast_scratch=0)


def rows(
    artifact: Artifact = ADD, place: Destination = HERE, needs: Footprint = NEEDS, input_sets: int = 1,
    asked: MemoryMode | None = None,
) -> dict[str, Check]:  # fmt: skip
    return {check.name: check for check in examine(artifact, place, needs, input_sets=input_sets, asked=asked)}


def with_memory(**facts: int) -> Destination:
    return dataclasses.replace(HERE, firmware=dataclasses.replace(ROOMY, **facts))  # type: ignore[arg-type]


def in_mode(name: str) -> Artifact:
    return dataclasses.replace(ADD, memory_mode=MemoryMode(name))


def test_what_fits_has_no_failing_row() -> None:
    checks = rows()
    assert {check.status for check in checks.values()} == {OK, NOTE}
    names = ("npu", "command stream", "memory mode", "firmware", "kernels", "package", "scratch", "planned", "stack")
    assert tuple(checks) == ("delegation", *names)
    raise_if_failed(tuple(checks.values()))


# --- The NPU. ---


@pytest.mark.parametrize("npu", ["ethos-u55-256", "ethos-u65-256"])
def test_another_npu_fails_and_names_the_flag(npu: str) -> None:
    row = rows(place=dataclasses.replace(HERE, npu=npu))["npu"]
    assert (row.status, row.needed, row.available) == (FAIL, "ethos-u55-128", npu)
    assert "--npu ethos-u55-128" in str(row.fix)


def test_a_newer_command_stream_or_architecture_fails() -> None:
    data = bytearray(ADD.pte)
    at = data.index(b"COP1")
    config, identity = struct.unpack_from("<II", data, at + 8)
    for words, fits in (
        ((config | 1 << 4, identity), False),  # another stream version
        ((config, identity + (1 << 28)), False),  # another major version
        ((config, identity + (1 << 20)), False),  # a newer minor version
        ((config, identity - (1 << 16)), True),  # another patch
    ):
        struct.pack_into("<II", data, at + 8, *words)
        row = rows(Artifact.of_program(bytes(data), "changed.pte"))["command stream"]
        assert row.status == (OK if fits else FAIL), row
        assert (row.fix is None) is fits


def test_a_memory_mode_other_than_asked_for_fails() -> None:
    assert rows(asked=MemoryMode("Shared_Sram"))["memory mode"].status == OK
    row = rows(asked=MemoryMode("Sram_Only"))["memory mode"]
    assert (row.status, row.needed, row.available) == (FAIL, "Shared_Sram", "Sram_Only")
    assert "--memory-mode Shared_Sram" in str(row.fix)
    mute = dataclasses.replace(ADD, memory_mode=None)
    assert rows(mute)["memory mode"].status == NOTE


# --- The firmware. ---


def test_the_firmware_of_another_board_fails() -> None:
    row = rows(place=with_memory(start=0x11000000))["firmware"]
    assert (row.status, row.needed) == (FAIL, "corstone-300")
    assert "corstone-320" in row.available
    assert "ETHOS_HIL_FIRMWARE" in str(row.fix)


def test_missing_kernels_are_listed() -> None:
    poor = dataclasses.replace(HERE, firmware=dataclasses.replace(ROOMY, operators=frozenset({"aten::add.out"})))
    row = rows(place=poor)["kernels"]
    assert row.status == FAIL
    for operator in ADD.plan.operators:
        assert operator in row.needed
    assert "add-a-kernel" in str(row.fix)
    assert "make firmware" not in str(row.fix), "that would build the same firmware"


def test_an_elf_that_tells_nothing_gives_notes() -> None:
    mute = Firmware(0x10000000, None, None, None, None, None)
    checks = rows(place=dataclasses.replace(HERE, firmware=mute))
    assert {checks[name].status for name in ("kernels", "package", "scratch", "planned", "stack")} == {NOTE}


def test_a_runner_gives_one_note_for_all_that_it_does_not_tell() -> None:
    checks = rows(place=dataclasses.replace(HERE, firmware=None))
    assert tuple(checks) == ("delegation", "npu", "command stream", "memory mode", "runner")
    assert checks["runner"].status == NOTE
    dedicated = rows(in_mode("Dedicated_Sram"), dataclasses.replace(HERE, firmware=None))["runner"]
    assert "--memory-mode Shared_Sram" in str(dedicated.fix)


# --- Memory. ---


def test_scratch_comes_before_planned_memory_and_what_spills_is_a_note() -> None:
    checks = rows(place=with_memory(sram=40 * KIB))
    assert checks["scratch"].status == OK
    assert checks["planned"].status == NOTE, "10 KiB of SRAM are left for 20"
    assert "DDR" in checks["planned"].available
    checks = rows(place=with_memory(sram=10 * KIB))
    assert (checks["scratch"].status, checks["planned"].status) == (NOTE, NOTE)


def test_what_fits_nowhere_fails() -> None:
    package = package_bytes(ADD, 1)
    checks = rows(place=with_memory(sram=10 * KIB, ddr=package + 25 * KIB))
    assert checks["scratch"].status == FAIL
    assert checks["scratch"].needed == "30,720 bytes"
    assert "10,240 bytes of SRAM" in checks["scratch"].available
    assert f"{25 * KIB:,} bytes of DDR" in checks["scratch"].available
    assert checks["planned"].status == NOTE, "the DDR is still free"


def test_sram_only_needs_constants_and_scratch_in_sram_and_is_shared_sram_otherwise() -> None:
    tables = 16 * KIB
    checks = rows(in_mode("Sram_Only"), with_memory(sram=40 * KIB + tables))
    assert checks["constants"].status == checks["scratch"].status == OK
    checks = rows(in_mode("Sram_Only"), with_memory(sram=39 * KIB + tables))
    assert checks["constants"].status == NOTE
    assert "stay in DDR, as with Shared_Sram" in checks["constants"].available
    assert checks["scratch"].status == OK
    assert rows(in_mode("Sram_Only"), with_memory(sram=9 * KIB))["scratch"].status == NOTE


def test_a_dedicated_sram_is_for_the_fast_scratch_alone() -> None:
    needs = dataclasses.replace(NEEDS, fast_scratch=600 * KIB)
    place = with_memory(sram=600 * KIB, ddr=package_bytes(ADD, 1) + 50 * KIB)
    checks = rows(in_mode("Dedicated_Sram"), place, needs)
    assert checks["fast scratch"].status == checks["scratch"].status == checks["planned"].status == OK
    assert "DDR" in checks["scratch"].available
    checks = rows(in_mode("Dedicated_Sram"), with_memory(sram=599 * KIB), needs)
    assert checks["fast scratch"].status == FAIL
    assert checks["fast scratch"].fix == "--memory-mode Dedicated_Sram_512KB", "the largest limit that fits"
    tiny = rows(in_mode("Dedicated_Sram"), with_memory(sram=9), needs)["fast scratch"]
    assert tiny.fix == "--memory-mode Shared_Sram"
    full = rows(in_mode("Dedicated_Sram"), dataclasses.replace(place, firmware=dataclasses.replace(
        ROOMY, ddr=package_bytes(ADD, 1) + 49 * KIB)), needs)  # fmt: skip
    assert full["planned"].status == FAIL


def test_a_package_too_large_asks_for_fewer_input_sets_where_that_helps() -> None:
    size = package_bytes(ADD, 1)
    assert rows(place=with_memory(package=size))["package"].status == OK
    row = rows(place=with_memory(package=size), input_sets=2)["package"]
    assert (row.status, row.fix) == (FAIL, "fewer input sets at once")
    assert "2 input sets" in row.needed
    assert rows(place=with_memory(package=size - 1))["package"].fix == "a smaller program or input"


@pytest.mark.parametrize("sets", [1, 3])
def test_the_package_is_as_large_as_the_one_that_is_packed(sets: int) -> None:
    inputs = [bytes(tensor.nbytes) for tensor in ADD.plan.input_tensors]
    image = pack(find_firmware(), ADD.pte, [inputs] * sets, RunPlan(sets, len(inputs)))
    package = ELFFile(io.BytesIO(image.elf)).get_section_by_name(SECTION_NAME).data()
    assert package_bytes(ADD, sets) == PackageHeader.unpack(package)["total_size"] == len(package)


def test_failures_make_one_error_with_every_row_and_fix() -> None:
    place = dataclasses.replace(with_memory(package=9), npu="ethos-u55-256")
    with pytest.raises(PreflightFailed) as caught:
        raise_if_failed(tuple(rows(place=place).values()))
    error = caught.value
    assert error.kind == "npu-mismatch", "of the first that failed"
    assert error.exit_status == 1
    assert "npu needs ethos-u55-128, available: ethos-u55-256" in error.message
    assert "package needs" in error.message
    assert "--npu ethos-u55-128" in str(error.hint)
    assert len(error.checks) == 10


# --- What it stands on. ---


def test_the_built_firmware_tells_its_memory() -> None:
    for soc, start, sram in (("corstone-300", 0x10000000, 2 << 20), ("corstone-320", 0x11000000, 3 << 20)):
        firmware = Firmware.read(find_firmware(soc))
        assert firmware.start == start
        assert firmware.sram is not None
        assert firmware.sram >= sram
        assert firmware.ddr == firmware.package == 256 << 20
        assert firmware.stack is not None
        assert firmware.stack >= 16 * KIB


def test_the_device_misses_the_kernels_that_preflight_misses() -> None:
    pte = ADD.pte.replace(b"quantized_decomposed::quantize_per", b"quantized_decomposed::quantise_per")
    strange = Artifact.of_program(pte, "strange.pte")
    firmware = find_firmware()
    row = rows(strange, dataclasses.replace(HERE, firmware=Firmware.read(firmware)))["kernels"]
    assert row.status == FAIL
    assert row.needed == "quantized_decomposed::quantise_per_tensor.out"
    inputs = [bytes(tensor.nbytes) for tensor in ADD.plan.input_tensors]
    target = VirtualTarget("ethos-u55-128")
    target.load(pack(firmware, pte, [inputs], RunPlan(1, len(inputs))))
    with pytest.raises(TargetError, match=row.needed) as caught:
        target.run(timeout=60)
    assert caught.value.kind == "unsupported"


def test_a_run_ends_before_it_boots_and_before_the_reference_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    target = VirtualTarget("ethos-u55-256")
    monkeypatch.setattr(target, "load", lambda image: pytest.fail("it was loaded"))
    monkeypatch.setattr(
        "ethos_hil.harness.verdict.verify.Reference", lambda artifact: pytest.fail("the reference was computed")
    )
    inputs = tuple(tensor.from_bytes(bytes(tensor.nbytes)) for tensor in ADD.plan.input_tensors)
    with pytest.raises(TargetError, match="preflight: npu needs ethos-u55-128"):
        run_artifact(ADD, target, Question("add", inputs=(inputs,)))


# --- The program's needs. ---


def test_a_footprint_is_read_from_the_program() -> None:
    footprint = Footprint.of(ADD)
    blob = ADD.delegates[0].blob
    assert footprint.planned == ADD.plan.planned_sizes
    assert footprint.scratch == blob.scratch_size
    assert footprint.constants == (len(blob.command_stream), len(blob.weights))
    assert (footprint.fast_scratch, footprint.unknown) == (0, None)
    assert memory_mode(ADD, footprint, None) is DeviceMemoryMode.SHARED_SRAM
    assert memory_mode(in_mode("Dedicated_Sram_384KB"), footprint, 0) is DeviceMemoryMode.DEDICATED_SRAM
    assert memory_mode(in_mode("Sram_Only"), footprint, None) is DeviceMemoryMode.SRAM_ONLY
    assert memory_mode(in_mode("Sram_Only"), footprint, 1 << 20) is DeviceMemoryMode.SRAM_ONLY
    assert memory_mode(in_mode("Sram_Only"), footprint, 1 << 10) is DeviceMemoryMode.SHARED_SRAM
    mute = dataclasses.replace(ADD, memory_mode=None)
    assert memory_mode(mute, footprint, None) is DeviceMemoryMode.SHARED_SRAM
    assert memory_mode(mute, dataclasses.replace(footprint, fast_scratch=1), None) is DeviceMemoryMode.DEDICATED_SRAM


def test_a_stream_that_cannot_be_decoded_leaves_the_fast_scratch_unknown() -> None:
    data = bytearray(ADD.pte)
    start = data.index(b"COP1") + 32
    data[start : start + 4] = (0x3F8).to_bytes(4, "little")  # no such command
    damaged = dataclasses.replace(
        Artifact.of_program(bytes(data), "damaged.pte"), memory_mode=MemoryMode("Dedicated_Sram")
    )
    footprint = Footprint.of(damaged)
    assert footprint.unknown is not None
    assert rows(damaged, needs=footprint)["fast scratch"].status in (OK, NOTE)
