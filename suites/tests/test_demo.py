"""The demo: the device agrees with the host on every digit."""

from __future__ import annotations

import pytest

from ethos_hil.suites import demo


def test_the_demo_agrees_on_every_digit(capfd: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    printed = capfd.readouterr().out
    assert printed.startswith("verified")
    assert "host and device agree on 200 of 200 digits" in printed
    accuracies = [line.split() for line in printed.splitlines() if line.startswith(("float", "quantised"))]
    assert len(accuracies) == 3
    for words in accuracies:
        assert int(words[2]) >= 185, "the network has learnt its digits"
    assert accuracies[1][2:] == accuracies[2][2:]
