"""Protects the NPU model from its own threads: matrix products use one thread during a run, and the setting returns."""

from __future__ import annotations

import threadpoolctl  # type: ignore[import-untyped]

from ethos_hil.harness.npu.compute.convolution import single_thread


def threads() -> set[int]:
    """Return how many threads the BLAS of NumPy would use; others that a process has loaded are never called here."""
    libraries = [library for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]
    return {library["num_threads"] for library in libraries if "numpy" in library["filepath"]}


def test_blas_uses_one_thread_inside_and_its_old_number_afterwards() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        assert len(before) == 1
        with single_thread():
            assert threads() == {1}
        assert threads() == before
