"""What a run folder says of the benchmark that it has, so that a run that ended early can be gone on with.

<run folder>/bench.json    digests of the grid, the points and the settings; the state of the tools; the budgets
<run folder>/bench/        what the processes said, and records of points that were asked again
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from ethos_hil.base import ending
from ethos_hil.base.ending import OF_THIS_PLACE, is_refusal
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import write_whole
from ethos_hil.base.record import Record
from ethos_hil.base.regular_file import read_bytes, read_text
from ethos_hil.harness.bench.case import BenchPoint, PointKey, key_of
from ethos_hil.harness.bench.points import PointSettings
from ethos_hil.harness.verdict.tool_state import difference, tool_state
from ethos_hil.results.bench.budget import STATE
from ethos_hil.results.gate.account import part_of
from ethos_hil.results.store import StoredRecord, read_run

LOGS, ASKED_AGAIN = "bench", "asked-again.jsonl"
_SCHEMA_VERSION = 1


@dataclass(frozen=True)
class BenchState:
    """What `bench.json` says.

    Attributes:
        grid: the grid's name.
        cases: digest of all cases, with the files of their models.
        points: digest of what tells the points from one another.
        settings: digest of the settings.
        tools: what the answers depend on.
    """

    grid: str
    cases: str
    points: str
    settings: str
    tools: Mapping[str, str]

    @classmethod
    def of(cls, points: Sequence[BenchPoint], settings: PointSettings) -> BenchState:
        """Return the state of a run of some points, with the tools of today."""
        cases = tuple(dict.fromkeys(point.case.name for point in points))
        by_name = {point.case.name: point.case for point in points}
        declared = [(asdict(by_name[name]), _file(by_name[name].model)) for name in cases]
        ini = settings.vela_ini
        asked = {**asdict(settings), "vela_ini": "" if ini is None else read_text(ini)}
        return cls(
            settings.grid, _digest(declared), _digest([each.key for each in points]), _digest(asked), tool_state()
        )

    def write(self, folder: Path) -> None:
        """Write it into a run folder. Raises OSError."""
        data = {"schema_version": _SCHEMA_VERSION, **asdict(self)}
        write_whole(folder / STATE, json.dumps(data, indent=2) + "\n")

    def check_same(self, folder: Path) -> None:
        """Check that a run folder has a benchmark of this state.

        Raises:
            UsageError: it has none, or another one; says what is different.
        """
        before = _read(folder)
        name = folder.name
        again = "give the options of that run, or leave out --resume for a new one"
        if before.grid != self.grid:
            raise UsageError(f"the run {name} is of the grid {before.grid}, and not of {self.grid}", hint=again)
        if before.cases != self.cases:
            raise UsageError(
                f"the run {name} has other cases of the grid {self.grid}, or they have changed", hint=again
            )
        if before.points != self.points:
            raise UsageError(f"the run {name} has other NPUs, memory modes, systems or targets", hint=again)
        if before.settings != self.settings:
            raise UsageError(f"the run {name} boots, repeats or configures Vela otherwise", hint=again)
        changed = difference(before.tools, self.tools)
        if changed:
            raise UsageError(
                f"the run {name} was made with other tools: {changed}", hint="leave out --resume for a new run"
            )


def recorded(folder: Path, prefix: str = "") -> frozenset[PointKey]:
    """Return the keys of the points that a run folder has whole records of.

    Args:
        folder: the run folder.
        prefix: only those of a nightly's parts whose names begin so (`ethos_hil.harness.bench.points.part_of`).

    Raises:
        OSError: it cannot be read.
    """
    found = (item.record for item in read_run(folder) if isinstance(item, StoredRecord))
    return frozenset(key_of(each) for each in found if each.bench is not None and _is_of(each, prefix))


def settled(record: Record) -> bool:
    """Return whether a point's record is an answer that asking again would not change: its answers are right, it was
    only compiled and timed, or it was refused for a reason of its own. A failure, an answer that nothing vouches for,
    and a tool that was missing may end otherwise next time.
    """
    refused = is_refusal(record) and record.kind not in OF_THIS_PLACE
    return refused or ending.settled(record, compile_only=True)


def set_aside(folder: Path, prefix: str = "") -> int:
    """Move the records of points that are not settled to `ASKED_AGAIN`, so that a point has one record in a run folder.
    Return how many. Nobody may be writing the folder.

    Args:
        folder: the run folder.
        prefix: as of `recorded`.

    Raises:
        OSError: it cannot be read or written.
    """
    count = 0
    for path in sorted(folder.glob("records-*.jsonl")):
        lines = read_bytes(path).splitlines(keepends=True)
        again = [line for line in lines if _asked_again(line, prefix)]
        if not again:
            continue
        (folder / LOGS).mkdir(exist_ok=True)
        with (folder / LOGS / ASKED_AGAIN).open("ab") as file:
            file.writelines(again)
            file.flush()
            os.fsync(file.fileno())
        write_whole(path, b"".join(line for line in lines if line not in again))
        count += len(again)
    return count


def _asked_again(line: bytes, prefix: str) -> bool:
    try:
        record = Record.from_json(json.loads(line))
    except (ValueError, RecursionError):
        return False  # readers report it
    return record.bench is not None and _is_of(record, prefix) and not settled(record)


def _is_of(record: Record, prefix: str) -> bool:
    return part_of(record).startswith(f"{prefix}: " if prefix else "")


def _read(folder: Path) -> BenchState:
    try:
        data = json.loads(read_text(folder / STATE))
        if data["schema_version"] != _SCHEMA_VERSION:
            raise ValueError(f"it has schema version {data['schema_version']!r}, not {_SCHEMA_VERSION}")
        names = {each.name for each in fields(BenchState)}
        return BenchState(**{name: value for name, value in data.items() if name in names})
    except OSError as error:
        raise UsageError(
            f"{folder} has no benchmark that could be gone on with: {error.strerror} ({STATE})",
            hint="`ethos-hil runs` lists the runs; --resume takes the name of one",
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{folder / STATE} cannot be read: {error}", hint="start a new run, without --resume"
        ) from error


def _file(model: str) -> str:
    """Return the digest of the file of a MODEL; "" for a module, or where there is none."""
    path = Path(model.rpartition(":")[0] or model).expanduser()
    if not model or not path.is_file():
        return ""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()
