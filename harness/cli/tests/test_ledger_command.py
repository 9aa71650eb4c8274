"""`ethos-hil ledger` and `--contribute`, with records of real runs."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.record import Metric, Record
from ethos_hil.harness.cli.tests.test_cli import Run, assert_one_clear_line, ethos_hil, here
from ethos_hil.harness.fvp_stand_in import launcher as launchers_of
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE
from ethos_hil.harness.targets.tests.conftest import MODELS
from ethos_hil.harness.targets.tests.variants import ARMS_VERSION, FvpVariant
from ethos_hil.results.ledger.ledger_row import NETWORK
from ethos_hil.results.ledger.sources import read_contribution
from ethos_hil.results.store import RunFolder

__all__ = ["ethos_hil", "here"]

FVP = "corstone-300"


@pytest.fixture
def fvp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Targets find an FVP that says that it is Arm's: one of our launchers, so its counts are those of our model."""
    launchers_of.install(tmp_path / "launchers")
    FvpVariant().install(tmp_path / "fvps", MODELS[FVP], tmp_path / "launchers")
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(tmp_path / "fvps"))


def test_what_an_fvp_counts_goes_from_a_profile_into_a_file_for_others_and_into_the_report(
    ethos_hil: Run, fvp: None
) -> None:
    assert ethos_hil("profile", "net.py:net", "--target", FVP, "--method", "prefix", "--runs", "fvp").status == 0
    assert ethos_hil("profile", "net.py:net", "--runs", "virtual").status == 0
    alone = ethos_hil("ledger", "virtual")
    assert alone.status == 0
    assert "No FVP and no board has counted any of this" in alone.out
    written = ethos_hil("ledger", "fvp", "--contribute", "counts.jsonl", "--who", "somebody")
    assert written.status == 0, written.err
    text = Path("counts.jsonl").read_text()
    counts = read_contribution(Path("counts.jsonl"))
    whole = next(row for row in counts.rows if row.operation == NETWORK)
    assert (counts.who, whole.case, whole.target, whole.timing_adapters) == ("somebody", "net.py:net", FVP, "reset")
    assert ARMS_VERSION in whole.simulator
    assert whole.vela
    assert all(row.timing_model and row.counter == "npu_active" for row in counts.rows)

    document = json.loads(ethos_hil("ledger", "counts.jsonl", "virtual", "--json", "-").out)
    assert (document["contradictions"], document["estimated"]) == ([], [])
    assert document["references"] == len(counts.rows)
    for group in document["counted"]:
        ratio = group["ratios"]["modelled"]
        assert (group["against"], ratio["median"], ratio["worst"]) == ({"fvp": group["rows"]}, 1, 1)
    again = ethos_hil("ledger", "counts.jsonl", "fvp", "virtual", "--contribute", "counts.jsonl")
    assert again.status == 0
    lines = {line for line in text.splitlines()[1:] if "setup" in line}
    assert lines <= set(Path("counts.jsonl").read_text().splitlines())

    assert ethos_hil("report", "virtual", "--ledger", "counts.jsonl", "-o", "report.html").status == 0
    page = Path("report.html").read_text()
    assert "How far the estimates are off" in page
    assert f"fvp {document['counted'][0]['rows']}" in page


def test_a_board_that_says_another_number_is_told_and_kept(ethos_hil: Run) -> None:
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
    assert "contradiction: net.py:net for ethos-u55-128" in result.err
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
    assert ethos_hil("run", "net.py:net", "--json", "record.json").status == 0
    assert ethos_hil("ledger", "record.json", "--contribute", "ledger.jsonl").status == 0
    text = Path("ledger.jsonl").read_text()
    number = text[text.index('"modelled":') + 11 :].partition(",")[0]
    Path("edited.jsonl").write_text(text.replace(f'"modelled":{number}', f'"modelled":{int(number) - 1}'))
    Path("other.jsonl").write_text(text.replace('{"ethos_hil_ledger":1', '{"ethos_hil_ledger":2'))
    Path("foreign.json").write_text('{"name": 1}')
    Path("empty.jsonl").touch()
    Path("folder").mkdir()
    for name, message in {"edited.jsonl": "is not as it was written", "other.jsonl": "is a ledger of version 2",
                       "foreign.json": "no record", "empty.jsonl": "is empty", "absent": "cannot be read",
                       "folder": "no runs"}.items():  # fmt: skip
        result = ethos_hil("ledger", name)
        assert_one_clear_line(result, 2, name, message)
        if name not in ("absent", "folder"):
            before = Path(name).read_text()
            assert_one_clear_line(ethos_hil("bench", "absent.py:net", "--contribute", name), 2, name)
            assert Path(name).read_text() == before
    for arguments, message in ((("ledger.jsonl", "--by", "colour"), "class, npu, rule, case, source"),
                            (("ledger.jsonl", "--who", "me"), "give --contribute"),
                            (("ledger.jsonl", "--json", "ledger.jsonl"), "same file"),
                            (("ledger.jsonl", "--contribute", "-"), "name a file")):  # fmt: skip
        assert_one_clear_line(ethos_hil("ledger", *arguments), 2, message)
