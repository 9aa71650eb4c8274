"""One thread for matrix products.

They are cut into pieces that fit a core's cache, for which more threads gain nothing; and while another process (the
simulated CPU, other tests) keeps a core busy, the threads of OpenBLAS wait for one another most of the time: measured
with MobileNetV2 on two cores, 45 ms become 300 to 500 ms.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any


@functools.cache
def _controller() -> Any:
    """Control over the BLAS libraries loaded, or None without threadpoolctl; then only speed suffers."""
    try:
        from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")


def single_thread() -> contextlib.AbstractContextManager[Any]:
    """While this is active, BLAS uses one thread."""
    controller = _controller()
    if controller is None:
        return contextlib.nullcontext()
    limit: contextlib.AbstractContextManager[Any] = controller.limit(limits=1)
    return limit
