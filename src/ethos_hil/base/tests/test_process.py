"""A child that ends is reaped at once, and one that does not is not waited for without end."""

from __future__ import annotations

import subprocess

import pytest

from ethos_hil.base.process import wait_for_end


def test_a_child_that_ends_is_reaped() -> None:
    process = subprocess.Popen(["true"])
    wait_for_end(process, 10)
    assert process.returncode == 0
    wait_for_end(process, 0)


def test_a_child_that_does_not_end_is_not_waited_for_longer() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            wait_for_end(process, 0.1)
        process.kill()
        wait_for_end(process, 10)
        assert process.returncode == -9
