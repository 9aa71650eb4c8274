"""The rules of the strict virtual board: what a real part may not forgive, and QEMU and a lenient model do.

A run that breaks a rule ends in a TargetError of kind "board-rule", which names the rule and the place in the program.
docs/targets.md has a table of them: what each catches, and where it comes from.
"""

from __future__ import annotations

import enum

from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind


class Rule(enum.StrEnum):
    """A rule, by the name that options and messages have."""

    MEMORY_PATTERN = "memory-pattern"
    """All RAM holds random bytes before the image is loaded, and between two runs."""
    TCM_ECC = "tcm-ecc"
    """A TCM word that was never written cannot be read, nor written in part: its ECC is not valid."""
    ABSENT_ABORT = "absent-abort"
    """An access to a device that is not there is an external abort."""
    UART = "uart"
    """One UART, with its identification; it sends only when it is enabled and its divider is valid, and a byte that is
    written before the one before it was sent is lost."""
    NPU_RESET = "npu-reset"
    """The NPU's registers hold random values at the start; its reset takes time, and sets only what a source says."""
    NPU_POWER = "npu-power"
    """While CMD lets the NPU's clock or power be removed, its registers cannot be used."""
    NPU_SECURITY = "npu-security"
    """A secure NPU uses secure addresses and others use the others; what it accesses is aligned and not a TCM."""
    NPU_PORT = "npu-port"
    """The NPU reaches SRAM through port 0 and external memory through port 1."""
    NPU_TIME = "npu-time"
    """A job takes time. The interrupt line falls some time after it was cleared, and may rise without a reason."""
    NPU_COUNTERS = "npu-counters"
    """The NPU's counters are about to overflow at the start, and QREAD advances with the job."""
    BUS = "bus"
    """Device memory is accessed aligned, by words at most, without exclusives, and is not executed."""
    PART_MEMORIES = "part-memories"
    """Memories are those of the part: as large, and read-only where they are."""
    RESET_STATE = "reset-state"
    """The FPU and MVE are off until the program has allowed them."""


NPU_RULES = frozenset(rule for rule in Rule if rule.startswith("npu-"))
"""Those that the NPU's registers keep (harness/virtual/strict_device.py)."""
STRICT_BOARD = frozenset(Rule)
"""The rules of `--strict-board`."""

FOREIGN_BOARD = STRICT_BOARD - {Rule.TCM_ECC}
"""The rules of `--strict-board` for other people's programs. A C program stores its first byte to a stack in TCM before
it wrote a word there, which is not a fault of it where the part, or what runs before it, sees to the ECC."""
STRICT_BOARD_VARIABLE = "ETHOS_HIL_STRICT_BOARD"
"""Set to 1, a launcher's board keeps them."""


class RuleBroken(Exception):
    """A device found a rule broken. The message says what was done, without the place in the program."""

    def __init__(self, rule: Rule, what: str) -> None:
        super().__init__(what)
        self.rule = rule


def broken(rule: Rule, what: str) -> TargetError:
    """Return the error for a broken rule. `what`: what was done, and where in the program."""
    return TargetError(f"rule {rule} of the strict board: {what}", kind=FailureKind.BOARD_RULE)
