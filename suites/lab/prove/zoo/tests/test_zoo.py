"""Protects what the zoo says of a run: how it ended, what ran on the CPU, and its tables."""

from __future__ import annotations

import json
import signal
from dataclasses import replace

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.suites.lab.prove.zoo import table
from ethos_hil.suites.lab.prove.zoo.pair import PairJob, PairResult
from ethos_hil.suites.models.zoo.architectures import ARCHITECTURES


@pytest.mark.slow
def test_a_run_is_reported_with_what_the_cpu_computed_and_why() -> None:
    rate = PairJob("click_rate", "ethos-u55-128", "b", 250).run()
    assert (rate.group, rate.status) == ("verified", 0), rate
    assert all((rate.cycles, rate.sram, rate.lowering, rate.delegated))
    left = {operator.operator: operator for operator in rate.on_cpu}
    assert left["aten::index_select.out"].calls == 3
    assert left["aten::index_select.out"].reason == "an Ethos-U55 cannot pick elements by indices"
    assert not any("quantize" in name for name in left), "conversions are not operators of the model"
    assert PairResult.of_json(json.loads(json.dumps(rate.to_json()))) == rate


def test_the_tables_have_every_run(recorded: Recorded) -> None:
    cell = PairResult("gru_cell", "ethos-u55-128", "b", 0, "verified", cycles=4321, sram=1024, delegated=3)
    refused = replace(
        cell, npu="ethos-u85-256", status=1, verdict="failed", kind="compile", message="no | room", hint="x"
    )
    pairs = [pair.to_json() for pair in (cell, refused)]
    tables = table.markdown({"facts": {"date": "today"}, "pairs": pairs})
    waiting = {line.split("`")[1] for line in tables.pop("zoo-waiting").splitlines()[2:]}
    assert waiting == ARCHITECTURES.keys() - {"gru_cell"}
    recorded.check(tables)


def test_a_run_that_names_nothing_or_takes_too_long_is_wrong() -> None:
    for name, seconds, status in (("no_such", 60, 2), ("gru_cell", 1, -signal.SIGKILL)):
        pair = PairJob(name, "ethos-u55-128", "b", seconds).run()
        assert (pair.group, pair.status) == ("wrong", status)


def test_only_a_verified_run_is_verified_and_only_words_before_boot_are_a_refusal() -> None:
    wrong = [(1, "unverified", ""), (0, "", ""), (4, "", "compile")]
    wrong += [(1, "failed", kind) for kind in ("mismatch", "fault", "unsupported")]
    groups = {(0, "verified", ""): "verified", **dict.fromkeys(wrong, "wrong")}
    groups |= {(1, "failed", kind): "refused" for kind in ("compile", "delegation")}
    assert {answer: PairResult("net", "npu", "b", *answer).group for answer in groups} == groups
