"""What is known of a program before it runs: whether it fits, what would help, and how long a job of it may take.

Every row of preflight can fail, and the device agrees where it is asked.
"""

from __future__ import annotations

import dataclasses
import io
import json
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import JudgeOptions
from ethos_hil.base.question import Question
from ethos_hil.base.record import Check
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.footprint import Footprint, memory_mode
from ethos_hil.harness.image.formats import DeviceMemoryMode, PackageHeader
from ethos_hil.harness.image.npu_time_limit import npu_time_limit
from ethos_hil.harness.image.pack import SECTION_NAME, RunPlan, pack
from ethos_hil.harness.image.preflight import (
    Destination,
    PreflightFailed,
    delegation_check,
    examine,
    package_bytes,
    raise_if_failed,
)
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.artifact_info import failed_findings
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.program.placement import CpuCall, Placement
from ethos_hil.lowering.vela.memory_mode import MemoryMode

ADD = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
EMPTY_PTD = struct.pack("<I4s4sI4QHHi", 52, b"FT01", b"FH01", 40, 0, 56, 56, 0, 4, 4, 4)
"""A .ptd with nothing in it: its header, and a table without fields."""
KIB = 1 << 10
ROOMY = Firmware(0x10000000, 2 << 20, 256 << 20, 256 << 20, 32 * KIB, frozenset(ADD.plan.operators))
HERE = Destination("ethos-u55-128", "corstone-300", ROOMY)
NEEDS = Footprint(planned=(20 * KIB,), scratch=30 * KIB, constants=(4 * KIB, 6 * KIB), fast_scratch=0)
LARGE = dataclasses.replace(NEEDS, fast_scratch=600 * KIB)
PACKAGE = package_bytes(ADD, 1)
SORT = CpuCall(
    3, "aten::sort.values", aten="aten.sort.default", source="net.py:4", reason="TOSA cannot sort", remedy="do"
)


def rows(
    artifact: Artifact = ADD, place: Destination = HERE, needs: Footprint = NEEDS, input_sets: int = 1, **asked: Any
) -> tuple[Check, ...]:
    return examine(artifact, place, needs, input_sets=input_sets, **asked)


def at(**facts: Any) -> dict[str, Any]:
    """The place with a firmware of which some facts are others."""
    return {"place": dataclasses.replace(HERE, firmware=dataclasses.replace(ROOMY, **facts))}


def on(**facts: Any) -> dict[str, Any]:
    return {"place": dataclasses.replace(HERE, **facts)}


def of(**facts: Any) -> dict[str, Any]:
    return {"artifact": dataclasses.replace(ADD, **facts)}


def in_mode(name: str) -> dict[str, Any]:
    return of(memory_mode=MemoryMode(name))


def with_words(config: int, identity: int) -> dict[str, Any]:
    """The program with other words in its command stream: what is added to each."""
    data = bytearray(ADD.pte)
    place = data.index(b"COP1") + 8
    words = struct.unpack_from("<II", data, place)
    struct.pack_into("<II", data, place, words[0] + config, words[1] + identity)
    return {"artifact": Artifact.of_program(bytes(data), "changed.pte")}


def text(checks: Iterable[Check]) -> str:
    return "\n".join(
        f"{check.status:4}  {' | '.join(filter(None, (check.name, check.needed, check.available, check.fix)))}"
        for check in checks
    )


