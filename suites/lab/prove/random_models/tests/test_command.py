"""The command counts how networks end; a refusal without a line or advice is a failure, and so is a lost worker."""

from __future__ import annotations

import pytest
from rich.console import Console

from ethos_hil.base.errors import CompileError
from ethos_hil.suites.lab.prove.random_models.command import endings, reasons
from ethos_hil.suites.lab.prove.random_models.networks import network
from ethos_hil.suites.lab.prove.random_models.trial import NetworkEnding, NetworkJob, NetworkTrial, refused

NPU = "ethos-u55-128"


@pytest.mark.parametrize(
    ("message", "hint", "ending"),
    [
        ("aten.sort at nets.py:7 is none", "end before it", NetworkEnding.REFUSED),
        ("aten.sort is none", "end before it", NetworkEnding.UNCLEAR),
        ("aten.sort at nets.py:7 is none", None, NetworkEnding.UNCLEAR),
        ("aten.sort at nets.py:7 is none", "--debug shows the whole traceback", NetworkEnding.UNCLEAR),
    ],
)
def test_a_refusal_needs_a_line_and_advice(message: str, hint: str | None, ending: NetworkEnding) -> None:
    done = refused(network(0), NPU, CompileError(message, hint=hint))
    assert done.ending is ending
    assert done.ending.failed is (ending is NetworkEnding.UNCLEAR)


def test_reasons_are_counted_without_what_differs() -> None:
    trials = [
        NetworkTrial(seed, NPU, NetworkEnding.REFUSED, f"aten.sort at nets.py:{seed} has {seed} rows [end before it]")
        for seed in (7, 8)
    ]
    trials.append(NetworkTrial(9, NPU, NetworkEnding.FAILED, "output 0"))
    assert dict(reasons(trials)) == {"aten.sort at LINE has # rows": 2}
    terminal = Console(width=100)
    with terminal.capture() as text:
        terminal.print(endings(trials))
    assert text.get().split() == ["NPU", "refused", "failed", NPU, "2", "1"]
    assert NetworkJob(3, (NPU,), "a8w8").lost(0, "no end within 300 seconds").ending.failed
