"""The three sabotages that ExecuTorch's own tests for Ethos-U survive: here every affected test turns red.

Breakages of everything behind the suites are in test_sabotage.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ethos_hil.suites.tests.sabotage import VARIABLE
from ethos_hil.suites.tests.session import ROOT, SAMPLE, Session, session

pytestmark = pytest.mark.slow
CASES = {
    "plus_itself": SAMPLE,
    "conv2d_1x1": ROOT / "suites/ops/test_convolution.py",
    "linear_row": ROOT / "suites/ops/test_matmul.py",
    "max_pool2d_2x2": ROOT / "suites/ops/test_pool.py",
}
"""Operators that are each compiled in a different way, and the files that declare them."""
NPUS = ("U55_BI", "U65_BI", "U85_BI")
FAILED = 1
CULPRIT = 'raise FileNotFoundError("the compiler")'


def listed(*profiles: str, cases: Sequence[str] = tuple(CASES)) -> list[str]:
    """Return the tests' names, as pytest selects them."""
    return [f"{CASES[case]}::test_{case}_{profile}" for case in cases for profile in profiles]


def names(chosen: Sequence[str]) -> set[str]:
    return {test.partition("::")[2] for test in chosen}


def sabotaged(folder: Path, how: str, chosen: Sequence[str], *options: str, cache: Path | None = None) -> Session:
    environment = {VARIABLE: how} | ({"ETHOS_HIL_CACHE": str(cache)} if cache is not None else {})
    return session(folder, *chosen, "-p", "ethos_hil.suites.tests.sabotage", *options, environment=environment)


def assert_all_red(result: Session, chosen: Sequence[str], *kinds: str) -> None:
    assert result.status == FAILED
    assert result.verdicts == dict.fromkeys(names(chosen), "failed"), result.output
    for name, test in result.tests.items():
        assert test.element == "failure", name
        assert test.properties["kind"] in kinds, (name, test.text)
    assert "verified" not in result.output.splitlines()[-1]


@pytest.mark.parametrize(
    "compiled", [pytest.param(["plus_itself"], id="one"), pytest.param([*CASES], id="all", marks=pytest.mark.proof)]
)
def test_a_compiler_that_raises_is_red(tmp_path: Path, compiled: list[str]) -> None:
    """The sabotages break Vela, and the maker of TOSA in the profiles without Vela. A traceback is printed on
    request.
    """
    chosen = [*listed("MI", "BI", cases=["plus_itself"]), *listed("U55_BI", "U85_BI", cases=compiled)]
    result = sabotaged(tmp_path, "compiler-raises", chosen, "--tb=long", cache=tmp_path / "cache")
    assert_all_red(result, chosen, "compile")
    assert CULPRIT in result.output


@pytest.mark.proof
def test_a_compiler_that_returns_zeros_is_red(tmp_path: Path) -> None:
    """Upstream's reaction to Vela's zeros depends on the NPU; it may look for a file that Vela would have written."""
    chosen = [*listed("MI", "BI", cases=["plus_itself"]), *listed("U55_BI", "U65_BI")]
    result = sabotaged(tmp_path, "compiler-zeros", chosen, cache=tmp_path / "cache")
    assert_all_red(result, chosen, "compile", "not-available")
    assert "suites/trial/run_trial.py:" not in result.output, "a traceback"


def test_without_the_reference_model_all_is_red(tmp_path: Path) -> None:
    """What test_verdicts.py has seen green, and red with an NPU of zeros."""
    chosen = listed("MI", "BI", *NPUS, cases=["plus_itself"])
    assert_all_red(sabotaged(tmp_path, "no-reference", chosen), chosen, "no-reference")


@pytest.mark.proof
def test_green_turns_red_without_the_reference_model_or_with_an_npu_of_zeros(tmp_path: Path) -> None:
    """Everything is lowered already then. If it were not green when nothing is broken, no test here would mean much."""
    chosen = listed("MI", "BI", *NPUS)
    result = session(tmp_path, *chosen)
    assert result.status == 0, result.output
    assert result.verdicts == dict.fromkeys(names(chosen), "verified")
    assert_all_red(sabotaged(tmp_path, "no-reference", chosen), chosen, "no-reference")
    on_npu = listed(*NPUS)
    assert_all_red(sabotaged(tmp_path, "wrong-answer", on_npu), on_npu, "mismatch")
