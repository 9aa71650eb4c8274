"""Runs made by hand, for tests of exporters."""

from __future__ import annotations

import dataclasses
from typing import Any

from ethos_hil.base.program_info import ArtifactInfo, DelegateInfo
from ethos_hil.base.record import (
    BenchInfo,
    Divergence,
    Metric,
    Record,
    RunInfo,
    SuiteTest,
    TargetInfo,
)
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.comparison import RowChange, RowDifference
from ethos_hil.results.gate.change import Cause, Change, Effect, RunComparison, Word
from ethos_hil.results.latency import with_latency
from ethos_hil.results.report.tests.samples import in_quarantine
from ethos_hil.results.run_results import RunResults
from ethos_hil.results.store import Skipped
from ethos_hil.results.subject import Subject, subject_of

HOSTILE = (
    "=1+1|2 `a` ``b`` \\| \\` @team #7 <b>x</b> <!-- </testcase>]]>&amp; &lt; :+1: www.example.org a@example.org "
    '[l](https://example.org) **s** $x$ "q" \'p\' {a="b"} \n# h\r\t\x00\x01\x1b[2J\x7f\x85 \u202e\u2028\ufffe\udc80 é 𝄞'
)
"""Markup of every format here, what XML lacks, and bytes of a name that is not valid UTF-8."""
NUMBERS = (0, 1, (1 << 24) + 1, (1 << 53) - 1, 1 / 3, 1e-9)


def record(name: str = "add", case: str = "same", profile: str = "U55_BI", **changes: Any) -> Record:
    test = f"suites/ops/test_a.py::test_{name}_{case}_{profile}"
    sample = Record(
        Verdict.VERIFIED, model=f"{name}_{case}", npu="ethos-u55-128",
        target=TargetInfo("virtual", "virtual", "corstone-300"),
        metrics=(
            Metric("npu_cycles", (1 << 24) + 1, "cycles", "modelled", ((1 << 24) + 1, (1 << 24) + 3)),
            Metric("npu_cycles_estimate", 7, "cycles", "vela"),
            Metric("sram_used", 1024, "bytes", "reported"),
            Metric("target_seconds", 0.25, "s", "host"),
        ),
        artifact=ArtifactInfo("ab" * 32, 4096, 1, (), scheme="a8w8", question="12" * 32,
                              delegates=(DelegateInfo(1, "34" * 32, "56" * 32, "78" * 32),)),
        versions={"torch": "2.13.0", "ethos-u-vela": "5.1.0"}, executions=2, memory_mode="Shared_Sram",
        system_config="Ethos_U55_High_End_Embedded",
        test=SuiteTest(test, name, case, profile, "suites/ops/test_a.py:13"), created="2026-11-25T10:02:52+00:00",
        inputs_sha256="de" * 32, run=RunInfo("20261125T100247Z-c394cb", "f0" * 20),
    )  # fmt: skip
    return dataclasses.replace(sample, **changes)


def failed(kind: FailureKind = FailureKind.MISMATCH, message: str = "output 0 differs", **changes: Any) -> Record:
    return dataclasses.replace(record(**changes), verdict=Verdict.FAILED, failure=Failure(kind, message, "look there"))


def endings() -> dict[str, Record]:
    """A record for each way to end, by the word for it."""
    defect = failed(name="flawed")
    assert defect.test is not None
    lacks = Failure(FailureKind.CAPABILITY, "the target cannot have an ethos-u85-256")
    nobody = Failure(FailureKind.NO_REFERENCE, "nothing says what is right")
    begins = Divergence("npu-op", "starts at npu00001", source="net.py:12")
    return {
        "verified": record(),
        "compiled-only": record(case="compiled", verdict=Verdict.COMPILED_ONLY),
        "unverified": record(case="alone", verdict=Verdict.UNVERIFIED, failure=nobody),
        "skipped": record(case="big", verdict=Verdict.SKIPPED, failure=lacks, metrics=()),
        "failed": failed(name="sub", divergence=begins, console=("first", "\x1b[31mlast")),
        "internal": failed(FailureKind.INTERNAL, "TypeError: none", name="mul", test=None, model="net.py:net"),
        "known defect": dataclasses.replace(defect, test=dataclasses.replace(defect.test, defect="https://x.org/1")),
    }


def run(*records: Record, **changes: Any) -> RunResults:
    manifest = {
        "created": "2026-11-25T10:02:51+00:00",
        "machine": {"system": "Linux", "processor": "a processor", "cores": 2, "host": "vm"},
        "versions": {"torch": "2.13.0", "ethos-u-vela": "5.1.0"},
        "commit": "f0" * 20,
    }
    results = RunResults("20261125T100247Z-c394cb", "2026-11-25T10:02:51+00:00", records, (manifest,))
    return dataclasses.replace(results, **changes)


def hostile() -> RunResults:
    """A run in which every text is hostile."""
    base = record(
        model=HOSTILE, npu=HOSTILE, memory_mode=HOSTILE, system_config=HOSTILE, method=HOSTILE,
        target=TargetInfo(HOSTILE, HOSTILE, HOSTILE),
        test=SuiteTest(f"{HOSTILE}::{HOSTILE}", HOSTILE, HOSTILE, HOSTILE, HOSTILE),
        versions={HOSTILE: HOSTILE}, run=RunInfo(HOSTILE, HOSTILE), created=HOSTILE,
        metrics=tuple(Metric(f"{HOSTILE}{number}", number, HOSTILE, HOSTILE) for number in NUMBERS),
    )  # fmt: skip
    wrong = dataclasses.replace(base, verdict=Verdict.FAILED, console=(HOSTILE,) * 3, test=None,
                                failure=Failure(FailureKind.FAULT, HOSTILE, HOSTILE),
                                divergence=Divergence(HOSTILE, HOSTILE, source=HOSTILE))  # fmt: skip
    manifest = {"created": HOSTILE, "machine": {"host": HOSTILE, "cores": "two"}, "versions": {HOSTILE: HOSTILE},
                "commit": HOSTILE}  # fmt: skip
    return RunResults(HOSTILE, HOSTILE, (base, wrong), (manifest, {"created": "", "machine": 7, "versions": 7}))


