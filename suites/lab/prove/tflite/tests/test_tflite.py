"""Protects the functional NPU on streams of TensorFlow Lite networks.

Their outputs must have the digests that TensorFlow Lite Micro's outputs have. `python -m ethos_hil.suites.lab tflite
--record` keeps these, so the tests do not need its environment.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import forget
from ethos_hil.harness.npu.compute import output
from ethos_hil.lowering.formats.npu_network import read_tflite
from ethos_hil.lowering.testing.tflite_graph import Generator, compile_tflite
from ethos_hil.suites.lab.prove.tflite import check
from ethos_hil.suites.lab.prove.tflite.check import run
from ethos_hil.suites.lab.prove.tflite.command import RECORDED, outputs_digest
from ethos_hil.suites.lab.prove.tflite.networks import NETWORKS

ANSWERS = json.loads(RECORDED.read_text())
PLACES = [
    ("ethos-u85-256", Generator.REGOR),
    ("ethos-u55-128", Generator.REGOR),
    ("ethos-u65-512", Generator.REGOR),
    ("ethos-u55-128", Generator.PYTHON),
]
NOT_COMPILED = {
    ("mean of channels", place) for place in PLACES
} | {
    (name, PLACES[3]) for name in ("sum of channels", "maximum of a map", "batch matmul int8")
} | {("batch matmul int16", place) for place in PLACES[1:]}  # fmt: skip
OFTEN = 8
"""Every other network at one place, in turn, is part of `make test`; all of them at all places are of `make lab`."""
ALWAYS = {(name, 0) for name in ("logistic uint8", "tanh uint8", "hard swish uint8")} | {("conv of dead channels", 1)}
"""Networks, and the number of the place where they reach what no other does."""


@pytest.mark.parametrize(
    ("name", "place"),
    [
        pytest.param(
            name,
            place,
            marks=[pytest.mark.proof] * (index != number % OFTEN and (name, index) not in ALWAYS),
            id=f"{name}-{'-'.join(place)}",
        )
        for number, name in enumerate(NETWORKS)
        for index, place in enumerate(PLACES)
    ],
)
@pytest.mark.product
def test_outputs_are_those_of_tensorflow_lite_micro(name: str, place: tuple[str, Generator]) -> None:
    assert ANSWERS.keys() == NETWORKS.keys()
    tflite = NETWORKS[name].tflite
    assert hashlib.sha256(tflite).hexdigest() == ANSWERS[name]["tflite"], "record the answers again"
    data = compile_tflite(tflite, EthosU.parse(place[0]), generator=place[1])
    file = read_tflite(data, name)
    assert (file.others > 0) == ((name, place) in NOT_COMPILED)
    if not file.others:
        outputs, _ = run(name, file.networks[0])
        assert outputs_digest(outputs) == ANSWERS[name]["outputs"]


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.product
def test_one_unit_in_the_table_of_tanh_is_seen(change: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = compile_tflite(NETWORKS["lstm"].tflite, EthosU.parse("ethos-u55-128"))
    network = read_tflite(data, "lstm").networks[0]
    built_in = output.curve_table

    def changed(curve: output.Curve) -> np.ndarray:
        table = built_in(curve).copy()
        table[:, 0] = (table[:, 0].astype(int) + change).clip(-32768, 32767)
        return table

    assert outputs_digest(run("lstm", network)[0]) == ANSWERS["lstm"]["outputs"]
    monkeypatch.setattr(output, "curve_table", changed)
    forget()
    assert outputs_digest(run("lstm", network)[0]) != ANSWERS["lstm"]["outputs"]


@pytest.mark.proof
def test_the_recorded_answers_are_todays() -> None:
    """It needs `make build/tflite-micro/.installed`."""
    names = ["lstm", "softmax int8", "leaky relu int16"]
    answers = check.answers(names)
    assert {name: outputs_digest(answer.outputs) for name, answer in answers.items()} == {
        name: ANSWERS[name]["outputs"] for name in names
    }
