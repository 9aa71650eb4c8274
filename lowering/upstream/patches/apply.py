"""Putting patches in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.upstream.patches.patch import Patch, UpstreamDiffers
from ethos_hil.lowering.upstream.patches.replaced import replaced
from ethos_hil.lowering.upstream.patches.switch import VARIABLE, patches_on

_inside: set[Patch] = set()
"""The patches that are in place."""
_warned: set[Patch] = set()


@contextmanager
def apply(patches: Sequence[Patch], *arguments: Any) -> Iterator[None]:
    """While inside, the patches are in place. Afterwards upstream is as it was.

    Those that are in place already stay as they are. With ETHOS_HIL_PATCHES=off none is put in place. Of a patch that
    only saves time and does not fit what is installed, a RuntimeWarning says so once a process, and upstream's own way
    is taken.

    Args:
        patches: rows of the table.
        arguments: what `Patch.make` of each takes besides upstream's value.

    Raises:
        ToolError: a patch that changes results does not fit what is installed.
        UsageError: ETHOS_HIL_PATCHES has a value that means nothing.
    """
    with ExitStack() as stack:
        for patch in patches if patches_on() else ():
            if patch in _inside:
                continue
            try:
                owner, own = patch.find()
            except UpstreamDiffers as difference:
                _does_not_fit(patch, difference)
                continue
            value = patch.make(own, *arguments)
            stack.enter_context(replaced(owner, patch.attribute, value, adds=patch.adds))
            _inside.add(patch)
            stack.callback(_inside.discard, patch)
        yield


def _does_not_fit(patch: Patch, difference: UpstreamDiffers) -> None:
    made_for = " or ".join(patch.versions)
    problem = (
        f"patch {patch.name!r} was made for {patch.package} {made_for} and does not fit {patch.package} "
        f"{patch.installed}: {difference}"
    )
    if patch.changes_result:
        raise ToolError(
            problem,
            hint=f"install {patch.package} {patch.versions[-1]} (make setup), or set {VARIABLE}=off to do without all "
            "patches",
        ) from difference
    if patch not in _warned:
        _warned.add(patch)
        warnings.warn(f"{problem}; without it, lowering only takes longer", RuntimeWarning, stacklevel=4)
