"""Upstream's tests on the virtual boards: a sample passes, and an NPU that returns zeros is noticed."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from harness.fvp.tests.zeros import install_zeros
from suites.upstream.records import Result, read

SAMPLE = Path(__file__).parents[1] / "sample.txt"
# The four networks of MLPerf Tiny among upstream's model tests; the other parametrisation of each is in the full run.
MODELS = [
    f"models/test_{name}.py::test_{name}_{npu}_INT[per_channel_quantization=true]"
    for name in ("ds_cnn", "mobilenet_v1_025", "resnet8", "deep_autoencoder")
    for npu in ("u55", "u85")
]


def upstream(out: Path, items: list[str], *options: str) -> tuple[int, dict[str, Result], str]:
    """Runs the command on listed tests; its exit status, the results, and what it printed."""
    out.mkdir(exist_ok=True)
    (out / "list.txt").write_text("\n".join(items))
    command = [sys.executable, "-m", "suites.upstream", "--items", str(out / "list.txt"), "--out", str(out), "-j", "2"]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, timeout=280)
    return ended.returncode, read(out / "results.jsonl"), ended.stdout + ended.stderr


@pytest.mark.slow
def test_a_sample_of_upstreams_tests_and_the_tiny_models_pass(tmp_path: Path) -> None:
    items = [*SAMPLE.read_text().splitlines(), *MODELS]
    status, results, text = upstream(tmp_path, items)
    assert status == 0, text
    assert sorted(results) == sorted(items)
    assert Counter(result.outcome for result in results.values()) == {"passed": len(items)}, text
    assert not [result.id for result in results.values() if not result.calls], "all of these reach the device"
    assert {result.without for result in results.values()} == {"xfailed"}


@pytest.mark.slow
def test_with_an_npu_that_returns_zeros_the_tiny_models_fail(tmp_path: Path) -> None:
    install_zeros(tmp_path / "zeros")
    status, results, text = upstream(tmp_path / "out", MODELS, "--fvps", str(tmp_path / "zeros"))
    assert status == 1, text
    assert {name: result.outcome for name, result in results.items()} == dict.fromkeys(MODELS, "failed"), text
    for result in results.values():
        assert result.calls, "it must have reached the device"
        assert {call.status for call in result.calls} == {0}, "the board ran to its end"
        assert result.message.startswith("AssertionError"), "and upstream's comparison saw it"
