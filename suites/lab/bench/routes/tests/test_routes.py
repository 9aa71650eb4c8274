"""The ways to a bench board: real pyOCD and OpenOCD load it through a simulated probe, real ser2net carries its line.

The programs are not part of the set-up; `make lab` installs pyOCD, and Debian has the others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError, TargetNotAvailable
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.gdb_server import board_remote
from ethos_hil.harness.boards.loader import reset, store
from ethos_hil.suites.lab.bench.routes import __main__ as command
from ethos_hil.suites.lab.bench.routes.firmware_load import FirmwareLoad, load_firmware
from ethos_hil.suites.lab.bench.routes.route import Route, routed_board
from ethos_hil.suites.lab.bench.routes.suite_run import SuiteRun, counts_in
from ethos_hil.suites.lab.bench.routes.upload_rate import UploadRate, measure_upload

NPU = "ethos-u55-128"
PROBES = (Route.PYOCD, Route.OPENOCD)
RAM = 0x31000000


@pytest.fixture(params=PROBES)
def probe(request: pytest.FixtureRequest) -> Route:
    """A way with a probe, if its program is here."""
    return installed(request.param)


def installed(route: Route) -> Route:
    try:
        route.require()
    except TargetNotAvailable as error:
        pytest.skip(str(error))
    return route


@pytest.mark.slow
@pytest.mark.proof
def test_a_probe_resets_and_loads_a_board_which_then_runs_programs_without_it(probe: Route, tmp_path: Path) -> None:
    with routed_board(probe, tmp_path) as there:
        assert load_firmware(there.file, NPU).size > 100_000
        assert there.bench.status()["resets"] == 1
        packets = there.bench.status()["packets"]
        board = find_board(str(there.file))
        with board_remote(board.loading) as remote:
            reset(remote, board.reset)
            assert remote.is_halted()
        assert there.bench.status()["resets"] == 2
        assert there.bench.status()["packets"] > packets


@pytest.mark.slow
@pytest.mark.proof
def test_memory_that_keeps_nothing_is_found_through_a_probe(probe: Route, tmp_path: Path) -> None:
    with routed_board(probe, tmp_path) as there:
        there.bench.tell(f"fault stuck:{RAM + 8}:4:255:0")
        board = find_board(str(there.file))
        with board_remote(board.loading) as remote:
            reset(remote, board.reset)
            with pytest.raises(TargetError, match="0x31000008") as raised:
                store(remote, ((RAM, bytes(range(1, 65))),), soc=board.soc)
        assert raised.value.kind is FailureKind.READBACK


@pytest.mark.slow
@pytest.mark.proof
def test_ser2net_carries_a_run_and_an_upload_at_another_speed(tmp_path: Path) -> None:
    with routed_board(installed(Route.SER2NET), tmp_path) as there:
        assert load_firmware(there.file, NPU).seconds < 60
        rate = measure_upload(find_board(str(there.file)), 100_000, 1)
        assert (rate.size, rate.baud) == (100_000, 921_600)


def test_what_pytest_says_last_is_counted() -> None:
    text = "12 failed in 3.00s\n3 verified\n\n427 skipped, 1840 deselected, 53 verified in 356.74s (0:05:56)\n"
    assert counts_in(text) == {"skipped": 427, "deselected": 1840, "verified": 53}
    assert counts_in("no tests ran") == {}


def test_an_upload_has_its_share_of_the_lines_rate() -> None:
    assert UploadRate(921_600, 921_600, 10.0, 0, 0, 0).share == pytest.approx(1.0)
    assert UploadRate(921_600, 921_600, 12.5, 0, 0, 0).share == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("counts", "status", "resets", "good"),
    [
        ({"verified": 479, "xfailed": 1, "deselected": 9}, 0, 2, True),
        ({"verified": 479, "failed": 1}, 1, 2, False),
        ({"verified": 479, "unverified": 1}, 0, 2, False),
        ({"xfailed": 480}, 0, 2, False),
        ({"verified": 479, "skipped": 1}, 0, 2, False),
        ({}, 2, 2, False),
        ({"verified": 480}, 0, 3, False),  # a board was loaded again
    ],
)
def test_only_verified_tests_on_boards_that_were_loaded_once_are_good(
    monkeypatch: pytest.MonkeyPatch, counts: dict[str, int], status: int, resets: int, good: bool
) -> None:
    result = FirmwareLoad(166_504, 2.0), SuiteRun(counts, 100.0, status, ""), resets
    monkeypatch.setattr(command, "_suite", lambda *_: result)
    assert command._suites([Route.GDB], boards=2, one_in=1) is good
