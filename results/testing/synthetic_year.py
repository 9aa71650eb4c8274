"""Nightly runs that never happened, with 11 metrics for each test; the same for a seed.

Counts change seldom and with a cause, as they do in a real suite: one night a test gets slower. Wall times differ every
night.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ethos_hil.base.program_info import ArtifactInfo, DelegateInfo
from ethos_hil.base.record import Metric, Op, Record, RunInfo, SuiteTest, TargetInfo
from ethos_hil.base.verdict import Verdict
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.store import StoredRecord

SEED = 17
_COUNTS = (
    ("npu_cycles", "cycles"), ("npu_active_cycles", "cycles"), ("npu_idle_cycles", "cycles"),
    ("axi0_read_beats", "beats"), ("axi0_write_beats", "beats"), ("axi1_read_beats", "beats"),
    ("scratch_bytes", "bytes"), ("sram_used", "bytes"), ("stack_used", "bytes"),
)  # fmt: skip
_PROFILES = (("U55_BI", "ethos-u55-128"), ("U65_BI", "ethos-u65-256"), ("U85_BI", "ethos-u85-256"))
_FIRST = datetime(2025, 1, 1, 2, tzinfo=UTC)


@dataclass
class _Test:
    """A test of the suite, as it is tonight."""

    number: int
    counts: list[int]
    stream: int = 0


def nights(seed: int = SEED, *, count: int, tests: int) -> Iterator[list[StoredRecord]]:
    """Yield the records of each night, the oldest first."""
    chance = random.Random(seed)
    suite = [_Test(number, [chance.randrange(1_000, 5_000_000) for _ in _COUNTS]) for number in range(tests)]
    for night in range(count):
        moved = chance.sample(suite, min(3, tests)) if night and chance.random() < 0.2 else []
        for test in moved:
            test.stream += 1
            test.counts[0] = max(1, test.counts[0] + chance.randrange(-500, 500))
        yield [_record(test, night, chance) for test in suite]


def keep(
    folder: Path, *nights_of: Sequence[Record], name: str = "night", first: datetime = _FIRST
) -> tuple[RunResults, ...]:
    """Put nights into a history, a day apart, and return the results of each."""
    kept = []
    for at, night in enumerate(nights_of):
        run, created = f"{name}{at}", (first + timedelta(days=at)).isoformat()
        records = tuple(replace(record, created=created, run=RunInfo(run, f"{at:040x}")) for record in night)
        compact_records([StoredRecord(run, created, record) for record in records], folder)
        kept.append(RunResults(run, created, records))
    return tuple(kept)


def _record(test: _Test, night: int, chance: random.Random) -> StoredRecord:
    run = f"night{night:03}"
    created = (_FIRST + timedelta(days=night, seconds=test.number)).isoformat(timespec="seconds")
    operator, case = f"operator{test.number // 30:02}", f"case{test.number % 30 // 3:02}"
    profile, npu = _PROFILES[test.number % 3]
    place = f"suites/ops/test_{operator}.py"
    record = Record(
        Verdict.VERIFIED, model=f"{operator}/{case}", npu=npu, target=TargetInfo("virtual", "virtual", "corstone-300"),
        metrics=(
            *(Metric(name, value, unit, "modelled") for (name, unit), value in zip(_COUNTS, test.counts, strict=True)),
            Metric("lowering_seconds", round(chance.gauss(2, 0.1), 6), "seconds", "host"),
            Metric("running_seconds", round(chance.gauss(0.3, 0.02), 6), "seconds", "host"),
        ),
        ops=_ops(operator, test.counts[0]),
        artifact=ArtifactInfo(
            _digest("pte", test), 4096, 3, (), delegated=3, question=_digest("question", test, same=True),
            delegates=(
                DelegateInfo(1, _digest("tosa", test, same=True), _digest("stream", test), _digest("weights", test)),
            ),
            lowering="0" * 16,
        ),
        versions={"ethos-u-vela": "5.0.0", "executorch": "1.4.1", "torch": "2.13.0"}, executions=1,
        memory_mode="Shared_Sram",
        test=SuiteTest(f"{place}::test_{operator}_{case}_{profile}", operator, case, profile, f"{place}:{test.number}"),
        created=created, clock_hz=500e6, firmware_sha256="1" * 64, timing_model="2" * 16,
        inputs_sha256=_digest("inputs", test, same=True), run=RunInfo(run, f"{night:040x}"),
    )  # fmt: skip
    return StoredRecord(run, created, record)


def _ops(operator: str, cycles: int) -> tuple[Op, ...]:
    """Return two operations whose cycles sum to those of the test."""
    first = cycles * 3 // 4
    return (
        Op("npu00000", "Conv2D", "CONV2D", ("aten.conv2d.default",), "stem", f"{operator}.py:7", first, "modelled",
           (f"{operator}.py:7",), 1, "shares"),
        Op("npu00001", "Add", "ADD", ("aten.add.Tensor",), "", f"{operator}.py:9", cycles - first, "modelled",
           (f"{operator}.py:9",), 1, "shares"),
    )  # fmt: skip


def _digest(what: str, test: _Test, *, same: bool = False) -> str:
    """Return a digest of something about a test; `same`: it stays when the stream changes."""
    return hashlib.sha256(f"{what} {test.number} {0 if same else test.stream}".encode()).hexdigest()
