"""Would this runner boot on the part? Rows of a preflight: static checks of its ELF, and a boot on the strict board."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from ethos_hil.base.errors import TargetError, TargetNotAvailable, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Check
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.elf_lint import Severity, lint, lint_rows
from ethos_hil.harness.image.segments import ElfError
from ethos_hil.harness.run import Runner
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.targets.executor_runner import command_line
from ethos_hil.harness.targets.virtual import boot
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.harness.virtual.mps3_an547 import RAMS
from ethos_hil.harness.virtual.qemu import find_qemu
from ethos_hil.harness.virtual.rules import FOREIGN_BOARD, STRICT_BOARD, Rule
from ethos_hil.harness.virtual.semihosting import Semihosting

START_UP = "start-up"
_SECONDS = 5.0
"""A runner without a program ends in a tenth of a second; one that waits for its host does not end."""
_FAULT = re.compile(r"fault", re.IGNORECASE)
_OPEN = (FailureKind.TIMEOUT, FailureKind.UNSUPPORTED)
"""Ends of a boot that say nothing against the runner: it may wait for a host, or use what QEMU does not model."""


def runner_checks(runner: Runner, soc: str, npu: str) -> tuple[Check, ...]:
    """Return what is to be said of a runner for a system on chip with an NPU.

    Raises:
        UsageError: it is not an ELF that a Cortex-M can run.
    """
    try:
        flaws = lint(runner.elf, find_soc(soc), RAMS)
    except ElfError as error:
        raise UsageError(
            f"--runner {runner.path} cannot be loaded: {error}", hint="give the ELF of an arm_executor_runner"
        ) from error
    if any(flaw.severity is Severity.ERROR for flaw in flaws):
        return (*lint_rows(flaws), _row("not booted: see above", "note"))
    return (*lint_rows(flaws), *_boots(runner.elf, find_soc(soc), EthosU.parse(npu)))


def _boots(elf: bytes, soc: Soc, npu: EthosU) -> tuple[Check, ...]:
    """Boot an ELF without a program to run, on the board whose rules `--strict-board` has. Return a row, or two.

    A word of a TCM that is first written in part is a note: what runs before a program may see to the ECC.
    """
    if not soc.virtual:
        text = f"not booted: the virtual board cannot be a {soc.name}"
        return (_row(text, "note", "run it on the part, which has the last word anyway"),)
    try:
        find_qemu()
        try:
            return (_boot(elf, soc, npu, STRICT_BOARD),)
        except TargetError as error:
            if not error.message.startswith(f"rule {Rule.TCM_ECC} "):
                raise
            note = _row(error.message, "note", "let start-up write whole words there first")
            return (note, _boot(elf, soc, npu, FOREIGN_BOARD))
    except (TargetNotAvailable, UsageError) as error:
        return (_row(f"not booted: {error.message}", "note", error.hint),)
    except TargetError as error:
        return (_row(error.message, "note" if error.kind in _OPEN else "fail", error.hint),)


def _boot(elf: bytes, soc: Soc, npu: EthosU, rules: frozenset[Rule]) -> Check:
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        calls = Semihosting(command_line(0), Path(folder))
        ended = boot(elf, calls, npu, soc, _SECONDS, engine=Engine, rules=rules)
    fault = next((line for line in ended.console if _FAULT.search(line)), None)
    if fault is not None:
        return _row(f"it ends with status {ended.status}: {fault}", "fail")
    return _row(f"it does, and ends with status {ended.status}, as it has no program", "ok")


def _row(available: str, status: str, fix: str | None = None) -> Check:
    return Check(START_UP, "it boots on the strict virtual board", available, status, fix)
