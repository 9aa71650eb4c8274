"""ExecuTorch's runtime on this computer, as far as only private names of its Python bindings reach it (1.4.1)."""

from __future__ import annotations


def use_threads(count: int) -> None:
    """Let programs that are loaded from now on compute with so many threads; those loaded before must not run again."""
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(count)
