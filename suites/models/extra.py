"""Packages that only one model needs: the extra `models`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ethos_hil.lowering.errors import UsageError


@contextmanager
def needing_extra(what: str) -> Iterator[None]:
    """Turns an ImportError inside into a UsageError that says what to install; `what` needs it."""
    try:
        yield
    except ImportError as error:
        raise UsageError(f"{what}: {error}", hint="pip install 'ethos-hil[models]'") from error
