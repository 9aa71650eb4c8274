"""`ethos-hil profile`, as its user meets it."""

from __future__ import annotations

import json
from pathlib import Path

from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.testing.command import Run, check_errors


def test_a_profile_is_shown_kept_and_shown_again(ethos_hil: Run) -> None:
    result = ethos_hil("profile", "net.py:net", "--method", "prefix", "--json", "profile.json")
    assert result.status == 0, result.err
    record = Record.from_json(json.loads(Path("profile.json").read_text()))
    assert {op.method for op in record.ops} == {"prefix"}
    total = record.metric("npu_cycles")
    assert total is not None
    assert f"{int(total.value):,} cycles (modelled), by prefix" in result.out
    by_op = ethos_hil("profile", "--from", "profile.json", "--by", "op")
    assert by_op.status == 0
    for op in record.ops:
        assert op.npu_op in by_op.out
    as_json = ethos_hil("profile", "--from", "profile.json", "--json", "-")
    assert Record.from_json(json.loads(as_json.out)) == record


def test_what_is_not_understood_is_one_line(ethos_hil: Run, recorded: Recorded) -> None:
    check_errors(recorded, ethos_hil, "profile", [
        "", "net.py:net --from profile.json", "--from absent.json", "net.py:net --by colour",
        "net.py:net --sort size", "net.py:net --method guess", "net.py:net --events mac",
    ])  # fmt: skip
