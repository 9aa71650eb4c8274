"""How this process imports ExecuTorch and lowers models: Python's garbage collector, and PyTorch's threads.

torch and executorch leave 700,000 objects that live as long as the process. Importing them triggers full collections.
So does every lowering, because it makes and drops thousands of graphs. No collection finds garbage in what was
imported.

Measured in CPU seconds: importing all that a lowering for Ethos-U needs, 5.9 without and 5.2 with this (median of 3);
lowering an addition 1.44 and 1.08, a convolution 1.56 and 1.33, a softmax 2.85 and 2.65 (median of 6, alternating in
one process).
"""

from __future__ import annotations

import functools
import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager

_MODULES = (
    "executorch.exir",
    "executorch.backends.arm.ethosu",
    "executorch.backends.arm.quantizer",
    "executorch.backends.arm.util._factory",
    "torchao.quantization.pt2e.quantize_pt2e",
)


@functools.cache
def import_executorch() -> None:
    """Imports what lowering needs, once in a process. Objects that exist then are never examined for cycles again.

    That includes the graph of the first model, if it exists then: its cycles are never freed.
    """
    collecting = gc.isenabled()
    gc.disable()
    try:
        for module in _MODULES:
            importlib.import_module(module)
        gc.freeze()
    finally:
        if collecting:
            gc.enable()


_YOUNG = 50_000
"""Objects that are made, less those that are dropped, before the youngest are examined; 700 is Python's own number."""


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """While inside, the collector runs 70 times less often.

    Lowering makes graphs of hundreds of thousands of objects, which live until the next pass has made another. Most
    collections find no garbage in them. With Python's own number, MobileViT-XXS takes 1.07 times as long (CPU time, in
    turn).
    """
    before = gc.get_threshold()
    gc.set_threshold(_YOUNG, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


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
