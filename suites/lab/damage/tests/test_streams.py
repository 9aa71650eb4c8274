"""A short run of the fuzzer on every configuration, and the proof that it sees what it looks for."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from time import sleep
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import Fault, forget
from ethos_hil.harness.npu.compute.elementwise import ElementwiseStep
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, RegionMemory
from ethos_hil.suites.lab.damage import loop, stream_trial
from ethos_hil.suites.lab.damage.stream_trial import GUARD, StreamCase, examine
from ethos_hil.suites.lab.damage.streams import Streams

CASES = 20  # of each configuration
NPU = "ethos-u55-128"
ADDITIONS = Streams(1, (NPU,), "add int16")


@pytest.mark.product
def test_damaged_programs_end_in_a_result_or_a_fault() -> None:
    endings = list(loop.run(Streams(1), range(CASES * len(EthosU.names())), 1))
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


def around(memory: RegionMemory, number: int) -> np.ndarray:
    """A region with the bytes on either side of it, as a broken kernel could reach them."""
    whole = memory[number].base
    assert isinstance(whole, np.ndarray)
    return whole


def write(memory: RegionMemory, index: int) -> None:
    around(memory, 1)[index : index + 1] += 1  # as an array, which wraps in silence


def fill(memory: RegionMemory) -> None:
    memory[1][:] += 1


def refuse(_: RegionMemory) -> None:
    raise Fault(FailureKind.USAGE, 0, "CONV", "IFM", 1, "x")


SABOTAGES: dict[str, tuple[Callable[[RegionMemory], object], str]] = {
    "a write before a region": (lambda memory: write(memory, GUARD - 1), "bytes before region 1 were written"),
    "a write behind a region": (lambda memory: write(memory, -GUARD), "bytes behind region 1 were written"),
    "a write beyond what it accesses": (fill, "outside of"),
    "an exception": (lambda memory: memory.chains[5], "KeyError: 5 (npu.py"),
    "a warning": (lambda _: np.int64(1 << 62) * np.int64(4), "RuntimeWarning: overflow"),
    "a slow run": (lambda _: sleep(0.6), " seconds"),
    "a fault of another kind": (refuse, "a fault"),
}
"""What additions do before they start, and what is found."""


@pytest.mark.parametrize("name", SABOTAGES)
def test_what_is_broken_is_found(name: str, monkeypatch: pytest.MonkeyPatch, case: StreamCase) -> None:
    spoil, finding = SABOTAGES[name]
    original = ElementwiseStep.run

    def run(self: ElementwiseStep, memory: RegionMemory) -> None:
        spoil(memory)
        original(self, memory)

    longer = {number: data + bytes(64 if number else 0) for number, data in case.regions.items()}
    monkeypatch.setattr(ElementwiseStep, "run", run)
    monkeypatch.setattr(stream_trial, "LIMIT_SECONDS", 0.5)
    forget()
    assert finding in examine(dataclasses.replace(case, regions=longer)).finding


def test_a_read_out_of_a_region_is_found(monkeypatch: pytest.MonkeyPatch, case: StreamCase) -> None:
    load = FeatureMap.load

    def beyond(self: FeatureMap, memory: RegionMemory) -> Any:
        return load(self, memory) + int(around(memory, self.region)[GUARD - 3])

    monkeypatch.setattr(FeatureMap, "load", beyond)
    monkeypatch.setattr(FeatureMap, "as_view", lambda self, memory: None)
    forget()
    assert "bytes outside of regions matter" in examine(case).finding
