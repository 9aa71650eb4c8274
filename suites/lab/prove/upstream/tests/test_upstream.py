"""Upstream's tests on the virtual boards: a sample passes, and an NPU that returns zeros is noticed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from ethos_hil.harness.fvp_stand_in.tests.zeros import install_zeros
from ethos_hil.suites.lab.prove.upstream.records import TestResult, read
from ethos_hil.suites.lab.prove.upstream.setting import Setting, firmware
from ethos_hil.suites.lab.tests.running import COMMAND

SAMPLE = Path(__file__).parents[1] / "sample.txt"
# The four networks of MLPerf Tiny among upstream's model tests; the other parametrisation of each is in the full run.
MODELS = [
    f"models/test_{name}.py::test_{name}_{npu}_INT[per_channel_quantization=true]"
    for name in ("ds_cnn", "mobilenet_v1_025", "resnet8", "deep_autoencoder")
    for npu in ("u55", "u85")
]
# Of the Cortex-M backend: the same networks, and a test of each kind that starts an FVP.
CORTEX_M = [
    *(
        f"cortex_m/test/models/test_{name}.py::test_implementation_{name}[{name}]"
        for name in ("ds_cnn", "mobilenet_v1_025", "resnet8", "deep_autoencoder")
    ),
    "cortex_m/test/ops/test_linear.py::test_implementation_linear[cortex-m55-linear_rank1]",
    "cortex_m/test/misc/test_portable_int8.py::test_shared_qspec_portable_int8_ops_fvp[amax]",
    "cortex_m/test/test_explicit_layout.py::test_explicit_conv1d_runs_on_fvp",
]
_TIME_LIMIT = 840  # two minutes on a quiet machine of two processors, several times as long on a busy one
LISTED = SAMPLE.read_text().splitlines()


def upstream(out: Path, items: list[str], *options: str) -> tuple[int, dict[str, TestResult], str]:
    """Run the command on listed tests; its exit status, the results, and what it printed."""
    out.mkdir(exist_ok=True)
    (out / "list.txt").write_text("\n".join(items))
    command = [*COMMAND, "upstream", "--items", str(out / "list.txt"), "--out", str(out), *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            text, _ = process.communicate(timeout=_TIME_LIMIT)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # pytest and its workers too
            raise
    return process.returncode, read(out / "results.jsonl"), text


def test_upstream_finds_a_runner_for_every_board_and_for_a_cortex_m_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from executorch.backends.arm.test.runner_utils import get_elf_path
    from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig

    monkeypatch.setenv("EXECUTORCH_ROOT", Setting.prepare(tmp_path, None).environment(1)["EXECUTORCH_ROOT"])
    cortex_m = f"_{CortexMTargetConfig(cpu=CortexM.M55).target_string}"
    boards = ("corstone-300", ""), ("corstone-300-u65", ""), ("corstone-320", ""), ("corstone-300", cortex_m)
    for name, suffix in boards:
        board = "corstone320" if "320" in name else "corstone300"
        for portable in (False, True):
            assert Path(get_elf_path(name, portable, suffix)).samefile(firmware(board)), name + suffix


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("items", "jobs"),
    [
        pytest.param(LISTED[:1], 1, id="one"),
        pytest.param([*LISTED, *MODELS, *CORTEX_M], 2, id="sample", marks=pytest.mark.proof),
    ],
)
def test_upstreams_operator_tests_and_tiny_models_pass(tmp_path: Path, items: list[str], jobs: int) -> None:
    status, results, text = upstream(tmp_path, items, "-j", str(jobs))
    assert status == 0, text
    assert sorted(results) == sorted(items)
    assert Counter(result.outcome for result in results.values()) == {"passed": len(items)}, text
    assert not [result.id for result in results.values() if not result.calls], "all of these reach the device"
    assert {call.equal for result in results.values() for call in result.calls} == {True}, text


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.timeout(900)
def test_with_an_npu_that_returns_zeros_they_do_not_pass(tmp_path: Path) -> None:
    """Upstream's comparison must notice in its operator tests.

    In the tiny models it does not: their tolerance (0.25, and two units of quantisation) is above their outputs, below
    0.1. There the comparison with the reference must notice.
    """
    install_zeros(tmp_path / "zeros")
    items = [*LISTED[:4], *MODELS]
    status, results, text = upstream(tmp_path / "out", items, "-j", "2", "--fvps", str(tmp_path / "zeros"))
    assert status == 1, text
    assert sorted(results) == sorted(items)
    for result in results.values():
        assert {call.status for call in result.calls} == {0}, "it reached the device, which ran to its end"
        assert {call.equal for call in result.calls} == {False}, text
        if result.id not in MODELS:
            assert (result.outcome, result.message[:14]) == ("failed", "AssertionError"), text
