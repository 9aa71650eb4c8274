"""A short run of the fuzzer on every configuration, and the proof that it sees what it looks for."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections import Counter
from time import sleep
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import Fault, forget
from ethos_hil.harness.npu.compute.elementwise import ElementwiseStep
from ethos_hil.harness.npu.decode.fields_u55 import FieldsU55
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, RegionMemory
from ethos_hil.suites.lab.damage import loop, stream_trial
from ethos_hil.suites.lab.damage.loop import CRASHED, DamageEnding
from ethos_hil.suites.lab.damage.stream_trial import GUARD, StreamCase, examine
from ethos_hil.suites.lab.damage.streams import Streams

CASES = 40  # of each configuration
NPU = "ethos-u55-128"
ADDITIONS = Streams(1, (NPU,), "add int16")


@pytest.mark.product
def test_damaged_programs_end_in_a_result_or_a_fault() -> None:
    endings = list(loop.run(Streams(1), range(CASES * len(EthosU.names())), 2))
    assert [ending for ending in endings if ending.finding] == []
    assert Counter(ending.row for ending in endings) == dict.fromkeys(EthosU.names(), CASES)
    outcomes = [ending.outcome for ending in endings]
    # Damage that never gets beyond the decoder, or never does anything, tests nothing.
    assert outcomes.count("result") > len(outcomes) // 5
    assert {"result", "parse", "bus", "unsupported"} <= set(outcomes)
    assert sum(ending.deep for ending in endings) > len(outcomes) // 3


@pytest.fixture(scope="module")
def case() -> StreamCase:
    """An addition that runs to its end."""
    make = ADDITIONS.maker(0)
    return next(case for case in map(make, range(64)) if examine(case).outcome == "result")


def sabotaged(monkeypatch: pytest.MonkeyPatch, case: StreamCase, run: Any) -> DamageEnding:
    """What becomes of a case when additions do `run(step, memory)` before they start."""
    original = ElementwiseStep.run

    def wrapped(self: ElementwiseStep, memory: RegionMemory) -> None:
        run(self, memory)
        original(self, memory)

    monkeypatch.setattr(ElementwiseStep, "run", wrapped)
    forget()
    return examine(case)


def around(memory: RegionMemory, number: int) -> np.ndarray:
    """A region with the bytes on either side of it, as a broken kernel could reach them."""
    region = memory[number]
    whole = region.base
    assert isinstance(whole, np.ndarray)
    return whole


@pytest.mark.parametrize(("index", "where"), [(GUARD - 1, "before"), (-GUARD, "behind")])
def test_a_write_out_of_a_region_is_found(
    monkeypatch: pytest.MonkeyPatch, case: StreamCase, index: int, where: str
) -> None:
    def outside(_: ElementwiseStep, memory: RegionMemory) -> None:
        around(memory, 1)[index : index + 1] += 1  # as an array, which wraps in silence

    assert f"bytes {where} region 1 were written" in sabotaged(monkeypatch, case, outside).finding


def test_a_read_out_of_a_region_is_found(monkeypatch: pytest.MonkeyPatch, case: StreamCase) -> None:
    load = FeatureMap.load

    def beyond(self: FeatureMap, memory: RegionMemory) -> Any:
        values = load(self, memory)
        return values + int(around(memory, self.region)[GUARD - 3])

    monkeypatch.setattr(FeatureMap, "load", beyond)
    monkeypatch.setattr(FeatureMap, "as_view", lambda self, memory: None)
    forget()
    assert "bytes outside of regions matter" in examine(case).finding


def test_a_write_beyond_what_the_program_accesses_is_found(monkeypatch: pytest.MonkeyPatch, case: StreamCase) -> None:
    def inside(_: ElementwiseStep, memory: RegionMemory) -> None:
        memory[1][:] += 1

    longer = {number: data + bytes(64 if number else 0) for number, data in case.regions.items()}
    verdict = sabotaged(monkeypatch, dataclasses.replace(case, regions=longer), inside)
    assert "outside of" in verdict.finding


def test_an_exception_is_found(monkeypatch: pytest.MonkeyPatch, case: StreamCase) -> None:
    def missing(_: ElementwiseStep, memory: RegionMemory) -> None:
        memory.chains[5]

    finding = sabotaged(monkeypatch, case, missing).finding
    assert finding.startswith("KeyError: 5 (npu.py")


def test_a_warning_is_found(monkeypatch: pytest.MonkeyPatch, case: StreamCase) -> None:
    def overflowing(_: ElementwiseStep, memory: RegionMemory) -> None:
        np.int64(1 << 62) * np.int64(4)

    assert "RuntimeWarning: overflow" in sabotaged(monkeypatch, case, overflowing).finding


def test_a_slow_run_is_found(monkeypatch: pytest.MonkeyPatch, case: StreamCase) -> None:
    monkeypatch.setattr(stream_trial, "LIMIT_SECONDS", 0.05)
    assert "took 0." in sabotaged(monkeypatch, case, lambda *_: sleep(0.1)).finding


@pytest.mark.parametrize(
    "wrong",
    [
        Fault(FailureKind.USAGE, 0, "CONV", "IFM", 1, "x"),
        Fault(FailureKind.BUS, 0, "", "IFM", 1, "x"),
        Fault(FailureKind.BUS, 2, "A", "B", 1, "x"),
    ],
    ids=["kind", "op", "offset"],
)
def test_a_fault_that_names_nothing_is_found(monkeypatch: pytest.MonkeyPatch, case: StreamCase, wrong: Fault) -> None:
    def refuse(_: ElementwiseStep, memory: RegionMemory) -> None:
        raise wrong

    assert sabotaged(monkeypatch, case, refuse).finding.startswith("a fault")


def test_a_fault_with_a_value_that_no_register_has_is_found(monkeypatch: pytest.MonkeyPatch, case: StreamCase) -> None:
    def refuse(self: FieldsU55, name: str, size_at: int) -> Any:
        raise self.fault(FailureKind.PARSE, f"{name}_PRECISION", self.get(f"{name}_PRECISION") + 1, "is off by one")

    monkeypatch.setattr(FieldsU55, "element", refuse)
    assert examine(case).finding.startswith("a register does not hold what a fault says")


# --- what only a process of its own survives; the functions below run in the workers


def hang() -> None:
    """Additions never end."""

    def forever(self: ElementwiseStep, memory: RegionMemory) -> None:
        while True:
            sleep(1)

    ElementwiseStep.run = forever  # type: ignore[method-assign]


def crash() -> None:
    """Additions end the process."""

    def die(self: ElementwiseStep, memory: RegionMemory) -> None:
        import ctypes

        ctypes.string_at(0)

    ElementwiseStep.run = die  # type: ignore[method-assign]


def hoard() -> None:
    """Additions want more memory than there should be for them."""

    def grow(self: ElementwiseStep, memory: RegionMemory) -> None:
        np.empty(2 << 30, np.uint8)

    ElementwiseStep.run = grow  # type: ignore[method-assign]


def findings_of(prepare: Any) -> list[DamageEnding]:
    endings = loop.run(ADDITIONS, range(3), 1, seconds=2, begin=prepare)
    return [ending for ending in endings if ending.finding]


@pytest.mark.parametrize(
    ("prepare", "words"), [(hang, "no end within 2 seconds"), (crash, "the process ended with signal 11: File")]
)
def test_hangs_and_crashes_cost_a_case_and_are_found(prepare: Any, words: str) -> None:
    findings = findings_of(prepare)
    assert findings
    for ending in findings:
        assert (ending.outcome, ending.row) == (CRASHED, NPU)
        assert words in ending.finding


def test_a_lot_of_memory_is_found() -> None:
    assert "MemoryError" in findings_of(hoard)[0].finding


# --- cases and the command


def test_a_step_of_damage_can_be_left_out() -> None:
    make = Streams(1, (NPU,), "pool").maker(0)
    several = next(case for case in map(make, range(64)) if len(case.mutations) == 2)
    number = next(number for number in range(64) if make(number) == several)
    for kept in (0, 1):
        assert make(number, (kept,)).program == several.program
        assert len(make(number, (kept,)).mutations) == 1
    assert make(number, ()).mutations == ()


def test_the_command_runs_a_case_again_and_refuses_another_npu() -> None:
    command = [sys.executable, "-m", "ethos_hil.suites.lab", "streams", "--npu"]
    done = subprocess.run([*command, NPU, "--only", "7"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"7: {NPU}: ")
    assert "findings: none" in done.stdout
    assert subprocess.run([*command, "ethos-u55"], capture_output=True, check=False).returncode == 2