SOME_CALL = dataclasses.replace(SORT, operator=ADD.plan.operators[0])
CASES: dict[str, dict[str, Any]] = {
    "fits": {},
    "another size": on(npu="ethos-u55-256"),
    "another family": on(npu="ethos-u65-256"),
    "nothing delegated": of(npu=None, delegates=(), memory_mode=None),
    "another stream version": with_words(1 << 4, 0),
    "another major version": with_words(0, 1 << 28),
    "a newer minor version": with_words(0, 1 << 20),
    "an older patch": with_words(0, -(1 << 16)),
    "Vela is known": of(versions={"ethos-u-vela": "5.1.0"}),
    "its mode is asked for": {"asked": MemoryMode("Shared_Sram")},
    "another mode is asked for": {"asked": MemoryMode("Sram_Only")},
    "no mode is stated": of(memory_mode=None),
    "firmware of another board": at(start=0x11000000),
    "firmware of no board": at(start=5),
    "firmware of other sources": at(doubt="it is old; run `make firmware`"),
    "no kernels": at(operators=frozenset({"aten::add.out"})),
    "no kernel for a known call": of(placement=Placement(2, (SOME_CALL,)))
    | at(operators=frozenset(ADD.plan.operators[1:]), doubt="it is old"),
    "an ELF that tells nothing": on(firmware=Firmware(0x10000000, None, None, None, None, None)),
    "a runner": on(firmware=None),
    "a runner and a .ptd": on(firmware=None) | {"artifact": dataclasses.replace(ADD, ptd={"dram.ptd": EMPTY_PTD})},
    "a runner in Dedicated_Sram": in_mode("Dedicated_Sram") | on(firmware=None),
    "SRAM for both": at(sram=50 * KIB),
    "SRAM for the scratch": at(sram=50 * KIB - 1),
    "SRAM for the scratch alone": at(sram=30 * KIB),
    "SRAM for neither": at(sram=30 * KIB - 1),
    "the scratch fits nowhere": at(sram=10 * KIB, ddr=PACKAGE + 25 * KIB),
    "constants in SRAM": in_mode("Sram_Only") | at(sram=56 * KIB),
    "constants in DDR": in_mode("Sram_Only") | at(sram=56 * KIB - 1),
    "constants and scratch in DDR": in_mode("Sram_Only") | at(sram=9 * KIB),
    "a fast scratch": in_mode("Dedicated_Sram") | {"needs": LARGE} | at(sram=600 * KIB, ddr=PACKAGE + 50 * KIB),
    "a fast scratch too large": in_mode("Dedicated_Sram") | {"needs": LARGE} | at(sram=599 * KIB),
    "a fast scratch of 384 KiB": in_mode("Dedicated_Sram") | {"needs": LARGE} | at(sram=384 * KIB),
    "no fast scratch": in_mode("Dedicated_Sram") | {"needs": LARGE} | at(sram=9),
    "no DDR for planned memory": in_mode("Dedicated_Sram") | {"needs": LARGE} | at(ddr=PACKAGE + 49 * KIB),
    "a fast scratch that is unknown": in_mode("Dedicated_Sram")
    | {"needs": dataclasses.replace(NEEDS, unknown="no such command")},
    "several plans": {"needs": dataclasses.replace(NEEDS, planned=(KIB, 64 * KIB))} | at(sram=50 * KIB),
    "fast memory": {"needs": dataclasses.replace(NEEDS, planned=(KIB, 0, 30 * KIB))} | at(sram=50 * KIB),
    "fast memory too large": {"needs": dataclasses.replace(NEEDS, planned=(KIB, 0, 51 * KIB))} | at(sram=50 * KIB),
    "fast memory beside constants": in_mode("Sram_Only")
    | {"needs": dataclasses.replace(NEEDS, planned=(0, 0, 30 * KIB))}
    | at(sram=80 * KIB),
    "a package that fits": at(package=PACKAGE),
    "a package too large": at(package=PACKAGE - 1),
    "a package of two sets": at(package=PACKAGE) | {"input_sets": 2},
}


@pytest.mark.parametrize("case", CASES)
def test_all_rows_of_a_preflight(case: str, recorded: Recorded) -> None:
    recorded.check(text(rows(**CASES[case])))


def test_failures_make_one_error_with_every_row_and_fix(recorded: Recorded) -> None:
    cases = {case: rows(**CASES[case]) for case in CASES}
    errors = {case: PreflightFailed(checks) for case, checks in cases.items() if "fail" in {c.status for c in checks}}
    errors["two of them"] = PreflightFailed(
        rows(place=dataclasses.replace(at(package=9)["place"], npu="ethos-u55-256"))
    )
    assert len(failed_findings(Question("net"), errors["two of them"]).facts.preflight) == 10
    recorded.check({case: [error.kind, error.message, error.hint] for case, error in errors.items()})
    raise_if_failed(cases["fits"])
    with pytest.raises(PreflightFailed) as caught:
        raise_if_failed(cases["another size"])
    assert caught.value.exit_status == 1


# --- What has to be on the NPU. ---


def with_calls(*calls: CpuCall, delegated: int = 2, **facts: Any) -> Artifact:
    delegates = ADD.delegates if delegated else ()
    facts = {"key": "1" * 64, "scheme": "a8w8"} | facts
    return dataclasses.replace(ADD, placement=Placement(delegated, calls), delegates=delegates, **facts)