def large(tests: int = 1500, metrics: int = 11) -> RunResults:
    base = record()
    assert base.test is not None
    numbers = tuple(Metric(f"metric{number}", 12345678 + number, "cycles", "modelled") for number in range(metrics))
    return run(*(
        dataclasses.replace(base, metrics=numbers, test=dataclasses.replace(
            base.test, id=f"suites/ops/test_a.py::test_add_{number}_U55_BI", operator=f"operator{number // 30}"))
        for number in range(tests)
    ))  # fmt: skip


def comparison(text: str = "another command stream", changes: int = 2) -> RunComparison:
    """A comparison with numbers that got worse, and a test that is missing."""
    rows = (RowDifference(RowChange.SLOWER, ("npu1",), ("npu2",), "Conv2D", "head", f"{text}:12", 7, 9),)
    moves = [
        Change(Word.REGRESSED, _subject(f"{text} {number}"), "npu_cycles", "modelled", "cycles", 1000, 1010.0,
               Cause.STREAM, text, Effect.FAIL, rows * 5)
        for number in range(changes)
    ]  # fmt: skip
    missing = Change(Word.MISSING, _subject("gone"), "verdict", "", "", "verified", None, Cause.NONE, "", Effect.WARN)
    counts = {Word.REGRESSED: changes, Word.MISSING: 1, Word.UNCHANGED: 4000}
    return RunComparison("night1", "night2", (*moves, missing), counts, 9, (f"{text}: 5.1.0 became 5.2.0",))


def runs() -> dict[str, tuple[RunResults, RunComparison | None]]:
    """Runs of all kinds with their comparisons, by what is special about them."""
    sample, artifact = record(), record().artifact
    assert sample.test is not None
    assert artifact is not None
    net = record(test=None, model="net.py:net")
    wide = dataclasses.replace(net, artifact=dataclasses.replace(artifact, scheme="a16w8"))
    worse = comparison(changes=1)
    of_wide = dataclasses.replace(worse.changes[0], subject=subject_of(wide))
    of_net = dataclasses.replace(worse.changes[0], subject=subject_of(net))
    lost = failed(FailureKind.NOT_LAUNCHED, "no board", run=RunInfo("run", attempt=1))
    flaky = run(failed(), record(name="fine"))
    units = (
        Metric("a_b", 1, "c", "fvp"), Metric("a", 2, "b_c", "fvp"), Metric("verified", 3, "", "fvp"),
        Metric("records", 4, "", "fvp"), Metric("run", 5, "", "fvp"), Metric("a", 6, "", "fvp"),
        Metric("a", 7, "", "vela"), Metric("npu_cycles", 8, "cycles", "modelled"),
    )  # fmt: skip
    labels = ("test_a.py::TestB::test_add[a::b/c.py-[1]]", "::net", "suites/models/digits.py:digits",
              "/home/me/net.py:net", "package.module:net", "net.pte", ":net", "net.py:")  # fmt: skip
    named = (
        record(test=dataclasses.replace(sample.test, id=label)) if "::" in label else record(test=None, model=label)
        for label in labels
    )
    others = (record(profile="MI", npu=""), record(profile="BI", npu=""), record(case="other"))
    return {
        "endings": (run(*endings().values(), *others), comparison()),
        "changes": (run(sample), comparison("ethos-u-vela 5.1.0 became 5.2.0", changes=40)),
        "equal": (run(sample), RunComparison("a", "b", (), {Word.UNCHANGED: 7}, 1)),
        "same question": (run(sample, record(metrics=units)), None),
        "two schemes": (run(net, wide), dataclasses.replace(worse, changes=(of_net, of_wide))),
        "two schemes fail": (
            run(*(failed(test=None, model="net.py:net", artifact=of.artifact) for of in (net, wide))),
            dataclasses.replace(worse, changes=(of_wide,)),
        ),
        "two cases": (run(*(dataclasses.replace(net, bench=BenchInfo("grid", case, "nets")) for case in "ab")), None),
        "two modes": (run(net, dataclasses.replace(wide, memory_mode="Sram_Only")), None),
        "edited scheme": (run(net, dataclasses.replace(wide, inputs_sha256="ef" * 32)), None),
        "other inputs": (run(net, dataclasses.replace(net, inputs_sha256="ef" * 32)), None),
        "times": (run(with_latency(record(clock_hz=500e6))), None),
        "not read": (run(sample, skipped=(Skipped("records-1.jsonl:2", "not a complete record"),)), None),
        "repeated": (run(lost, record(run=RunInfo("run", attempt=2))), None),
        "lost twice": (run(lost, dataclasses.replace(lost, run=RunInfo("run", attempt=2))), None),
        "labels": (run(*named), None),
        "quarantined": (in_quarantine(flaky, failed().label), None),
        "fixed": (in_quarantine(run(record(name="fine")), "*fine*"), None),
        "of another run": (run(record(run=None), record(name="sub", run=RunInfo("another"))), None),
    }


def _subject(label: str) -> Subject:
    return Subject(label, "ethos-u55-128", "Shared_Sram", "", "virtual", "corstone-300", "", "forward")
