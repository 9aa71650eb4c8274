"""`ethos-hil bench`: its files, its exit status, and what it says of bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.bench.bench import BenchPlan
from ethos_hil.harness.bench.order import BenchOrder
from ethos_hil.harness.bench.points import BenchCase, BenchPoint, PointSettings, facts_of, refuse
from ethos_hil.harness.campaign.place import OpenRun, RunPlace
from ethos_hil.harness.cli.bench_run import status_of, status_of_gaps
from ethos_hil.harness.testing import small_grid
from ethos_hil.harness.testing.command import Run, check_errors, check_session
from ethos_hil.harness.testing.small_grid import LINEAR
from ethos_hil.results.bench.tests import samples
from ethos_hil.results.store import RunFolder

NOTHING = LINEAR.replace("Linear", "NoLayer").replace("linear_64_to_8", "nothing")
NAMED = '[[case]]\nname = "linear_64_to_8"\nmodel = "net.py:net"\ntags = ["short"]\n'
CASES = NAMED + NOTHING  # a model that has a name is found without torch when it is asked again


@pytest.fixture
def grid(tmp_path: Path) -> str:
    text = small_grid.grid("ethos-u55-128", cases=CASES, more='memory_modes = ["Sram_Only"]\n')
    (tmp_path / "mine.toml").write_text(text)
    return "mine.toml"


@pytest.mark.slow
def test_files_and_exit_status(ethos_hil: Run, grid: str) -> None:
    command = ("bench", "--grid", grid, "--case", "linear*", "--jobs", "1")
    status, out, error = ethos_hil(*command, "--json", "-", "--which", "cycles<=1M", "--clock", "100MHz")
    assert status == 0, error
    assert "1 point: 1 verified; records are in results/runs/" in error
    document = json.loads(out)
    (point,) = document["points"]
    facts = [point[name] for name in ("label", "verdict", "npu", "clock_hz")]
    assert facts == ["linear_64_to_8", "verified", "ethos-u55-128", 100e6]
    assert document["counts"] == {"verified": 1}
    assert document["which"]["places"][0]["meets"]

    assert ethos_hil("report", "results/runs", "-o", "bench.html")[0] == 0
    page = Path("bench.html").read_text()
    cells = f'<td class="n">{point["cycles"]:,}</td><td class="word tV">modelled, verified</td>'
    assert f'<th scope="row">u55-128 Sram_Only</th>{cells}' in page
    assert "100 MHz (stated with --clock 100MHz): u55-128" in page

    late = ethos_hil(*command, "--timeout", "0.001")
    assert (late.status, "failed: net.py:net on ethos-u55-128 in Sram_Only, virtual:" in late.err) == (1, True)
    status, _, error = ethos_hil("bench", "--grid", grid, "--jobs", "1", "--no-boot", "--top", "5")
    assert (status, "2 points: 1 compiled and timed, 1 refused" in error) == (2, True)
    assert error.splitlines()[-1].startswith("ethos-hil: no NPU takes nothing: ")
    assert "mine.toml:10" in error


def test_a_budget_that_nothing_meets_is_status_1(ethos_hil: Run, grid: str, recorded: Recorded) -> None:
    """Of a run that has its one record, so that nothing has to be made."""
    plan = BenchOrder(grid=Path(grid), cases=("linear*",), settings=PointSettings(boot=False)).plan()
    with RunPlace(Path("results/runs"), "made").opened(plan.subject()) as run:
        assert run.campaign is not None
        (planned,) = plan.planned
        row = replace(samples.point(), **facts_of(planned.point, plan.settings))
        run.campaign.run_folder.append(row, planned=planned.digest)
    cheap = f"bench --grid {grid} --case linear* --no-boot --resume made --json b.json --which"
    places = " ".join(f"which.places.{name}" for name in ("meets", "within_error", "margins.clock_hz", "margins.error"))
    check_session(recorded, ethos_hil, [
        f"{cheap} 'fps>=124k' | points nothing", f"{cheap} 'fps>=124000' | points nothing", f"json b.json {places}",
        f"{cheap} 'fps>=125001' | points nothing", f"json b.json {places}",
    ])  # fmt: skip


LATER = samples.point(verdict=Verdict.VERIFIED)
FAILED = replace(LATER, verdict=Verdict.FAILED, failure=Failure(FailureKind.MISMATCH, "3 of 8"))
UNVERIFIED = replace(LATER, verdict=Verdict.UNVERIFIED, failure=Failure(FailureKind.NO_REFERENCE, "none"))
REFUSED = samples.refused()
MISSING = replace(REFUSED, failure=Failure(FailureKind.NOT_AVAILABLE, "no FVP"))


def test_the_status_says_whether_all_was_answered(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    nights = {
        "some are refused": [LATER, REFUSED], "one failed": [LATER, FAILED], "one is unverified": [LATER, UNVERIFIED],
        "all are refused": [REFUSED, REFUSED], "one needs what is missing": [LATER, MISSING], "missing": [MISSING],
        "one failed, and one needs what is missing": [MISSING, FAILED],
    }  # fmt: skip
    recorded.check("\n".join(f"{night}: {status_of(nights[night])} {capsys.readouterr().err}" for night in nights))


def test_bad_input_is_one_line_and_nothing_is_begun(ethos_hil: Run, recorded: Recorded) -> None:
    Path("empty.toml").write_text("schema_version = 1\n")
    check_errors(recorded, ethos_hil, "bench", [
        "--grid missing.toml", "--grid empty.toml", "--case nothing*", "--tag none", "--npu ethos-u55-129",
        "--clock 0", "--repeat 0", "--jobs 0", "--scheme a4w4", "--which 'fps<=30'", "--by colour",
        "--json no/such/folder.json", "--resume nothing", "--resume one --run-name two", "--run-name ../two",
        "net.pte", "gone.py:net", "gone.py:net --grid empty.toml", "--memory-mode Shared", "--system-config Nothing",
        "--npu ethos-u55-128 --memory-mode Dedicated_Sram", "--npu ethos-u55-128 --system-config Ethos_U65_Embedded",
        "--case no_such_*", "--target nowhere", "--timeout 0",
    ])  # fmt: skip


def test_a_point_that_failed_on_a_board_by_path_is_among_the_points(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Records call such a board by its name. One whose record has another place is nowhere in the table."""
    (tmp_path / "mine.toml").write_text('extends = "alif-e8-hp"\n[link]\nurl = "/dev/nothing-is-plugged-in"\n')
    target = f"board:{tmp_path}/mine.toml"
    cases = (BenchCase(name, name, (), ()) for name in ("first", "second"))
    points = tuple(BenchPoint(case, "ethos-u55-256", "Shared_Sram", "", target) for case in cases)
    first, second = BenchPlan(points, PointSettings("mine")).planned
    folder = RunFolder(tmp_path / "runs")
    error = TargetNotAvailable("nothing is plugged in")
    folder.append(refuse(first.point, first.settings, error).record, planned=first.digest)
    answers = OpenRun((folder.path,)).answers((first, second))
    (record,) = answers.records
    assert (record.target.name, record.verdict) == ("board:mine", Verdict.FAILED)
    # And a point without a record is never passed over.
    assert status_of_gaps((first, second), answers) == 1
    assert "without a record: 1 points, such as second on ethos-u55-256" in capsys.readouterr().err
