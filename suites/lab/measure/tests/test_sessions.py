"""Sessions at once on one cache, one of them killed. `suites/lab/measure/sessions.py` does it as often as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.suites.lab.measure import sessions
from ethos_hil.suites.tests.session import SAMPLE


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_session_that_is_killed_disturbs_no_other(tmp_path: Path) -> None:
    """Round 2 kills when two artifacts are made, and leaves the workers behind."""
    result = sessions.run(tmp_path, 2, [str(SAMPLE), "-k", "itself"])
    assert result.verified == 5
