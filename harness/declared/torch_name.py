"""What torch calls by a name."""

from __future__ import annotations

import difflib
from typing import Any

import torch

from ethos_hil.base.errors import UsageError


def named(name: str, inside: str = "torch") -> Any:
    """Return what is called `name` there.

    Args:
        name: "erf", "nn.functional.gelu".
        inside: a module of torch, "torch.nn".

    Raises:
        UsageError: nothing is called so; names the nearest.
    """
    owner: Any = torch
    path, *within = inside.split(".")
    *folders, last = name.split(".")
    for each in (*within, *folders):
        owner, path = getattr(owner, each, None), f"{path}.{each}"
    if not hasattr(owner, last):
        close = difflib.get_close_matches(last, dir(owner), n=1) or [
            known for known in dir(owner) if known.lower() == last.lower()
        ]
        raise UsageError(
            f"{path} has no {last!r}", hint=f"did you mean {close[0]}?" if close else "is it spelt as torch has it?"
        )
    return getattr(owner, last)