NINE = [dataclasses.replace(SORT, source=f"net.py:{line}") for line in range(9)]
DEMANDS = {
    "one on the CPU": (JudgeOptions(), with_calls(SORT)),
    "all on the CPU": (JudgeOptions(), with_calls(*[SORT] * 3, delegated=0)),
    "nothing at all": (JudgeOptions(), with_calls(delegated=0)),
    "the CPU is allowed": (JudgeOptions(allow_cpu_only=True), with_calls(SORT, delegated=0)),
    "all is demanded and there": (JudgeOptions(require_delegated=True), with_calls()),
    "all is demanded": (JudgeOptions(require_delegated=True), with_calls(SORT)),
    "all is demanded, nine are not": (JudgeOptions(require_delegated=True), with_calls(*NINE)),
    "one is allowed": (JudgeOptions(max_cpu_ops=1), with_calls(SORT)),
    "one is allowed, two are there": (JudgeOptions(max_cpu_ops=1), with_calls(SORT, SORT)),
    "nine are allowed, none is on the NPU": (JudgeOptions(max_cpu_ops=9), with_calls(SORT, delegated=0)),
    "a conversion": (JudgeOptions(require_delegated=True), with_calls(CpuCall(0, "a::quantize_per_x", "conversion"))),
    "state": (JudgeOptions(require_delegated=True), with_calls(CpuCall(0, "aten::copy_", "state"))),
    "not quantised": (JudgeOptions(), with_calls(SORT, delegated=0, scheme=None)),
    "not lowered here": (JudgeOptions(), with_calls(SORT, delegated=0, scheme=None, key="")),
    "delegates of an unknown size": (JudgeOptions(), dataclasses.replace(with_calls(), placement=Placement(0, ()))),
}


def test_what_is_demanded_is_checked(recorded: Recorded) -> None:
    """A message names operators, lines, reasons and the way out."""
    checks = {case: delegation_check(artifact, demand) for case, (demand, artifact) in DEMANDS.items()}
    recorded.check("\n".join(f"{case}: {text([check])}" for case, check in checks.items()))
    with pytest.raises(PreflightFailed, match="nothing is on the NPU; on the CPU: 3 x aten") as caught:
        raise_if_failed([checks["all on the CPU"]])
    assert (caught.value.kind, caught.value.exit_status) == ("delegation", 1)


SORTS = """
import torch


class Sort(torch.nn.Module):
    def forward(self, x):
        return x.sort(-1)[0]


def sorts():
    return Sort(), (torch.rand(2, 9),)
"""


@pytest.mark.slow
def test_a_program_of_which_nothing_is_delegated_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    (tmp_path / "net.py").write_text(SORTS)
    monkeypatch.chdir(tmp_path)
    from ethos_hil.harness.cli import commands

    with pytest.raises(PreflightFailed, match=r"aten::sort.values at net.py:7 \(TOSA cannot sort\)"):
        commands.run(Question("net.py:sorts"), commands.RunFiles(Path("failed.json"), None, Path("runs")))
    question = Question("net.py:sorts", allow_cpu_only=True)
    assert commands.run(question, commands.RunFiles(Path("passed.json"), None, Path("runs"))) == 0
    for name in ("failed", "passed"):
        record = json.loads(Path(f"{name}.json").read_text())
        calls = record["artifact"]["cpu_calls"]
        assert record["artifact"]["cpu_ops"] == [call["operator"] for call in calls]
        lines = [f"{record['verdict']} {record['failure']} {record['artifact']['delegated']} {record['outputs']}"]
        recorded.check("\n".join([*lines, *(str(call) for call in calls)]), name)


# --- What it stands on. ---


@pytest.mark.parametrize("sets", [1, 3])
def test_the_package_is_as_large_as_the_one_that_is_packed(sets: int) -> None:
    inputs = [bytes(tensor.nbytes) for tensor in ADD.plan.input_tensors]
    image = pack(find_firmware(), ADD.pte, [inputs] * sets, RunPlan(sets, len(inputs)))
    package = ELFFile(io.BytesIO(image.elf)).get_section_by_name(SECTION_NAME).data()
    assert package_bytes(ADD, sets) == PackageHeader.unpack(package)["total_size"] == len(package)


def test_the_device_misses_the_kernels_that_preflight_misses() -> None:
    pte = ADD.pte.replace(b"quantized_decomposed::quantize_per", b"quantized_decomposed::quantise_per")
    strange = Artifact.of_program(pte, "strange.pte")
    firmware = find_firmware()
    (row,) = (
        check for check in rows(strange, on(firmware=Firmware.read(firmware))["place"]) if check.name == "kernels"
    )
    assert (row.status, row.needed) == ("fail", "quantized_decomposed::quantise_per_tensor.out")
    inputs = [bytes(tensor.nbytes) for tensor in ADD.plan.input_tensors]
    target = VirtualTarget("ethos-u55-128")
    target.load(pack(firmware, pte, [inputs], RunPlan(1, len(inputs))))
    with pytest.raises(TargetError, match=row.needed) as caught:
        target.run(timeout=60)
    assert caught.value.kind == "unsupported"


