"""Two nightlies at once into one history, one of them killed at random moments until it has ended, again and again.

`python -m ethos_hil.suites.lab nights` kills twenty times. Whatever was killed, each night's records must be
those of an undisturbed one, but for times: none lost, none twice. The history must have both, and nothing may be left:
no process, no lock that is held, no half-written file.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ethos_hil.base.deadline import Deadline
from ethos_hil.results.gate.account import AUDIT
from ethos_hil.results.history import History
from ethos_hil.results.store import StoredRecord, read_run
from ethos_hil.suites.lab.leftovers import MarkedProcess, is_held, still_marked

PATIENCE = 600.0
_DYING = 30.0
"""Seconds after which no process of a nightly that was killed may live."""
PLAN = """\
schema_version = 1
[run]
jobs = 2
known_model = "net.py:net"
into = "own"
[[suite]]
paths = ["test_plus.py"]
suffixes = ["BI", "U55_BI"]
[[model]]
model = "net.py:net"
profile = true
[compare]
against = "last"
[history]
folder = "history"
[audit]
one_in = 1
"""
TESTS = """\
from ethos_hil.suites.declare.case import Operator, case, f32

plus = Operator(
    "plus",
    aten=("add.Tensor",),
    cases=tuple(case(f"of_{size}", lambda a: a + a, f32(size)) for size in range(3, 11)),
)
"""
NET = """\
import torch


