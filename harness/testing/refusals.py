"""What is said of what cannot be used, for recorded answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError


def refusal(ask: Callable[..., object], *arguments: object, folder: Path | None = None) -> str:
    """Return the message and the hint with which a question is refused; a folder's path is shown as `[folder]`."""
    with pytest.raises(UsageError) as error:
        ask(*arguments)
    text = f"{error.value.message} ({error.value.hint})"
    return text.replace(str(folder), "[folder]") if folder is not None else text