def test_a_run_ends_before_it_boots_and_before_the_reference_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    target = VirtualTarget("ethos-u55-256")
    for place in ("targets.virtual.VirtualTarget.load", "verdict.verify.Reference"):
        monkeypatch.setattr(f"ethos_hil.harness.{place}", lambda *_: pytest.fail("it went on"))
    inputs = tuple(tensor.from_bytes(bytes(tensor.nbytes)) for tensor in ADD.plan.input_tensors)
    with pytest.raises(TargetError, match="preflight: npu needs ethos-u55-128"):
        run_artifact(ADD, target, Question("add", inputs=(inputs,)))


def test_a_footprint_is_read_from_the_program() -> None:
    planned, blob = ADD.plan.planned_sizes, ADD.delegates[0].blob
    sizes = (len(blob.command_stream), len(blob.weights))
    assert Footprint.of(ADD) == Footprint(planned, blob.scratch_size, sizes, 0)
    assert Footprint.of(dataclasses.replace(ADD, delegates=(), npu=None)) == Footprint(planned, 0, (), 0)


@pytest.mark.parametrize(
    ("mode", "fast", "sram", "expected"),
    [
        (None, 0, None, DeviceMemoryMode.SHARED_SRAM),
        (None, 1, None, DeviceMemoryMode.DEDICATED_SRAM),
        ("Shared_Sram", 1, None, DeviceMemoryMode.SHARED_SRAM),
        ("Dedicated_Sram_384KB", 0, 0, DeviceMemoryMode.DEDICATED_SRAM),
        ("Sram_Only", 0, None, DeviceMemoryMode.SRAM_ONLY),
        ("Sram_Only", 0, 56 * KIB, DeviceMemoryMode.SRAM_ONLY),
        ("Sram_Only", 0, 56 * KIB - 1, DeviceMemoryMode.SHARED_SRAM),
    ],
)
def test_the_mode_of_the_device(mode: str | None, fast: int, sram: int | None, expected: DeviceMemoryMode) -> None:
    artifact = dataclasses.replace(ADD, memory_mode=MemoryMode(mode) if mode else None)
    needs = dataclasses.replace(NEEDS, fast_scratch=fast, scratch=30 * KIB - 31, constants=(4 * KIB - 31, 6 * KIB))
    assert memory_mode(artifact, needs, sram) is expected


def test_a_stream_that_cannot_be_decoded_leaves_the_fast_scratch_unknown() -> None:
    data = bytearray(ADD.pte)
    start = data.index(b"COP1") + 32
    data[start : start + 4] = (0x3F8).to_bytes(4, "little")  # no such command
    damaged = Artifact.of_program(bytes(data), "damaged.pte")
    for mode, known in ((MemoryMode("Dedicated_Sram"), False), (None, False), (MemoryMode("Shared_Sram"), True)):
        footprint = Footprint.of(dataclasses.replace(damaged, memory_mode=mode))
        assert (footprint.unknown is None) is known


SOC = find_soc("corstone-300")
SLOW = dataclasses.replace(SOC, cpu_hz=1000)
"""One cycle of it is a millisecond."""
STREAM = ADD.delegates[0].blob.command_stream
CYCLES = Npu(EthosU.parse(HERE.npu)).decode(STREAM).timing().cycles
DAMAGED = Artifact.of_program(ADD.pte.replace(STREAM, b"\xff" * len(STREAM)), "damaged.pte")
LIMITS = {
    "a short job": (ADD, SOC, 1.0, True, 10_000),
    "not modelled": (ADD, SLOW, 1.0, False, 10_000),
    "a patient user": (ADD, SOC, 3600.0, False, 1_800_000),
    "a long job": (ADD, SLOW, 1.0, True, max(10_000, 10 * CYCLES)),
    "rounded up": (ADD, dataclasses.replace(SOC, cpu_hz=3), 1.0, True, -(-10_000 * CYCLES // 3)),
    "the field's": (ADD, SOC, 1e10, False, (1 << 32) - 1),
    "undecodable": (DAMAGED, SLOW, 1.0, True, 10_000),
}


@pytest.mark.parametrize("case", LIMITS)
def test_the_limit_of_a_job(case: str) -> None:
    """Ten seconds, half of the user's limit, or ten times what is modelled; whichever is most."""
    artifact, soc, timeout, modelled, limit = LIMITS[case]
    assert npu_time_limit(artifact, HERE.npu, soc, timeout, modelled=modelled) == limit
