"""`ethos-hil profile` as its user meets it, and `--clock` of run and profile: milliseconds at a stated clock."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.results.latency import PARTS, SYSTEM_CLOCKS, with_latency
from ethos_hil.results.text.record import latency_rows

RECORD = Record(
    verdict=Verdict.VERIFIED,
    model="net.py:net",
    npu="ethos-u55-256",
    target=TargetInfo("corstone-300", "fvp", "corstone-300"),
    metrics=(Metric("npu_cycles", 1_000_000, "cycles", "fvp"), Metric("cpu_cycles", 250_000, "cycles", "fvp")),
    system_config="Ethos_U55_High_End_Embedded",
    clock_hz=500e6,
)


def test_npu_cpu_and_total_are_shown_apart_with_their_clocks_and_what_has_no_time_is_said(recorded: Recorded) -> None:
    instructions = Metric("cpu_instructions", 3916, "instructions", "instructions")
    shown = [
        with_latency(RECORD, StatedClock(250e6, "Renesas EK-RA8P1", 1e9)),
        with_latency(RECORD, None),
        with_latency(
            dataclasses.replace(RECORD, metrics=(RECORD.metrics[0], instructions)),
            StatedClock(500e6, "--clock 500MHz/1GHz", 1e9),
        ),
        with_latency(dataclasses.replace(RECORD, metrics=()), None),
    ]
    recorded.check([dict(latency_rows(record)) for record in shown])


def test_known_clocks_are_those_of_vela_and_of_the_boards() -> None:
    ini = VelaIni.shipped()
    npus = {"U55": "ethos-u55-256", "U65": "ethos-u65-256", "U85": "ethos-u85-256"}
    shipped = {name: ini.system(name, EthosU.parse(npus[name.split("_")[1]])).core_clock for name in ini.systems}
    assert shipped == SYSTEM_CLOCKS
    boards = {"mps3-an547": 300, "mps3-an552": 300, "mps3-an555": 310, "mps4-fi101": 320}
    cpus = {soc.number: soc.cpu_hz for soc in SOCS}
    clocks = {part.name: (part.hz, part.cpu_hz) for part in PARTS}
    assert {name: clocks[name] for name in boards} == {name: (cpus[soc], cpus[soc]) for name, soc in boards.items()}
    assert {EthosU.parse(part.npu).name for part in PARTS if part.npu} <= set(EthosU.names())


def test_what_is_not_understood_is_one_line_before_anything_is_loaded(command_line: Run, recorded: Recorded) -> None:
    """Which texts are clocks, base/tests/test_clock.py says."""
    clocks = ["--clock 0", "--clock alif", "--clock 500MHz/0"]
    check_errors(recorded, command_line, "run nowhere.py:net", clocks)
    check_errors(recorded, command_line, "profile nowhere.py:net", [
        *clocks, "--from profile.json", "--by colour", "--sort size", "--method guess", "--events mac",
    ])  # fmt: skip
    check_errors(recorded, command_line, "profile", ["", "--from absent.json"])


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


def test_an_old_profile_is_shown_at_another_clock(command_line: Run, recorded: Recorded) -> None:
    Path("record.json").write_text(json.dumps(RECORD.to_json()))
    _, out, _ = command_line("profile", "--from", "record.json", "--clock", "mps4-fi101", "--json", "again.json")
    recorded.check(out)
    again = Record.from_json(json.loads(Path("again.json").read_text()))
    assert again.clock == StatedClock(25e6, "Arm MPS4 with FI101", 25e6)
    assert again == with_latency(RECORD, again.clock)
