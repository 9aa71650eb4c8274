"""`ethos-hil profile`, as its user meets it."""

from __future__ import annotations

import json
from pathlib import Path

from ethos_hil.base.record import Record
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.harness.testing.snapshot import Snapshot


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


def test_what_is_not_understood_is_one_line(ethos_hil: Run) -> None:
    check_errors(ethos_hil, "profile", Snapshot("""
        nothing: 2 ethos-hil: give a model, or --from with a record (ethos-hil profile net.py:net)
        net.py:net --from profile.json: 2 ethos-hil: give a model, or --from with a record (ethos-hil
            profile net.py:net)
        --from absent.json: 2 ethos-hil: absent.json cannot be read: No such file or directory (`ethos-hil
            runs` lists what run folders have, `ethos-hil history` runs)
        net.py:net --by colour: 2 ethos-hil: --by is 'colour' (it takes: module, line, type, op, memory)
        net.py:net --sort size: 2 ethos-hil: --sort is 'size' (it takes: program, cycles)
        net.py:net --method guess: 2 ethos-hil: --method is 'guess' (valid: shares, prefix)
        net.py:net --events mac: 2 ethos-hil: --events is 'mac' (valid: npu_active, mac_active,
            output_active, weight_decoder_active, port0_read_beats, port0_write_beats, port1_read_beats,
            port1_write_beats, all)
    """))  # fmt: skip
