"""torch's registration of Python kernels, without the types that it evaluates for each.

To keep composite operators whole, torch 2.13 registers a dozen kernels for each of the 550 there are whenever a program
is decomposed (torch/export/exported_program.py, `_override_composite_implicit_decomp`), six times a lowering. Each goes
through `OpOverload.py_impl`, which defines a function whose annotations, being evaluated, cost more than all it does.
Here the common case, a kernel for a dispatch key, goes without; every other is torch's.

Measured as CPU seconds, median of four lowerings for an Ethos-U55-128 alternating with and without this in one process:
1.07 to 0.89 for an addition, 1.14 to 1.09 for a convolution, 1.70 to 1.53 for a softmax; the programs are equal byte
for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Kernel = Callable[..., Any]


@contextmanager
def quick_registration() -> Iterator[None]:
    """While inside, kernels are registered for dispatch keys with fewer detours."""
    import torch

    overload, dispatch_key = torch._ops.OpOverload, torch._C.DispatchKey
    by_torch = overload.py_impl

    def py_impl(self: Any, key: Any) -> Callable[[Kernel], Kernel]:
        if type(key) is not dispatch_key or key == dispatch_key.Python:
            return by_torch(self, key)

        def register(kernel: Kernel) -> Kernel:  # in this file annotations are not evaluated
            if key in self.py_kernels:  # torch has an error for that
                return by_torch(self, key)(kernel)
            self.py_kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return register

    setattr(overload, by_torch.__name__, py_impl)
    try:
        yield
    finally:
        delattr(overload, by_torch.__name__)  # it is inherited
