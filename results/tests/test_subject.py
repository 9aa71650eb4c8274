"""What is followed has one key, whether a record, a history or the gate says what it is; and names tell all apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from ethos_hil.base.record import BenchInfo, Record, RunnerInfo, TargetInfo
from ethos_hil.results.compaction.run_file import compact_records
from ethos_hil.results.gate.observation import of_record
from ethos_hil.results.history import History
from ethos_hil.results.store import StoredRecord
from ethos_hil.results.subject import KEY, Names, Subject, subject_of
from ethos_hil.results.testing.synthetic_year import nights

TEST = next(nights(count=1, tests=1))[0].record


def model(scheme: str = "a8w8", **changes: object) -> Record:
    assert TEST.artifact is not None
    record = replace(TEST, test=None, model="net.py:net", artifact=replace(TEST.artifact, scheme=scheme))
    return replace(record, **changes)  # type: ignore[arg-type]


OTHERS = {
    "plain": model(),
    "npu": model(npu="ethos-u85-256"),
    "mode": model(memory_mode="Sram_Only"),
    "config": model(system_config="Deep"),
    "target": model(target=TargetInfo("board:b", "board", "corstone-300")),
    "soc": model(target=TargetInfo("virtual", "virtual", "corstone-310")),
    "runner": model(runner=RunnerInfo("r", "ab" * 32)),
    "method": model(method="decode"),
    "case": model(bench=BenchInfo("grid", "wide", "nets")),
    "scheme": model("a16w8"),
}


@pytest.mark.parametrize("kind", [*OTHERS, "test", "quantised test"])
def test_a_history_and_the_gate_have_the_key_of_the_record(tmp_path: Path, kind: str) -> None:
    assert TEST.artifact is not None
    quantised = replace(TEST, artifact=replace(TEST.artifact, scheme="a16w8"))
    record = {**OTHERS, "test": TEST, "quantised test": quantised}[kind]
    compact_records([StoredRecord("night", "", record)], tmp_path)
    (row,) = History(tmp_path).rows(f"SELECT {KEY} AS key FROM records")
    assert Subject(**row["key"]) == subject_of(record) == of_record(record).subject


def test_no_two_have_one_key_or_one_name() -> None:
    subjects = [subject_of(record) for record in OTHERS.values()]
    assert len(set(subjects)) == len(OTHERS)
    for both in combinations(subjects, 2):
        names = Names(both)
        assert names.full(both[0]) != names.full(both[1])
    names = Names(subjects)
    assert len({names.full(subject) for subject in subjects}) == len(OTHERS)


def test_a_name_has_no_more_than_it_needs() -> None:
    plain, scheme, mode = (subject_of(OTHERS[kind]) for kind in ("plain", "scheme", "mode"))
    assert Names([plain]).full(plain) == "net.py:net"
    assert Names([plain, scheme]).full(scheme) == Names([plain, scheme]).name(scheme) == "net.py:net (a16w8)"
    assert Names([plain, mode]).full(mode) == "net.py:net on Sram_Only"
    assert Names([plain, mode]).name(mode) == "net.py:net"
    other = subject_of(model(npu="ethos-u85-256", target=TargetInfo("virtual", "virtual", "corstone-320")))
    assert Names([plain, other]).full(plain) == "net.py:net on ethos-u55-128"


def test_what_is_not_known_of_a_failure_tells_nothing_apart() -> None:
    early = replace(model(), artifact=None, memory_mode="", target=TargetInfo("none", "none", ""))
    plain = subject_of(model())
    assert Names([plain, subject_of(early)]).full(plain) == "net.py:net"
