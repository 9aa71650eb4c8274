"""Packages that only one model needs: the extra `models`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ethos_hil.base.errors import UsageError


@contextmanager
def needing_extra(what: str) -> Iterator[None]:
    """Turn an ImportError inside the block into a UsageError with the command to install it; `what` needs the
    package.
    """
    try:
        yield
    except ImportError as error:
        raise UsageError(f"{what}: {error}", hint="pip install 'ethos-hil[models]'") from error
