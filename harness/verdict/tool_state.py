"""What a run's answers depend on, apart from what is asked: tools, our code that lowers and times, the firmware."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache

from ethos_hil.base import environment
from ethos_hil.base.errors import EthosHilError
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.lowering.cache import versions as lowering_versions


def tool_state() -> dict[str, str]:
    """Return versions, and digests of our code and the firmware."""
    state = {f"{name} version": version for name, version in environment.versions().items()}
    state |= {"lowering": lowering_id(), "timing model": timing_model_id()}
    return state | {f"firmware for {soc.name}": firmware_id(soc.name) for soc in SOCS}


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return what is different first, in words; "" where nothing is."""
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name, ""), now.get(name, "")
        if old != new:
            return f"{name} was {old or 'none'} and is {new or 'none'}"
    return ""


def lowering_id() -> str:
    """Return the digest of our code that lowers models, as records have it."""
    return lowering_versions.versions()["ethos-hil-lowering"]


@cache
def firmware_id(soc: str) -> str:
    """Return the digest of the firmware for a system on chip, "" where there is none."""
    try:
        return hashlib.sha256(find_firmware(soc)).hexdigest()
    except (EthosHilError, KeyError):
        return ""
