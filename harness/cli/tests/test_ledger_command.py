"""`ethos-hil ledger`, with records of real runs."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.record import Metric, Record
from ethos_hil.harness.fvp_stand_in import launcher as launchers_of
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE
from ethos_hil.harness.targets.tests.conftest import MODELS
from ethos_hil.harness.targets.tests.variants import ARMS_VERSION, FvpVariant
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.harness.testing.snapshot import Snapshot
from ethos_hil.results.ledger.ledger_row import NETWORK
from ethos_hil.results.store import RunFolder

FVP = "corstone-300"


@pytest.fixture
def fvp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets find an FVP that says that it is Arm's: one of our launchers, so its counts are those of our model."""
    launchers_of.install(tmp_path / "launchers")
    FvpVariant().install(tmp_path / "fvps", MODELS[FVP], tmp_path / "launchers")
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(tmp_path / "fvps"))


def test_what_an_fvp_counts_goes_from_a_profile_into_the_ledger_and_the_report(ethos_hil: Run, fvp: None) -> None:
    assert ethos_hil("profile", "net.py:net", "--target", FVP, "--method", "prefix", "--runs", "fvp").status == 0
    assert ethos_hil("profile", "net.py:net", "--runs", "virtual").status == 0
    alone = ethos_hil("ledger", "virtual")
    assert alone.status == 0
    assert "No FVP and no board has counted any of this" in alone.out
    rows = json.loads(ethos_hil("ledger", "fvp", "--json", "-").out)["ledger"]
    whole = next(row for row in rows if row["operation"] == NETWORK)
    assert (whole["case"], whole["target"], whole["timing_adapters"]) == ("net.py:net", FVP, "reset")
    assert ARMS_VERSION in whole["simulator"]
    assert whole["vela"]
    assert all(row["timing_model"] and row["counter"] == "npu_active" for row in rows)

    document = json.loads(ethos_hil("ledger", "fvp", "virtual", "--json", "-").out)
    assert document["estimated"] == []
    assert document["references"] == len(rows)
    for group in document["counted"]:
        ratio = group["ratios"]["modelled"]
        assert (group["against"], ratio["median"], ratio["worst"]) == ({"fvp": group["rows"]}, 1, 1)

    assert ethos_hil("report", "virtual", "--ledger", "fvp", "-o", "report.html").status == 0
    page = Path("report.html").read_text()
    assert "How far the estimates are off" in page
    assert f"fvp {document['counted'][0]['rows']}" in page


def test_a_board_that_says_another_number_is_kept(ethos_hil: Run) -> None:
    assert ethos_hil("run", "net.py:net", "--json", "record.json").status == 0
    record = Record.from_json(json.loads(Path("record.json").read_text()))
    cycles = record.metric("npu_cycles")
    assert cycles is not None
    target = replace(record.target, name="my-board", kind="board")
    for day, counted in ((1, cycles.value * 2), (2, cycles.value * 3)):
        metrics = (Metric("npu_cycles", counted, "cycles", "measured"), record.metrics[1], *record.metrics[2:])
        RunFolder(Path("board"), name=f"day{day}").append(replace(record, target=target, metrics=metrics))
    result = ethos_hil("ledger", "board", "record.json", "--json", "-", "--csv", "rows.csv")
    assert result.status == 0
    document = json.loads(result.out)
    (group,) = document["counted"]
    assert (group["name"], group["against"]) == (NETWORK, {"measured": 2})
    assert group["ratios"]["modelled"]["worst"] == pytest.approx(1 / 3)
    assert group["ratios"]["modelled"]["median"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    with Path("rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["reference"] for row in rows] == ["measured", "measured", ""]
    assert rows[0]["modelled"] == str(int(cycles.value))


def test_bad_input_is_one_line(ethos_hil: Run) -> None:
    Path("foreign.json").write_text('{"name": 1}')
    Path("counts.jsonl").write_text('{"ethos_hil_ledger":1,"who":"jane","rows":0,"sha256":""}\n')
    Path("empty.jsonl").touch()
    Path("folder").mkdir()
    check_errors(ethos_hil, "ledger", Snapshot("""
        counts.jsonl: 2 ethos-hil: counts.jsonl has no record: not a complete record: record has schema
            version None; this program reads version 2 (give what `ethos-hil run --json FILE` wrote, or a
            run folder)
        foreign.json: 2 ethos-hil: foreign.json has no record: record has schema version None; this program
            reads version 2 (give what `ethos-hil run --json FILE` wrote, or a run folder)
        empty.jsonl: 2 ethos-hil: empty.jsonl is empty (`ethos-hil runs` lists what run folders have,
            `ethos-hil history` runs)
        absent: 2 ethos-hil: absent cannot be read: No such file or directory (`ethos-hil runs` lists what
            run folders have, `ethos-hil history` runs)
        folder: 2 ethos-hil: folder is not a run folder, and has no runs in it (`ethos-hil runs` lists what
            run folders have, `ethos-hil history` runs)
        foreign.json --by colour: 2 ethos-hil: --by is 'colour' (it takes: class, npu, rule, case, source)
        foreign.json --json foreign.json: 2 ethos-hil: --json and FILE_OR_RUN are the same file,
            foreign.json (name another file for --json)
    """))  # fmt: skip
