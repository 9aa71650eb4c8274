"""Two sessions of `pytest -n 2` on one cache, one of them killed in the middle, again and again.

`python -m ethos_hil.suites.lab stress` does it twenty times, each time from an empty cache. The other session
must end as if it had been alone, and so must a third one that starts afterwards. In turn the killed one loses
only the process that the user started, or its workers and their simulators with it. At the end of each round nothing
may be left: no process, no lock that is held, no half-written entry of the cache.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.deadline import Deadline
from ethos_hil.suites.lab.leftovers import MarkedProcess, is_held, still_marked

_ROOT = Path(__file__).resolve().parents[3]
_TESTS = _ROOT / "suites/tests/sample.py"
_PATIENCE = 1800.0
"""Seconds a session may take."""
_DYING = 30.0
"""Seconds after which no process of a killed session may live: a worker ends when it has finished its test."""


class PytestSession(MarkedProcess):
    """A running `pytest -n 2`."""

    def __init__(self, name: str, folder: Path, cache: Path, tests: list[str]) -> None:
        self.temporary = folder / f"tmp-{name}"
        self.temporary.mkdir()
        self._report = folder / f"{name}.xml"
        command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-q", "-p", "no:cacheprovider"]
        command += ["--runs", str(folder / f"runs-{name}"), "--junitxml", str(self._report), *tests]
        environment = {"ETHOS_HIL_CACHE": str(cache), "TMPDIR": str(self.temporary)}
        super().__init__(command, f"{folder}-{name}", folder / f"{name}.log", cwd=_ROOT, environment=environment)

    def verdicts(self) -> Counter[str]:
        """Wait for the end of the session. Return how many tests had which verdict.

        Raises RuntimeError when the session failed.
        """
        self.end(_PATIENCE)
        properties = ET.parse(self._report).iter("property")
        return Counter(entry.attrib["value"] for entry in properties if entry.attrib["name"] == "verdict")


@dataclass(frozen=True)
class Round:
    """The result of one round.

    Attributes:
        killed_after: seconds.
        done: entries of the cache by then.
        seconds: of the survivor, and of the session after it.
        verified: tests of each of these.
        temporary: files that the killed session was writing. They cannot be prevented, and have names of their own.
    """

    killed_after: float
    done: int
    seconds: tuple[float, float]
    verified: int
    temporary: int


def run(folder: Path, number: int, tests: list[str]) -> Round:
    """Run one round in an empty folder. Raise RuntimeError when something went wrong."""
    chance = random.Random(number)
    cache = folder / "cache"
    started = time.monotonic()
    victim, survivor = (PytestSession(name, folder, cache, tests) for name in ("victim", "survivor"))
    try:
        wanted = number % 8  # the first artifacts are the most contended: both sessions ask for them at once
        while len(_artifacts(cache)) < wanted or time.monotonic() - started < 2 + chance.random():
            if not victim.running:
                raise RuntimeError(f"the session to be killed ended by itself:\n{victim.verdicts()}")
            time.sleep(0.01)
        time.sleep(chance.random())
        done = len(_artifacts(cache))
        victim.kill(everything=number % 2 == 1)
        killed_after = time.monotonic() - started
        verdicts = survivor.verdicts()
        survived = time.monotonic() - started
        following = PytestSession("following", folder, cache, tests)
        again = following.verdicts()
        seconds = (survived, time.monotonic() - started - survived)
    finally:
        for session in (victim, survivor):
            if session.running:
                session.kill(everything=True)
    if set(verdicts) != {"verified"} or again != verdicts:
        raise RuntimeError(f"the survivor: {dict(verdicts)}; the session after it: {dict(again)}")
    left = list(_left(cache, [victim, survivor, following], [survivor, following]))
    if left:
        raise RuntimeError(f"left behind: {'; '.join(left)}")
    unfinished = [path for name in ("cases/.*", "by-pte/tmp*") for path in cache.glob(f"*/{name}")]
    files = len(unfinished) + sum(path.is_file() for path in victim.temporary.rglob("*"))
    return Round(killed_after, done, seconds, verdicts["verified"], files)


def _artifacts(cache: Path) -> list[Path]:
    return [path for path in cache.glob("*/artifacts/*") if not path.name.startswith(".")]


def _left(cache: Path, sessions: list[PytestSession], whole: list[PytestSession]) -> Iterator[str]:
    """Yield what `sessions` left behind. Those in `whole` ended by themselves."""
    deadline = Deadline(_DYING)
    for session in sessions:
        yield from still_marked(session.mark, deadline).values()
    yield from map(str, cache.glob("*/artifacts/.*"))
    yield from (f"{path} is held" for path in cache.glob("*/locks/*.lock") if is_held(path))
    for session in whole:
        yield from (str(path) for path in session.temporary.rglob("*") if path.is_file())


def main(
    tests: Annotated[list[str] | None, typer.Argument(help="Arguments of pytest; default: a few small tests.")] = None,
    rounds: Annotated[int, typer.Option("--rounds", "-n", min=1)] = 20,
) -> None:
    """Run two sessions of pytest on one cache, again and again, and kill one of them.

    Exit status 1 when that disturbs the other.
    """
    for number in range(rounds):
        with tempfile.TemporaryDirectory(prefix="ethos-hil-stress-") as folder:
            try:
                result = run(Path(folder), number, tests or [str(_TESTS), "-k", "plus"])
            except RuntimeError as error:
                sys.stderr.write(f"round {number + 1}: {error}\n")
                raise typer.Exit(1) from None
        whom = "with its workers" if number % 2 else "without its workers"
        sys.stdout.write(
            f"round {number + 1}: one killed {whom} after {result.killed_after:.1f} s ({result.done} artifacts); "
            f"the other verified {result.verified} tests in {result.seconds[0]:.0f} s, the next session as many in "
            f"{result.seconds[1]:.0f} s; left: {result.temporary} temporary files of the killed one\n"
        )
        sys.stdout.flush()
