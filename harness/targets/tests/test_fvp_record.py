"""A whole run on an FVP whose UART is not a plain wire, from the program to the record."""

from __future__ import annotations

import secrets

import numpy as np
import pytest

from ethos_hil.base.question import Question
from ethos_hil.harness.fvp_stand_in.tests.jobs import load
from ethos_hil.harness.run import run
from ethos_hil.harness.targets import fvp
from ethos_hil.harness.targets.tests.conftest import Install
from ethos_hil.harness.targets.tests.variants import OBEYS_DC4
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.formats.pte_reader import Program


def test_a_record_says_that_the_link_was_printable(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fvp, "_STOPPED_SECONDS", 1.0)
    monkeypatch.setattr(secrets, "token_bytes", lambda size: bytes([0x14]) * size)
    install(OBEYS_DC4)
    recorded = load("add", "corstone-300")
    program = DATA / "add.pte"
    inputs = tuple(
        np.frombuffer(data, np.float32).reshape(tensor.sizes)
        for data, tensor in zip(recorded.inputs, Program.parse(recorded.pte).plan().input_tensors, strict=True)
    )
    stages: list[str] = []
    question = Question(str(program), target="corstone-300", inputs=(inputs,), expected=(recorded.outputs,))
    record = run(question, reporter=Stages(stages)).record
    assert record.verdict == "verified"
    assert [note for note in record.notes if note.startswith("the link is printable")]
    assert [text for text in stages if text.endswith(": on corstone-300 corstone-300: again, with a printable link")]
    assert "Asking FVP_Corstone_SSE-300_Ethos-U55 for its version and parameters" in stages


class Stages:
    """Keeps the stages of a run."""

    def __init__(self, heard: list[str]) -> None:
        self.stage = heard.append

    def step(self, done: int, total: int) -> None:
        """Nothing is kept of it."""
