"""The memory that a benchmark's process is charged with."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from ethos_hil.suites.lab.self_bench.peak_memory import peak_memory

_LARGE = 400 << 20


def test_a_process_is_not_charged_with_what_its_parent_used() -> None:
    """The benchmark's limits are for its own process, whatever the one that starts it has done before."""
    block = bytearray(_LARGE)
    block[::4096] = bytes(len(block[::4096]))
    assert peak_memory() > _LARGE
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(peak_memory).result() < _LARGE
