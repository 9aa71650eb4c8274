"""`ethos-hil compare` and `accept`: exit status, what is written, and one line for what cannot be used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.harness.testing.command import Run, check_errors, check_session
from ethos_hil.results.compaction.run_file import compact
from ethos_hil.results.export.plain import write_json
from ethos_hil.results.selection import Selected, Selection
from ethos_hil.results.store import RunFolder
from ethos_hil.results.testing.seeded_changes import CHANGES
from ethos_hil.results.testing.synthetic_year import nights

NIGHT: list[Record] = [item.record for item in next(nights(1, count=1, tests=30))]
SLOWER = CHANGES["a Vela flag makes another stream, slower"](NIGHT)[1]


@pytest.fixture
def ethos_hil(ethos_hil: Run) -> Run:
    """Runs the command line in a folder with two nights, monday and tuesday."""
    for name, records in (("monday", NIGHT), ("tuesday", SLOWER)):
        folder = RunFolder(Path("runs"), name=name)
        (folder.path / "records-1.jsonl").write_text("".join(record.dumps() + "\n" for record in records))
    return ethos_hil


def test_two_runs_are_compared(ethos_hil: Run, recorded: Recorded) -> None:
    """Equal ones pass, a slower one does not, a faster one does unless the policy says otherwise."""
    Path("gate.toml").write_text('schema_version = 1\n[gate]\nimproved = "fail"\n')
    check_session(recorded, ethos_hil, [
        "compare runs/monday runs/monday", "compare runs/monday runs", "compare runs/tuesday runs/monday",
        "compare runs/tuesday runs/monday --policy gate.toml",
    ])  # fmt: skip


def test_json_is_the_whole_comparison(ethos_hil: Run, recorded: Recorded) -> None:
    status, out, _ = ethos_hil("compare", "runs/monday", "runs/tuesday", "--json", "-")
    assert status == 1
    recorded.check(plain(json.dumps(json.loads(out), indent=1)))


def test_what_was_accepted_passes(ethos_hil: Run, recorded: Recorded) -> None:
    assert ethos_hil("accept", "runs/monday")[0] == 0  # all that it says, "a failed test is refused" has
    before = Path("baseline.jsonl").read_text()
    against = "--baseline baseline.jsonl"
    check_session(recorded, ethos_hil, [
        f"compare runs/monday {against}", f"compare runs/tuesday {against}", "accept runs/tuesday --check",
    ])  # fmt: skip
    assert Path("baseline.jsonl").read_text() == before
    check_session(recorded, ethos_hil, [
        "accept runs/tuesday", f"compare runs/tuesday {against}", f"compare runs/monday runs/tuesday {against}",
    ], "afterwards")  # fmt: skip


def test_a_part_is_compared_and_accepted(ethos_hil: Run, recorded: Recorded) -> None:
    names = [row.test.id for row in NIGHT if row.test is not None]
    (slower,) = {name for name, row, other in zip(names, SLOWER, NIGHT, strict=True) if row != other}
    other = next(name for name in names if name != slower)
    ethos_hil("accept", "runs/monday")
    parts = (slower, f"*{slower[-20:]}", other)
    check_session(recorded, ethos_hil, [
        *(f"compare runs/monday runs/tuesday --only '{part}'" for part in parts),
        f"accept runs/tuesday --only {other}", f"accept runs/tuesday --only {slower}",
    ])  # fmt: skip


def test_what_a_run_lost_is_told_when_it_is_accepted_and_never_removed(ethos_hil: Run, recorded: Recorded) -> None:
    """With --prune nobody would miss it any more."""
    lost = Selected("test_lost_BI", "lost")
    Selection("", tests=(lost,)).write(Path("runs/monday"))
    check_session(recorded, ethos_hil, [
        "accept runs/monday", "accept runs/monday --prune", f"accept runs/monday --only {NIGHT[0].label}",
    ])  # fmt: skip


def test_a_failed_test_is_refused(ethos_hil: Run, recorded: Recorded) -> None:
    _, bad = CHANGES["an output off by one"](NIGHT)
    folder = RunFolder(Path("runs"), name="wednesday")
    for record in bad:
        folder.append(record)
    check_session(recorded, ethos_hil, [
        "accept runs/wednesday", "accept runs/wednesday --failures", "compare runs/wednesday --baseline baseline.jsonl",
    ])  # fmt: skip


def test_runs_of_a_history_have_names(ethos_hil: Run, recorded: Recorded) -> None:
    for name in ("monday", "tuesday"):
        compact(Path("runs", name), Path("results/history"))
    check_session(recorded, ethos_hil, ["compare monday last", "compare tuesday last", "compare monday runs/tuesday"])


def test_two_records_are_compared_operation_by_operation_or_as_runs(ethos_hil: Run, recorded: Recorded) -> None:
    ops = tuple(replace(op, cycles=(op.cycles or 0) + 5) for op in NIGHT[0].ops)
    Path("a.json").write_text(write_json(NIGHT[0]))
    Path("b.json").write_text(write_json(replace(NIGHT[0], ops=ops)))
    check_session(recorded, ethos_hil, ["compare a.json b.json", "compare a.json b.json --partial"])


def test_what_cannot_be_used_is_one_line(ethos_hil: Run, recorded: Recorded) -> None:
    Path("gate.toml").write_text('schema_version = 1\n[gate]\nregressed = "maybe"\n')
    Path("deep.toml").write_text("schema_version = " + "[" * 5000)
    ethos_hil("accept", "runs/monday", "--baseline", "cut.jsonl")
    Path("cut.jsonl").write_text(Path("cut.jsonl").read_text()[:300])
    Path("empty").mkdir()
    Path("foreign.parquet").write_bytes(b"PAR1 is how it begins")
    check_errors(recorded, ethos_hil, "compare runs", [
        "", "nix", "gate.toml", "runs --policy nix.toml", "runs --policy gate.toml", "runs --policy deep.toml",
        "--baseline cut.jsonl", "--baseline runs", "runs/monday --only zzz", "empty", "foreign.parquet", "last",
        "runs/monday --json no/where.json",
    ])  # fmt: skip
    check_errors(recorded, ethos_hil, "accept", [
        "nix", "runs --baseline cut.jsonl", "runs --baseline no/baseline.jsonl", "runs --baseline empty",
        "runs --prune --only a",
    ])  # fmt: skip


def test_a_line_that_a_crash_cut_short_is_told_and_passed_over(ethos_hil: Run, recorded: Recorded) -> None:
    path = Path("runs/tuesday/records-1.jsonl")
    path.write_text(path.read_text().rpartition('{"schema_version"')[0] + '{"schema_version"')
    check_session(recorded, ethos_hil, ["compare runs/monday runs/tuesday"])
