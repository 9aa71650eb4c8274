"""Runs and benchmarks made by hand, with all that a report shows, and the costs that figures are derived from."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from ethos_hil.base.inference_profile import InferenceProfile, MemoryBehind, OpCost, Traffic
from ethos_hil.base.judge import Quarantined
from ethos_hil.base.program_info import CpuOp
from ethos_hil.base.record import BenchInfo, Divergence, Metric, Op, Output, Record, SuiteTest, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.comparison import RowChange, RowDifference
from ethos_hil.results.gate.account import JudgedResults, take_account
from ethos_hil.results.gate.change import VERDICT, Cause, Change, Effect, RunComparison, Word
from ethos_hil.results.history import History
from ethos_hil.results.report.report import report
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.subject import subject_of
from ethos_hil.results.testing.synthetic_year import nights
from ethos_hil.results.tests import profiled

QUARANTINED = "suites/ops/test_operator00.py::test_operator00_case03_U55_BI"
MANIFEST = {
    "created": "2026-11-25T02:00:00+00:00", "command": ["pytest", "suites", "-n", "2"], "commit": "c0ffee" * 6,
    "machine": {"processor": "a processor", "cores": 2}, "versions": {"ethos-u-vela": "5.2.0"}, "dirty": True,
}  # fmt: skip


def suite_of(count: int) -> list[Record]:
    return [item.record for items in nights(count=1, tests=count) for item in items]


def failed(record: Record, kind: FailureKind, message: str, **other: Any) -> Record:
    return replace(record, verdict=Verdict.FAILED, failure=Failure(kind, message, "look at it"), **other)


def model(name: str = "net.py:net", npu: str = "ethos-u55-128", ops: int = 0) -> Record:
    """A model with a profile; with so many operations, or the few of `profiled.record`."""
    of = profiled.large(ops * 3, ops) if ops else profiled.record()
    test = suite_of(1)[0]
    calls = (CpuOp("aten::sort.values", "operator", "aten.sort.default", "head", "net.py:40", "no kernel", "leave it"),)
    assert test.artifact is not None
    cycles = float(sum(op.cycles or 0 for op in of.ops))
    metrics = (
        Metric("npu_cycles", cycles, "cycles", "modelled"),
        Metric("npu_cycles_estimate", cycles * 2, "cycles", "vela"),
        Metric("sram_used", 54321, "bytes", "reported"),
    )
    artifact = replace(test.artifact, cpu_calls=calls, delegated=4, scheme="a8w8")
    return replace(of, model=name, npu=npu, metrics=metrics, artifact=artifact, memory_mode="Shared_Sram", clock_hz=5e8)


def night() -> RunResults:
    """A night with a record of each kind."""
    records = suite_of(30)
    wrong = Output("output 0", (1, 8), "int8", "tosa_reference_model", 8, 3, 4.0, "(0, 1)")
    place = Divergence("npu-op", "the answer of Conv2D differs", "replay", 1, "npu00000", "Conv2D", "CONV2D",
                       ("aten.conv2d.default",), "stem", "net.py:12", "t", (1, 8), "INT8", (0, 1), 3, 4, 2,
                       True)  # fmt: skip
    records[1] = failed(records[1], FailureKind.MISMATCH, "3 of 8 elements differ", outputs=(wrong,), divergence=place,
                        console=("booted", "fault at 0x1234"))  # fmt: skip
    for at in (4, 7, 10):
        records[at] = failed(records[at], FailureKind.TIMEOUT, f"no answer within {at} s")
    test = records[5].test
    assert test is not None
    records[5] = failed(records[5], FailureKind.COMPILE, "Vela refuses", test=replace(test, defect="issue/123"))
    records[9] = failed(records[9], FailureKind.FAULT, "a fault")
    records[6] = replace(records[6], verdict=Verdict.SKIPPED, failure=Failure(FailureKind.CAPABILITY, "needs an FVP"))
    records[8] = replace(records[8], verdict=Verdict.COMPILED_ONLY)
    records[3] = replace(records[3], verdict=Verdict.UNVERIFIED, failure=Failure(FailureKind.NO_REFERENCE, "no oracle"))
    fvp = replace(records[0], target=replace(records[0].target, name="corstone-300", kind="fvp"),
                  metrics=(Metric("npu_cycles", 1234, "cycles", "fvp"),))  # fmt: skip
    plain = replace(model("other.py:net", "ethos-u85-256"), profile=None)
    all_records = (*records, fvp, model(), plain)
    return RunResults("nightly-0413", "2026-11-25T02:00:00+00:00", all_records, (MANIFEST,), ())


def comparison(records: Sequence[Record]) -> RunComparison:
    """What is different: two causes, and tests that are on one side only."""
    ids = [(f"npu{at:05}",) for at in range(9)]
    rows = tuple(RowDifference(RowChange.SLOWER, name, name, "Conv2D", "stem", f"net.py:{at}", 600, 700 + at)
                 for at, name in enumerate(ids))  # fmt: skip
    version = "ethos-u-vela 5.1.0 became 5.2.0"
    vela, model_of_time = f"another command stream: {version}", "another timing model: 2222 became 3333"

    def number(at: int, word: Word, before: float, after: float, effect: Effect, cause: Cause, detail: str) -> Change:
        moved = rows if word is Word.REGRESSED else ()
        return Change(word, subject_of(records[at]), "npu_cycles", "modelled", "cycles", before, after, cause, detail,
                      effect, moved, "0.5 %" if at == 12 else "")  # fmt: skip

    changes = [
        number(11, Word.REGRESSED, 1000, 1100, Effect.FAIL, Cause.STREAM, vela),
        number(12, Word.REGRESSED, 2000, 2004, Effect.FAIL, Cause.STREAM, vela),
        *(number(at, Word.IMPROVED, 900, 800, Effect.WARN, Cause.TIMING_MODEL, model_of_time) for at in range(13, 27)),
        Change(Word.CHANGED, subject_of(records[14]), VERDICT, "", "", "a" * 16, "b" * 16, Cause.STREAM, vela,
               Effect.WARN),
        Change(Word.NEW, subject_of(records[27]), VERDICT, "", "", None, "verified", Cause.NONE, "", Effect.WARN),
        Change(Word.MISSING, replace(subject_of(records[28]), label="suites/ops/test_gone.py::test_gone_MI"), VERDICT,
               "", "", "verified", None, Cause.NONE, "", Effect.FAIL),
    ]  # fmt: skip
    counts = {Word.UNCHANGED: 300, Word.REGRESSED: 2, Word.IMPROVED: 14, Word.CHANGED: 1, Word.NEW: 1, Word.MISSING: 1}
    return RunComparison("nightly-0412", "nightly-0413", tuple(changes), counts, 30, (version,))


def history(folder: Path, count: int = 8, tests: int = 30) -> History:
    """A history of some nights; some numbers moved, and the timing model once."""
    for at, items in enumerate(nights(count=count, tests=tests)):
        items = [replace(item, record=_moved(item.record, at)) for item in items]
        compact_records(items, folder)
    return History(folder)


def _moved(record: Record, at: int) -> Record:
    slower = at >= 5 and record.test is not None and "case02" in record.test.id
    metrics = tuple(replace(metric, value=metric.value * 1.25) if slower and metric.name == "npu_cycles" else metric
                    for metric in record.metrics)  # fmt: skip
    return replace(record, metrics=metrics, timing_model=("2" if at < 5 else "3") * 16)


def hostile(text: str) -> RunResults:
    """A run in which everything that a model, a file or a target may name is this text."""
    test = SuiteTest(text, text, text, text, text)
    place = Divergence("npu-op", text, "replay", 1, text, text, text, (text,), text, text, text, (1,), text, (0,), 1, 2)
    op = Op("npu00000", text, text, (text,), text, text, 12, text, (text,), 1)
    call = CpuOp(text, "operator", text, text, text, text, text)
    net = model()
    assert net.artifact is not None
    target = replace(net.target, name=text, soc=text)
    bad = replace(
        failed(net, FailureKind.MISMATCH, text), model=text, npu=text, target=target, memory_mode=text, test=test,
        ops=(op,), divergence=place, console=(text,) * 30, notes=(text,), versions={text: text}, profile=None,
        method=text, outputs=(Output(text, (1,), text, text, 1, 1, 1.0, text),), timing_model=text,
        artifact=replace(net.artifact, cpu_calls=(call,), scheme=text, sha256=text),
    )  # fmt: skip
    good = replace(bad, verdict=Verdict.VERIFIED, failure=None, test=replace(test, id=f"{text}2", profile="U55_BI"))
    shown = replace(profiled.hostile(), model=text, versions={text: text})
    loose = replace(shown, ops=(*shown.ops, op), npu=text)
    bench = BenchInfo(text, text, text, (text,), text)
    shown, loose = replace(shown, bench=bench), replace(loose, bench=bench, metrics=net.metrics)
    refused = replace(bad, verdict=Verdict.SKIPPED, test=None, bench=bench)
    skipped = replace(bad, verdict=Verdict.SKIPPED, test=replace(test, id=f"{text}3"))
    manifest = {"created": text, "command": [text], "machine": {text: text}, "versions": {text: text}, "commit": text,
                "shard": text}  # fmt: skip
    return RunResults(text, text, (bad, good, shown, loose, skipped, refused), (manifest,), ())


def whole_suite() -> RunResults:
    """A night as large as that of all suites: 2,400 records, 80 of them of models, 30 of which have a profile."""
    records = suite_of(2320)
    for at in range(80):
        net = model(f"models/net{at // 3:02}.py:net", ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")[at % 3], 65)
        records.append(net if at < 30 else replace(net, profile=None))
    for at in range(0, 400, 10):
        records[at] = failed(records[at], FailureKind.MISMATCH, f"{at} elements differ", console=("a line",) * 50)
    return RunResults("nightly-0413", "2026-11-25T02:00:00+00:00", tuple(records), (MANIFEST,), ())


def in_quarantine(
    results: RunResults, label: str, comparison: RunComparison | None = None, kind: FailureKind = FailureKind.MISMATCH
) -> JudgedResults:
    """Return a run with its account, in which a test may fail in one way for a while."""
    entry = Quarantined(label, kind, "flaky since Monday", "issue/9", "ada", date(2026, 12, 1))
    account = take_account(results, quarantine=[entry], today=date(2026, 11, 25)).with_comparison(comparison)
    return JudgedResults.of(results, account)


def page_of_night(history: History) -> bytes:
    """Return the report of the night; a test of it is in quarantine."""
    results = night()
    against = comparison(results.records)
    return report(in_quarantine(results, QUARANTINED, against, FailureKind.FAULT), against, history)


# Benchmarks.


NPUS = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512",
        "ethos-u85-128", "ethos-u85-256", "ethos-u85-512", "ethos-u85-1024", "ethos-u85-2048")  # fmt: skip
MODES = ("Sram_Only", "Shared_Sram", "Dedicated_Sram")
_GROUPS = ("stem", "conv1x1", "conv3x3", "depthwise", "linear", "matmul", "softmax", "elementwise", "layout", "pool")
_WITHOUT_PRODUCTS = ("softmax", "layout")
_CLOCKS = {"u55": 500e6, "u65": 1e9, "u85": 1e9}


def point(
    case: str, npu: str, mode: str, cycles: int, *, sram: int = 65536, macs: int = 1_000_000, group: str = "conv3x3",
    moved: int = 100_000, provenance: str = "modelled", verdict: Verdict = Verdict.COMPILED_ONLY, bound: str = "mac",
    tags: tuple[str, ...] = ("long",),
) -> Record:  # fmt: skip
    """A point of a benchmark that was timed."""
    family, size = npu.removeprefix("ethos-").split("-")
    traffic = (Traffic("Sram", 0, "ifm", moved // 2, moved - moved // 2), Traffic("Dram", 1, "weights", 2000, 0))
    profile = InferenceProfile(
        clock_hz=_CLOCKS[family], macs_per_cycle=int(size), timeline_from="modelled",
        costs={"npu00000": OpCost(macs=macs, traffic=traffic, bound_by=bound, modelled=cycles)},
        memories={"Sram": MemoryBehind(16.0, sram), "Dram": MemoryBehind(4.0, 4000)},
    )  # fmt: skip
    op = Op("npu00000", "Conv2D", "CONV2D", ("aten.conv2d.default",), "", "grid.toml:12", cycles, provenance)
    return Record(
        verdict, model=case, npu=npu, target=TargetInfo("virtual", "virtual", "corstone-300"),
        metrics=(Metric("npu_cycles", float(cycles), "cycles", provenance),), ops=(op,), memory_mode=mode,
        system_config=f"Ethos_{family.upper()}_High_End", clock_hz=_CLOCKS[family], timing_model="2" * 16,
        profile=profile, bench=BenchInfo("default", case, group, tags, "grid.toml:12"),
    )  # fmt: skip


FRONT = (
    point("a", "ethos-u55-32", "Sram_Only", 900, sram=1000),
    point("a", "ethos-u55-64", "Sram_Only", 700, sram=1000),
    point("a", "ethos-u55-128", "Sram_Only", 800, sram=2000),
    point("a", "ethos-u55-256", "Sram_Only", 300, sram=4000),
    point("a", "ethos-u55-256", "Shared_Sram", 650, sram=3000),
    point("a", "ethos-u85-256", "Sram_Only", 700, sram=5000),
    point("a", "ethos-u85-512", "Sram_Only", 600, sram=5000),
)
"""One case at several places, some of which are better than others."""


def refused(record: Record, message: str, kind: FailureKind = FailureKind.UNSUPPORTED) -> Record:
    """The point, which nothing could be made for."""
    return replace(record, verdict=Verdict.SKIPPED, failure=Failure(kind, message), metrics=(), ops=(), profile=None)


def grid(cases: int = 100, seed: int = 5) -> tuple[Record, ...]:
    """A grid on all NPUs and in all modes: some points are verified, some are refused."""
    chance = random.Random(seed)
    return tuple(record for number in range(cases) for record in _case(number, chance))


def _case(number: int, chance: random.Random) -> Iterator[Record]:
    group = _GROUPS[number % len(_GROUPS)]
    macs = 0 if group in _WITHOUT_PRODUCTS else int(10 ** chance.uniform(4, 8.5))
    moved = int(10 ** chance.uniform(3.5, 6.5))
    overhead, skill = chance.randrange(500, 20_000), chance.uniform(0.2, 0.98)
    sram = int(10 ** chance.uniform(4, 6))
    for npu in NPUS:
        size = int(npu.rpartition("-")[2])
        for at, mode in enumerate(MODES):
            memory = moved / (12.0, 6.0, 1.5)[at]
            spread = chance.uniform(0.95, 1.05)
            cycles = int((overhead / size**0.5 + max(macs / (size * skill), memory)) * spread) + 100
            bound = "mac" if macs / (size * skill) > memory else "Sram" if at == 0 else "Dram"
            record = point(f"{group}_{number:03}", npu, mode, cycles, sram=int(sram * (1, 0.6, 0.3)[at] * size**0.05),
                         macs=macs, group=group, moved=moved, bound=bound)  # fmt: skip
            if number % 4 == 0 and at == 0:
                record = replace(record, verdict=Verdict.VERIFIED, executions=1)
            if "u55" in npu and number % 9 == 3:
                record = refused(record, f"{group} is not for Ethos-U55")
            yield record


def bench_run(records: tuple[Record, ...]) -> RunResults:
    return RunResults("bench-0413", "2026-11-25T02:00:00+00:00", records, (MANIFEST,), ())
