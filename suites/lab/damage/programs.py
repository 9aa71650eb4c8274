"""Damaged programs through the real firmware on the virtual board.

A boot with any .pte must end by itself, in results or in a refusal that the firmware names. A CPU exception, silence, a
broken conversation or a hang is a finding.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import TargetError, UsageError
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.socs.registry import virtual_soc
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.suites.lab.damage import loop
from ethos_hil.suites.lab.damage.loop import CRASHED, DamageEnding
from ethos_hil.suites.lab.damage.mutant import Mutant, Original, make
from ethos_hil.suites.lab.shared import CORES, Jobs, JsonFile

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
        mutant: what to
        firmware: the ELF for each system on chip.
        seconds: for the
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


SEEDS = Path("build/fuzz/seeds/board")
_MOST_STEPS = 3


@dataclass(frozen=True)
class Programs:
    """The damaged programs of a seed.

    Attributes:
        originals: what they are made of, in turn.
        firmware: the ELF for each system on chip.
        seed: of all randomness.
        folder: where those with findings are written.
    """

    originals: tuple[Original, ...]
    firmware: Mapping[str, bytes]
    seed: int
    folder: Path
    title = "Booting damaged programs"
    seconds = (1 + _MOST_STEPS) * GIVE_UP_SECONDS
    outcomes = OUTCOMES

    @property
    def command(self) -> str:
        """The words of its command line."""
        return f"programs --seed {self.seed}"

    def kin(self, number: int) -> int:
        """Return the original: a worker reads its fields once."""
        return number % len(self.originals)

    def prepare(self, number: int) -> Callable[[int], DamageEnding]:
        """Return the function that boots a mutant. There is nothing to prepare."""
        return self.examine

    def examine(self, number: int) -> DamageEnding:
        """Boot one mutant in this process. Return how it ends, with as little damage as still shows a finding."""
        mutant = partial(make, self.seed, number, self.originals)
        kept, ending = loop.smallest(_MOST_STEPS, lambda kept: examine(mutant(kept), self.firmware))
        return self._saved(mutant(kept), ending)

    def lost(self, number: int, reason: str) -> DamageEnding:
        """Return the ending of a mutant that ended the process which booted it, or hung in it."""
        mutant = make(self.seed, number, self.originals)
        return self._saved(mutant, DamageEnding(number, str(mutant), mutant.way, BUG, finding=reason))

    def _saved(self, mutant: Mutant, ending: DamageEnding) -> DamageEnding:
        """Return the ending. If it is a finding, write the mutant to the folder."""
        if ending.finding:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / f"{str(mutant).replace(' ', '-')}.pte").write_bytes(mutant.pte)
        return ending


def main(
    files: Annotated[
        list[Path] | None, typer.Argument(help=f"Programs to damage, NAME.NPU.pte, or folders. Default: {SEEDS}.")
    ] = None,
    count: loop.Count = 500,
    seed: loop.Seed = 1,
    first: loop.First = 0,
    only: loop.Only = None,
    jobs: Jobs = CORES,
    folder: Annotated[Path, typer.Option(help="Where mutants with findings go.")] = Path("build/fuzz/mutants"),
    json_file: JsonFile = None,
) -> None:
    """Boot damaged programs on the virtual board; find whatever does not end in results or a named refusal."""
    originals = tuple(Original.load(file) for file in _files(files or [SEEDS]))
    socs = {virtual_soc(original.npu).name for original in originals}
    subject = Programs(originals, {soc: find_firmware(soc) for soc in socs}, seed, folder)
    loop.damage(subject, count=count, first=first, only=only, jobs=jobs, json_file=json_file)


def _files(paths: Sequence[Path]) -> list[Path]:
    """Return the programs among the paths, and those in the folders among them."""
    files = sorted(file for path in paths for file in (path.glob("*.pte") if path.is_dir() else [path]))
    if not files:
        hint = "python -m ethos_hil.suites.lab fuzzers --only-seeds makes some"
        raise UsageError(f"{paths[0]} has no programs", hint=hint)
    return files
