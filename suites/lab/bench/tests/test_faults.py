"""Faults are named exactly, and strike the line as their seed says."""

from __future__ import annotations

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.suites.lab.bench.faults import ON_THE_LINE, BenchFault, FaultSpec, LineFaults

DATA = bytes(range(256)) * 400


@pytest.mark.parametrize(
    "text",
    ["", "fire", "to-moon.drop", "to-host.npu-dead", "drop:x", "drop:-1", "drop:0", "drop:1:2", "stuck", "npu-dead:1"],
)
def test_what_is_no_fault_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        FaultSpec.parse(text)
    assert caught.value.hint


def through(seed: str, *faults: str, size: int = 1000) -> tuple[bytes, float, LineFaults]:
    """What comes out, and how long the line stood still."""
    lane = LineFaults(seed)
    for fault in faults:
        lane.arm(FaultSpec.parse(fault))
    pieces = [piece for at in range(0, len(DATA), size) for piece in lane.through(DATA[at : at + size])]
    return b"".join(part for _, part in pieces), sum(pause for pause, _ in pieces), lane


@pytest.mark.parametrize("kind", ON_THE_LINE)
def test_each_fault_does_what_it_says(kind: BenchFault) -> None:
    out, pause, lane = through("1", f"{kind}:1000")
    assert lane.struck[kind] >= 1
    assert (pause > 0) == (kind is BenchFault.DELAY)
    assert (out == DATA) == (kind is BenchFault.DELAY)
    lengths = {BenchFault.CORRUPT: 0, BenchFault.DELAY: 0, BenchFault.REPEAT: 1, BenchFault.INSERT: 1}
    assert (len(out) > len(DATA)) - (len(out) < len(DATA)) == lengths.get(kind, -1)
    if kind is BenchFault.CUT:
        assert out == DATA[:1000]
    lane.heal()
    assert lane.through(b"whole") == [(0.0, b"whole")]
