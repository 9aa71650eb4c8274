"""QEMU ends with the run, in whatever way the run ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.testing.processes import left_of, wait_for_full_pipe, wait_for_work, wait_until
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.virtual.board import QemuBoard
from ethos_hil.harness.virtual.guest_files import Semihosting
from ethos_hil.harness.virtual.qemu import Qemu, _available, find_qemu
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300, qemu_processes

# A harness with a guest that never ends.
_HANGING = """
import sys
from pathlib import Path
from ethos_hil.harness.image.pack import Image, RunPlan
from ethos_hil.harness.targets.virtual import VirtualTarget
target = VirtualTarget("ethos-u55-128")
target.load(Image(Path(sys.argv[1]).read_bytes(), bytes(16), bytes(32), bytes(32), RunPlan(1, 1)))
target.run(timeout=60)
"""
# A harness with an idle guest.
_WAITING = """
import sys, time
from pathlib import Path
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.harness.socs.corstone_300 import SOC as CORSTONE_300
pool = BoardPool()
pool.give(pool.take(CORSTONE_300, Path(sys.argv[1]).read_bytes()))
print("waiting", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    "number",
    [
        *(signal.SIGKILL, signal.SIGINT),
        *(pytest.param(number, marks=pytest.mark.proof) for number in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
@pytest.mark.parametrize("program", [_HANGING, _WAITING], ids=["running", "waiting"])
def test_qemu_ends_with_the_harness(
    assemble: Callable[[str], bytes], tmp_path: Path, program: str, number: signal.Signals
) -> None:
    elf = tmp_path / "guest.elf"
    elf.write_bytes(assemble("park:\n b park\n"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    harness = subprocess.Popen(
        [sys.executable, "-c", program, str(elf)],
        env=os.environ | {"TMPDIR": str(temporary), "PYTHONPATH": str(Path(__file__).resolve().parents[3] / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None,  # nohup's child
    )
    try:
        wait_until(lambda: qemu_processes(harness.pid), "QEMU runs")
        (qemu,) = qemu_processes(harness.pid)
        if program == _WAITING:
            assert harness.stdout is not None
            assert harness.stdout.readline() == "waiting\n"
        else:
            wait_for_work(qemu)
        harness.send_signal(number)
        _, error = harness.communicate(timeout=60)
    finally:
        harness.kill()
    left = left_of([qemu])
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert left == []
    assert harness.returncode != 0
    assert ("KeyboardInterrupt" in error) == (number is signal.SIGINT)
    assert list(temporary.iterdir()) == []


def test_a_forgotten_qemu_ends_when_it_is_collected(assemble: Callable[[str], bytes]) -> None:
    qemu = Qemu(assemble("park:\n b park\n"))
    pid = qemu.pid
    del qemu
    assert not Path(f"/proc/{pid}").exists()


def wrapper(folder: Path, text: str) -> str:
    """A script in place of QEMU, in which `$QEMU` is the real one."""
    path = folder / "wrapper"
    path.write_text(f"#!/bin/sh\nQEMU={find_qemu()}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_what_a_script_starts_ends_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, assemble: Callable[[str], bytes]
) -> None:
    monkeypatch.setenv(
        "ETHOS_HIL_QEMU", wrapper(tmp_path, f'trap "" TERM; sleep 1000 & echo $! > {tmp_path}/pid\n$QEMU "$@"')
    )
    board = QemuBoard(CORSTONE_300, Qemu(assemble("park:\n b park\n")))
    inner = qemu_processes(board.qemu.pid) | {int((tmp_path / "pid").read_text())}
    assert len(inner) == 2
    board.stop()
    assert left_of(inner) == []


QEMUS = {
    "absent": None,
    "a text": "not a program",
    "one that ends": '#!/bin/sh\necho "qemu: -x: invalid option" >&2; exit 1\n',
}


@pytest.mark.parametrize("semihosting", [None, Semihosting("", Path())], ids=["firmware", "runner"])
def test_a_qemu_that_does_not_start_is_told(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, semihosting: Semihosting | None
) -> None:
    def start(name: str) -> None:
        path, text = tmp_path / name, QEMUS[name]
        if text is not None:
            path.write_text(text)
            path.chmod(0o755)
        monkeypatch.setenv("ETHOS_HIL_QEMU", str(path))
        QemuBoard(CORSTONE_300, Qemu(b"", semihosting=semihosting))

    recorded.check_refusals(QEMUS, start, TargetNotAvailable, folders=[tmp_path])


def test_qemu_is_looked_up_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ETHOS_HIL_QEMU", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TargetNotAvailable, match="not on PATH"):
        find_qemu()
    (tmp_path / "qemu-system-arm").write_text("#!/bin/sh\n")
    (tmp_path / "qemu-system-arm").chmod(0o755)
    assert find_qemu() == str(tmp_path / "qemu-system-arm")


def test_a_pipe_that_never_runs_dry_is_read_in_parts() -> None:
    """Otherwise no one looks at the time limit."""
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        descriptor = os.dup(endless.stdout.fileno())
        wait_for_full_pipe(descriptor)
        data, same = _available(descriptor)
        os.close(descriptor)
        endless.kill()
    assert same == descriptor
    assert len(data) < 2 << 20
