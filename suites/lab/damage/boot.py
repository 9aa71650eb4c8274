"""The boot of one damaged program, and how it ends."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping
from types import FrameType

from ethos_hil.base.errors import TargetError
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.suites.lab.damage.loop import CRASHED, DamageEnding
from ethos_hil.suites.lab.damage.mutant import Mutant

RESULT = "result"
REFUSED_PROGRAM = "program refused"
REFUSED_INPUTS = "inputs refused"
REFUSED_CALL = "kernel refused"
UNSUPPORTED = "unsupported"
OUT_OF_MEMORY = "out of memory"
NPU_MISMATCH = "other NPU"
NPU_FAULT = "NPU fault"
UNMODELLED = "unmodelled"  # a command stream of what the functional NPU names as beyond it
REFUSALS = (REFUSED_PROGRAM, REFUSED_INPUTS, REFUSED_CALL, UNSUPPORTED, OUT_OF_MEMORY, NPU_MISMATCH)
NAMED = (RESULT, *REFUSALS, NPU_FAULT, UNMODELLED)
"""Endings that are as they should be."""
TIMEOUT = "timeout"
CPU_FAULT = "CPU fault"
LINK = "link"
BUG = "bug in the harness"
OUTCOMES = (*NAMED, TIMEOUT, CPU_FAULT, LINK, CRASHED, BUG)

SECONDS = 20.0  # for a boot, which takes a fifth of a second
GIVE_UP_SECONDS = 30.0  # for everything, whatever it hangs in
_FAST_SCRATCH = 64 << 10
_KINDS = {
    "unsupported": UNSUPPORTED,
    "out-of-memory": OUT_OF_MEMORY,
    "npu-mismatch": NPU_MISMATCH,
    "timeout": TIMEOUT,
    "link": LINK,
    "stale-output": LINK,
    "wrong-program": LINK,
    "crashed": CRASHED,
}
_OF_FAULTS = (
    (re.compile(r"the firmware refuses the program"), REFUSED_PROGRAM),
    (re.compile(r"the firmware refuses the inputs"), REFUSED_INPUTS),
    (re.compile(r"instruction \d+: the NPU "), NPU_FAULT),
    (re.compile(r"instruction \d+, "), REFUSED_CALL),
)


class _GaveUp(Exception):
    pass


def examine(mutant: Mutant, firmware: Mapping[str, bytes], seconds: float = SECONDS) -> DamageEnding:
    """Boot a mutant once on the virtual board. This works in the main thread only, because it uses the alarm signal.

    Args:
        mutant: what to boot.
        firmware: the ELF for each system on chip.
        seconds: for the boot.
    """
    started = time.monotonic()
    previous = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, GIVE_UP_SECONDS)
    try:
        ending, words = _boot(mutant, firmware, seconds)
    except _GaveUp:
        ending, words = BUG, f"no end within {GIVE_UP_SECONDS:g} seconds, deadline or not"
    except Exception as error:  # whatever it is, it is a finding, and the other mutants go on
        ending, words = BUG, f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    seconds = time.monotonic() - started
    finding = "" if ending in NAMED else f"{ending}: {words}"
    return DamageEnding(mutant.number, str(mutant), mutant.way, ending, seconds, words, finding)


def _give_up(number: int, frame: FrameType | None) -> None:
    raise _GaveUp


def _boot(mutant: Mutant, firmware: Mapping[str, bytes], seconds: float) -> tuple[str, str]:
    inputs = mutant.inputs
    mode = list(DeviceMemoryMode)[mutant.number % len(DeviceMemoryMode)]
    fast_scratch = _FAST_SCRATCH if mode is DeviceMemoryMode.DEDICATED_SRAM else 0
    plan = RunPlan(1, len(inputs), memory_mode=mode, fast_scratch_bytes=fast_scratch)
    target = VirtualTarget(mutant.original.npu)
    try:
        target.load(pack(firmware[target.soc], mutant.pte, [inputs], plan))
        target.run(timeout=seconds)
    except TargetError as error:
        return classify(error), error.message
    finally:
        target.reset()
    return RESULT, ""


def classify(error: TargetError) -> str:
    """Return the ending that an error stands for."""
    if "the virtual board does not model" in error.message or "the functional NPU stopped" in error.message:
        return UNMODELLED
    if error.kind in _KINDS:
        return _KINDS[error.kind]
    # Faults are told apart by their words: those of an ERROR frame are the firmware's, the others a CPU exception's.
    return next((ending for words, ending in _OF_FAULTS if words.match(error.message)), CPU_FAULT)
