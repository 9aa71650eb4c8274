"""Importing ExecuTorch so that Python's garbage collector does not examine it, at the import or later.

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
