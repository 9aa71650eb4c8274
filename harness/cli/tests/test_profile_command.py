"""`ethos-hil profile`, as its user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.record import Record
from ethos_hil.harness.testing.command import Run, assert_one_clear_line


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["give a model, or --from"]),
        (("net.py:net", "--from", "profile.json"), ["give a model, or --from"]),
        (("--from", "absent.json"), ["absent.json"]),
        (("net.py:net", "--by", "colour"), ["--by is 'colour'", "module, line, type, op"]),
        (("net.py:net", "--sort", "size"), ["--sort is 'size'", "program, cycles"]),
        (("net.py:net", "--method", "guess"), ["--method is 'guess'", "shares, prefix"]),
        (("net.py:net", "--events", "mac"), ["--events is 'mac'", "mac_active"]),
    ],
)
def test_what_is_not_understood_is_one_line(ethos_hil: Run, arguments: tuple[str, ...], words: list[str]) -> None:
    assert_one_clear_line(ethos_hil("profile", *arguments), 2, *words)
