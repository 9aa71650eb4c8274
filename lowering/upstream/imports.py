"""Importing ExecuTorch without having Python's garbage collector go through it, then and ever after.

torch and executorch leave 700,000 objects that live as long as the process. Importing them sets off full collections,
and so does every lowering afterwards, which makes and drops graphs by the thousand; none finds anything in what was
imported.

Measured as CPU seconds here: importing all that a lowering for Ethos-U needs 5.9 to 5.2 (median of 3); a lowering of an
addition 1.44 to 1.08, of a convolution 1.56 to 1.33, of a softmax 2.85 to 2.65 (median of 6, alternating in one
process).
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
    """Imports what lowering needs, once a process, and has whatever lives by then never looked at for cycles again.

    A graph that lives by then, as the first model's may, stays for good: one a process.
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
