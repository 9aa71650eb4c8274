"""The environment variable that turns all patches of upstream off."""

from __future__ import annotations

import os

from ethos_hil.base.errors import UsageError

VARIABLE = "ETHOS_HIL_PATCHES"


def patches_on() -> bool:
    """Whether upstream may be patched. It may, unless ETHOS_HIL_PATCHES is "off".

    Raises:
        UsageError: the variable has a value that means nothing.
    """
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "on", "off"):
        raise UsageError(f"{VARIABLE} is {value!r}", hint='set it to "off", or leave it unset')
    return value != "off"
