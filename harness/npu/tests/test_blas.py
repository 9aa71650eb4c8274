"""Protects the NPU model from its own threads: matrix products use one while it runs, and what was set before after."""

from __future__ import annotations

import threadpoolctl  # type: ignore[import-untyped]

from ethos_hil.harness.npu.compute import blas


def threads() -> set[int]:
    """Threads that each BLAS library loaded would use."""
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


def test_one_thread_within_and_as_before_afterwards() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        with blas.single_thread():
            assert threads() == {1}
        assert threads() == before
