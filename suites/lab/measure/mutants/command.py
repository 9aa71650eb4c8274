"""`python -m ethos_hil.suites.lab code ROOM...`: changes our own code, and sees whether the tests notice.

Exit status: 0, 1 a room has a lower score than `--at-least`, 2 unusable arguments.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import console
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.suites.lab.measure.mutants import firmware, session
from ethos_hil.suites.lab.measure.mutants.changes import EQUIVALENT, CodeChange, draw, why_equivalent
from ethos_hil.suites.lab.measure.mutants.session import KILLED, NOT_REACHED, SURVIVED, MutantFate, MutationJob
from ethos_hil.suites.lab.shared import CORES, Jobs

ROOT = Path(__file__).resolve().parents[4]


@dataclass(frozen=True)
class Room:
    """Sources, and the tests nearest to them.

    Attributes:
        sources: patterns of files.
        tests: files and folders.
        own_cache: whether the code is of `lowering`: what it made before the change must not come from the cache.
        slow: whether slow tests take part, because some of the code runs in these alone.
    """

    sources: tuple[str, ...]
    tests: tuple[str, ...]
    own_cache: bool = False
    slow: bool = False

    @property
    def files(self) -> list[str]:
        """The sources, relative to the checkout."""
        paths = (path for pattern in self.sources for path in ROOT.glob(pattern))
        return sorted(path.relative_to(ROOT).as_posix() for path in paths)


_GATE = tuple(f"results/tests/test_{name}.py" for name in ("gate", "account", "observation", "baseline", "numbers"))
_REPAIRS = ("test_treatments.py", "test_mend.py")
_ORACLE = ("test_bounds.py", "test_reference.py", "test_kernels.py")

FIRMWARE = "firmware/runtime"
"""The room whose sources are C++."""
ROOMS: Mapping[str, Room] = MappingProxyType(
    {
        "verdict": Room(
            ("harness/verdict/*.py", "src/ethos_hil/base/verdict.py", "src/ethos_hil/base/judge.py"),
            (
                "harness/verdict/tests",
                "src/ethos_hil/base/tests/test_judge.py",
                "results/tests/test_account.py",
                "harness/nightly/tests/test_attacks.py",
                "src/ethos_hil/base/tests/test_record.py",
                "harness/tests/test_against_pytorch.py",
                "harness/tests/test_api.py",
                "harness/cli/tests/test_foreign_programs.py",
                "harness/cli/tests/test_npu.py",
            ),
        ),
        "link": Room(("harness/link/*.py",), ("harness/link/tests",)),
        "image": Room(("harness/image/*.py",), ("harness/image/tests",)),
        "gate": Room(
            ("results/gate/*.py", "src/ethos_hil/base/judge.py"),
            (*_GATE, "harness/nightly/tests", "results/export/runs/tests", "src/ethos_hil/base/tests/test_judge.py"),
        ),
        "campaign": Room(("harness/campaign/*.py",), ("harness/campaign/tests", "harness/nightly/tests"), slow=True),
        "nightly": Room(("harness/nightly/*.py",), ("harness/nightly/tests",), slow=True),
        "repairs": Room(
            ("lowering/repairs/*.py",),
            (*(f"lowering/tests/{name}" for name in _REPAIRS), "suites/lab/prove/random_models/tests/test_repairs.py"),
            own_cache=True,
        ),
        "oracle": Room(
            ("lowering/oracle/**/*.py",),
            (*(f"lowering/tests/{name}" for name in _ORACLE), "firmware/tests/test_oracle.py"),
            own_cache=True,
        ),
        "npu/decode": Room(("harness/npu/decode/*.py",), ("harness/npu/tests",)),
        FIRMWARE: Room(("firmware/runtime/**/*.cc",), ("firmware/tests",)),
        "npu/compute": Room(("harness/npu/compute/*.py",), ("harness/npu/tests",)),
    }
)


_BUDGET = 120.0  # CPU seconds of tests for a mutant, as they take while they are watched
_SLOW = 20  # times as long a slow test may take, where they take part


@dataclass(frozen=True)
class RoomScore:
    """What became of a room's mutants.

    Attributes:
        room: its name.
        tests: how many took part.
        fates: of each mutant.
        seconds: of wall time.
    """

    room: str
    tests: int
    fates: Sequence[MutantFate]
    seconds: float

    def count(self, fate: str) -> int:
        """Return how many ended so."""
        return Counter(ending.fate for ending in self.fates)[fate]

    @property
    def percent(self) -> float:
        """The share that was killed, of all that mean something."""
        meant = len(self.fates) - self.count(EQUIVALENT)
        return 100 * self.count(KILLED) / meant if meant else 100.0


def main(
    rooms: Annotated[list[str], typer.Argument(metavar="ROOM...", help=f"{', '.join(ROOMS)}, or all.")],
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Mutants of each room.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed draws the same mutants of the same sources.")] = 1,
    jobs: Jobs = CORES,
    slowest: Annotated[float, typer.Option(help="CPU seconds above which a test is left out.")] = 5.0,
    at_least: Annotated[float, typer.Option(help="Percent of a room's mutants that must be killed.")] = 0.0,
    only: Annotated[
        str, typer.Option(help="Only mutants of files and lines that have this text, as `pack.py:12`.")
    ] = "",
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the figures and all mutants go.")] = None,
) -> None:
    """Make small changes of meaning in our own code, and run the nearest fast tests on each."""
    names = list(ROOMS) if rooms == ["all"] else rooms
    unknown = [name for name in names if name not in ROOMS]
    if unknown:
        raise UsageError(f"there is no room {unknown[0]!r}", hint=f"there are {', '.join(ROOMS)}")
    scores = []
    for name in names:
        room = ROOMS[name]
        drawn = (firmware.draw if name == FIRMWARE else draw)(ROOT, room.files, count, seed)
        mutants = [mutant for mutant in drawn if only in str(mutant)]
        started = time.monotonic()
        if name == FIRMWARE:
            tests, fates = 0, list(firmware.tried(ROOT, mutants))
        else:
            tests, fates = _tried(room, mutants, jobs, slowest)
        scores.append(RoomScore(name, tests, fates, time.monotonic() - started))
    console().print(*_report(scores), sep="\n", soft_wrap=True)
    if json_file:
        json_file.write_text(
            json.dumps({"seed": seed, "rooms": [_figures(score) for score in scores]}, indent=1) + "\n"
        )
    if any(score.percent < at_least for score in scores):
        raise typer.Exit(1)


def _tried(room: Room, mutants: Sequence[CodeChange], jobs: int, slowest: float) -> tuple[int, list[MutantFate]]:
    """Return how many tests took part, and what became of each mutant."""
    reasons = {mutant: why_equivalent(mutant) for mutant in mutants}
    fates = [MutantFate(mutant, EQUIVALENT, why) for mutant, why in reasons.items() if why]
    meant = [mutant for mutant, why in reasons.items() if not why]
    with tempfile.TemporaryDirectory(prefix="ethos-hil-mutants-") as folder:
        limit = _SLOW * slowest if room.slow else slowest
        job = MutationJob(str(ROOT), folder, room.files, meant, jobs, limit, _BUDGET, room.own_cache)
        among = "not proof" if room.slow else "not slow and not proof"
        arguments = [*session.OPTIONS, "-s", "-p", session.__name__, "-m", among]
        environment = {
            **os.environ,
            session.JOB: str(job.save()),
            session.PRELOAD: "\n".join(session.HEAVY),
            "OMP_NUM_THREADS": "1",  # a forked process has no threads but one
        }
        command = [sys.executable, "-m", "pytest", *arguments, *room.tests]
        status = subprocess.run(command, cwd=ROOT, env=environment, stdout=sys.stderr, check=False).returncode
        try:
            result = json.loads((Path(folder) / "result.json").read_text())
        except FileNotFoundError:
            raise RuntimeError(f"pytest ended with {status} before the mutants were tried") from None
    fates += [MutantFate(**{**fate, "mutant": CodeChange(**fate["mutant"])}) for fate in result["fates"]]
    return result["tests"], sorted(fates, key=lambda fate: fate.mutant)


def _report(scores: Sequence[RoomScore]) -> Iterator[Table | Text]:
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = ("tests", "mutants", KILLED, SURVIVED, NOT_REACHED, EQUIVALENT, "score", "seconds")
    table.add_column("room")
    for name in columns:
        table.add_column(name, justify="right")
    for score in scores:
        counts = (score.count(fate) for fate in (KILLED, SURVIVED, NOT_REACHED, EQUIVALENT))
        cells = (score.tests, len(score.fates), *counts, f"{score.percent:.0f} %", round(score.seconds))
        table.add_row(score.room, *map(str, cells))
    yield table
    for score in scores:
        for ending in score.fates:
            if ending.fate in (SURVIVED, NOT_REACHED):
                yield Text(f"{ending.fate}: {ending.mutant}    {ending.mutant.text}")


def _figures(score: RoomScore) -> dict[str, object]:
    fates = {fate: score.count(fate) for fate in (KILLED, SURVIVED, NOT_REACHED, EQUIVALENT)}
    mutants = [
        {"mutant": str(fate.mutant), "fate": fate.fate, "by": fate.by, "tests": fate.tests, "seconds": fate.seconds}
        for fate in score.fates
    ]
    figures = {"room": score.room, "tests": score.tests, "mutants": len(score.fates), **fates}
    return {**figures, "percent": round(score.percent, 1), "seconds": round(score.seconds), "each": mutants}
