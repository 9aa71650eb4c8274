"""Protects the NPU model from its own threads: matrix products use one thread during a run, and the setting returns."""

from __future__ import annotations

import threadpoolctl  # type: ignore[import-untyped]

from ethos_hil.harness.npu.compute import blas


def threads() -> set[int]:
    """Return how many threads each loaded BLAS library would use."""
    return {library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"}


def test_blas_uses_one_thread_inside_and_its_old_number_afterwards() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        with blas.single_thread():
            assert threads() == {1}
        assert threads() == before
