"""The threads that PyTorch computes with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """While inside, PyTorch computes with one thread, in all threads of the process.

    Float sums depend on how they are split between threads, and scales, biases and folded weights depend on them: with
    another number of processors, or another OMP_NUM_THREADS, a model would give another program under the same key.

    OpenMP's threads wait for one another without giving up their processors. While boards occupy these, a call of
    ResNet-8 took 0.56 s with two threads and 0.025 s with one (measured on two cores).
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
