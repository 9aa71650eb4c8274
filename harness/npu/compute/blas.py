"""BLAS with one thread, for matrix products.

The products are cut into pieces that fit a core's cache, for which more threads gain nothing. While another process
(the simulated CPU, other tests) occupies a core, OpenBLAS's threads mostly wait for one another: with MobileNetV2 on
two cores, 45 ms become 300 to 500 ms (measured).
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any


@functools.cache
def _controller() -> Any:
    """Return control over the loaded BLAS libraries, or None without threadpoolctl; that only costs speed."""
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")


def single_thread() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which BLAS uses one thread."""
    controller = _controller()
    if controller is None:
        return contextlib.nullcontext()
    limit: contextlib.AbstractContextManager[Any] = controller.limit(limits=1)
    return limit
