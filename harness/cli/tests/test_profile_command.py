"""`ethos-hil profile` as its user meets it, and `--clock` of run and profile: milliseconds at a stated clock."""

from __future__ import annotations

import json
from pathlib import Path

from ethos_hil.base.clock import StatedClock
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.testing.command import Run, check_errors, check_session
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.results.latency import PARTS, SYSTEM_CLOCKS, with_latency
from ethos_hil.results.tests.test_numbers import OF_CYCLES


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


def test_what_is_not_understood_is_one_line_before_anything_is_loaded(ethos_hil: Run, recorded: Recorded) -> None:
    """Which texts are clocks, base/tests/test_clock.py says."""
    clocks = ["--clock 0", "--clock alif", "--clock 500MHz/0"]
    check_errors(recorded, ethos_hil, "run nowhere.py:net", clocks)
    check_errors(recorded, ethos_hil, "profile nowhere.py:net", [
        *clocks, "--from profile.json", "--by colour", "--sort size", "--method guess", "--events mac",
    ])  # fmt: skip
    check_errors(recorded, ethos_hil, "profile", ["", "--from absent.json"])


def test_a_profile_is_shown_kept_and_shown_again(ethos_hil: Run, recorded: Recorded) -> None:
    check_session(recorded, ethos_hil, [
        "profile net.py:net --method prefix --json profile.json | verified NPU", "json profile.json ops.method",
        "profile --from profile.json --by op | op Conv2D Transpose",
        "profile --from profile.json --json again.json | verified",
    ])  # fmt: skip
    assert Path("again.json").read_text() == Path("profile.json").read_text()


def test_an_old_profile_is_shown_at_another_clock(ethos_hil: Run, recorded: Recorded) -> None:
    Path("record.json").write_text(OF_CYCLES.dumps())
    _, out, _ = ethos_hil("profile", "--from", "record.json", "--clock", "mps4-fi101", "--json", "again.json")
    recorded.check(out)
    again = Record.from_json(json.loads(Path("again.json").read_text()))
    assert again.clock == StatedClock(25e6, "Arm MPS4 with FI101", 25e6)
    assert again == with_latency(OF_CYCLES, again.clock)