def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU()), (torch.randn(1, 16),)
"""


class NightlyProcess(MarkedProcess):
    """A running `ethos-hil nightly`."""

    def __init__(self, folder: Path, name: str) -> None:
        """Start it.

        Args:
            folder: with the plan's files; run folders go to `name` in it.
            name: tells its processes and files from others'.
        """
        command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "nightly", str(folder / "nightly.toml")]
        command += ["--into", str(folder / name)]
        super().__init__(command, f"{folder}/{name}", folder / f"{name}.log", cwd=folder)

    def kill_after(self, seconds: float, *, all_at_once: bool) -> bool:
        """Send SIGKILL to it, or to all its processes, after some time. Return whether it had not ended before."""
        if self.ends_within(seconds):
            self.end(0)
            return False
        self.kill(everything=all_at_once)
        return True


def prepare(folder: Path, plan: str = PLAN) -> None:
    """Write the plan and what it runs."""
    for name, text in (("nightly.toml", plan), ("test_plus.py", TESTS), ("net.py", NET)):
        (folder / name).write_text(text)


def facts(into: Path) -> Counter[str]:
    """Return what the records of the one night in a folder say, without times and the run's name; how often each.

    Raises RuntimeError if there is another number of nights, or a line is not a record and not the end of a file.
    """
    nights = [path for path in into.iterdir() if path.name[0] != "."]
    if len(nights) != 1:
        raise RuntimeError(f"{into} has {len(nights)} nights")
    return Counter(
        _without_times(item.record.to_json()) for item in read_run(nights[0]) if isinstance(item, StoredRecord)
    )


def _without_times(record: dict[str, Any]) -> str:
    metrics = [metric for metric in record["metrics"] if metric["provenance"] != "host"]
    return json.dumps(
        {**record, "metrics": metrics, "created": "", "run": {**record["run"], "name": ""}}, sort_keys=True
    )


@dataclass(frozen=True)
class NightRound:
    """What a round found.

    Attributes:
        kills: how often a nightly was killed.
        moments: seconds after which.
        records: of each night.
        already: how many of these the killed one had before its last start.
    """

    kills: int
    moments: tuple[float, ...]
    records: int
    already: int


def undisturbed(folder: Path) -> tuple[Counter[str], float]:
    """Return the facts of a night that no one kills, and how long it takes when everything is lowered already."""
    prepare(folder)
    NightlyProcess(folder, "first").end(PATIENCE)
    began = time.monotonic()
    NightlyProcess(folder, "second").end(PATIENCE)
    seconds = time.monotonic() - began
    first, second = facts(folder / "first"), facts(folder / "second")
    require_equal("two undisturbed nights", second, first)
    return first, seconds


def disturbed(folder: Path, seed: int, kills: int, whole: Counter[str], seconds: float, plan: str = PLAN) -> NightRound:
    """Run a nightly beside one that is killed, and compare both with an undisturbed one.

    Args:
        folder: an empty one.
        seed: of the moments.
        kills: how often the victim is killed.
        whole: the facts of an undisturbed night.
        seconds: how long it takes.
        plan: of all of them.

    Raises RuntimeError when something is lost, twice, different or left behind.
    """
    chance = random.Random(seed)
    prepare(folder, plan)
    other = NightlyProcess(folder, "other")
    moments, killed, already = [], 0, 0
    for number in range(kills):
        moments.append(round(chance.uniform(0.1, seconds * 1.2), 2))
        victim = NightlyProcess(folder, "victim")
        if not victim.kill_after(moments[-1], all_at_once=(seed + number) % 2 == 0):
            break
        killed += 1
    into = folder / "victim"
    if into.is_dir() and any(into.iterdir()):
        already = sum(facts(into).values())
    if killed == kills:
        NightlyProcess(folder, "victim").end(PATIENCE)
    other.end(PATIENCE)
    require_equal("the night that was killed", facts(into), whole)
    require_equal("the night beside it", facts(folder / "other"), whole)
    counting = sum(number for fact, number in whole.items() if not json.loads(fact)["run"]["part"].endswith(AUDIT))
    left = list(_left(folder, ("victim", "other"), counting))
    if left:
        raise RuntimeError(f"left behind: {'; '.join(left)}")
    return NightRound(killed, tuple(moments), sum(whole.values()), already)


def require_equal(what: str, actual: Counter[str], whole: Counter[str]) -> None:
    lost, more = whole - actual, actual - whole
    if lost or more:
        named = [f"lost: {_named(record)}" for record in lost] + [f"more or other: {_named(record)}" for record in more]
        raise RuntimeError(f"{what} is not an undisturbed one: {'; '.join(named)}")


def _named(fact: str) -> str:
    record = json.loads(fact)
    name = record["test"]["id"] if record["test"] else f"{record['model']} on {record['npu']}"
    return f"{name} ({record['run']['part']}, {record['verdict']})"


def _left(folder: Path, names: Sequence[str], records: int) -> Iterator[str]:
    """Yield what nightlies left behind, or did not put into the history: `records`, without those of audits."""
    deadline = Deadline(_DYING)
    for name in names:
        yield from (f"process {command}" for command in still_marked(f"{folder}/{name}", deadline).values())
        yield from (f"{lock} is held" for lock in (folder / name).glob("*/campaign.lock") if is_held(lock))
    runs = {run["run"]: run["records"] for run in History(folder / "history").runs()}
    wanted = {path.name: records for name in names for path in (folder / name).iterdir() if path.name[0] != "."}
    if runs != wanted:
        yield f"the history has {runs} in place of {wanted}"


def main(
    kills: Annotated[int, typer.Option("--kills", "-n", min=1, help="How often a nightly is killed.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Of the moments.")] = 1,
) -> None:
    """Kill a nightly at random moments beside another one, and compare both with an undisturbed one.

    Exit status 1 when a record is lost, twice or different, or something is left behind.
    """
    done, number = 0, 0
    with tempfile.TemporaryDirectory(prefix="ethos-hil-nights-") as name:
        folder = Path(name)
        try:
            (folder / "undisturbed").mkdir()
            whole, seconds = undisturbed(folder / "undisturbed")
            sys.stdout.write(f"an undisturbed night has {sum(whole.values())} records, in {seconds:.1f} s\n")
            while done < kills:
                number += 1
                here = folder / str(number)
                here.mkdir()
                result = disturbed(here, seed * 1000 + number, min(1 + number % 3, kills - done), whole, seconds)
                done += result.kills
                moments = ", ".join(f"{moment:g}" for moment in result.moments)
                sys.stdout.write(
                    f"round {number}: killed {result.kills} times, after {moments} s, {result.already} records then; "
                    f"{result.records} records in the end, as in the night beside it\n"
                )
                sys.stdout.flush()
        except RuntimeError as error:
            sys.stderr.write(f"round {number}: {error}\n")
            raise typer.Exit(1) from None
