"""The three sabotages that ExecuTorch's own tests for Ethos-U survive: here every test they concern turns red.

Breakages of everything behind the suites are in test_sabotage.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.profile import PROFILES
from suites.tests.sabotage import VARIABLE
from suites.tests.session import SAMPLE, Session, session

pytestmark = pytest.mark.slow
TESTS = {f"test_plus_itself_{profile.name}" for profile in PROFILES}
FAILED = 1
CULPRIT = 'raise FileNotFoundError("the compiler")'


def sabotaged(folder: Path, how: str, cache: Path | None = None, *options: str, select: str = "itself") -> Session:
    environment = {VARIABLE: how} | ({"ETHOS_HIL_CACHE": str(cache)} if cache is not None else {})
    return session(folder, SAMPLE, "-k", select, "-p", "suites.tests.sabotage", *options, environment=environment)


def assert_all_red(found: Session, *kinds: str, tests: set[str] = TESTS) -> None:
    assert found.status == FAILED
    assert found.verdicts == dict.fromkeys(tests, "failed"), found.output
    for name, test in found.tests.items():
        assert test.element == "failure", name
        assert test.properties["kind"] in kinds, (name, test.text)
    assert "verified" not in found.output.splitlines()[-1]


def test_unbroken_they_are_green(tmp_path: Path) -> None:
    """Or none of the tests below would mean anything."""
    found = session(tmp_path, SAMPLE, "-k", "itself")
    assert found.status == 0, found.output
    assert found.verdicts == dict.fromkeys(TESTS, "verified")


def test_a_compiler_that_raises_is_red(tmp_path: Path) -> None:
    """Vela, and what makes TOSA in the profiles that end there. Where it is asked for, there is a traceback."""
    found = sabotaged(tmp_path, "compiler-raises", tmp_path / "cache", "--tb=long")
    assert_all_red(found, "compile")
    assert CULPRIT in found.output


def test_a_compiler_that_returns_zeros_is_red(tmp_path: Path) -> None:
    """What upstream does with Vela's zeros depends on the NPU; it may look for a file that Vela would have written."""
    found = sabotaged(tmp_path, "compiler-zeros", tmp_path / "cache")
    assert_all_red(found, "compile", "not-available")
    assert "suites/check.py:" not in found.output, "a traceback"


def test_a_missing_reference_model_is_red_although_everything_is_lowered_already(tmp_path: Path) -> None:
    assert session(tmp_path, SAMPLE, "-k", "itself").status == 0
    assert_all_red(sabotaged(tmp_path, "no-reference"), "no-reference")


def test_a_missing_reference_model_is_red_from_the_start(tmp_path: Path) -> None:
    found = sabotaged(tmp_path, "no-reference", tmp_path / "cache", select="itself_U55 or itself_BI")
    assert_all_red(found, "no-reference", tests={"test_plus_itself_U55_BI", "test_plus_itself_BI"})


def test_an_npu_that_writes_zeros_is_red(tmp_path: Path) -> None:
    found = sabotaged(tmp_path, "wrong-answer", select="itself and (u55 or u65 or u85)")
    assert_all_red(found, "mismatch", tests={f"test_plus_itself_U{family}5_BI" for family in (5, 6, 8)})
