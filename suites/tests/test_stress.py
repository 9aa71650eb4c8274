"""Sessions at once on one cache, and one of them killed: `python -m suites.stress` does it as often as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites import stress
from suites.tests.session import SAMPLE


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", [1, 2], ids=["with its workers", "without its workers"])
def test_a_session_that_is_killed_disturbs_no_other(tmp_path: Path, number: int) -> None:
    found = stress.run(tmp_path, number, [str(SAMPLE), "-k", "itself"])
    assert found.verified == 5
