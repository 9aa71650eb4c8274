"""A session that is ended by a signal leaves no process and no file; text in its output has no effect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

from ethos_hil.base.testing.processes import left_of, wait_until
from ethos_hil.harness.fvp_stand_in.tests.conftest import children
from ethos_hil.harness.virtual.tests.conftest import qemu_processes
from ethos_hil.suites.tests.session import ROOT, SAMPLE, command, session

LONG = """
import time
from ethos_hil.harness.virtual import machine
from ethos_hil.suites.declare.case import Operator, case, f32

def slow(one):
    def wait(self):
        time.sleep(1.0)
        return one(self)
    return wait

machine.Machine.wait = slow(machine.Machine.wait)  # so that a signal finds a board that runs
plus = Operator(
    "plus", aten=("add.Tensor",), fp=("ADD",), int=("ADD",),
    cases=tuple(case(f"c{i}", lambda a: a + a, f32(1, 4 + i)) for i in range(2)),
)
"""


def at_default() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


TERM, HUP, INT = [signal.SIGTERM], [signal.SIGHUP] * 2, [signal.SIGINT] * 3
ONE, TWO = (), ("-n", "2")
OTHERS = [(TERM, ONE), (TERM, TWO), (HUP, ONE), (HUP, TWO), (INT, ONE)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "ends",
    [pytest.param([(INT, TWO)], id="one of them"), pytest.param(OTHERS, id="others", marks=pytest.mark.proof)],
)
def test_a_signal_to_a_session_leaves_nothing(
    tmp_path: Path, ends: list[tuple[list[signal.Signals], tuple[str, ...]]]
) -> None:
    """The cases are lowered once: that takes longer than all these sessions."""
    (tmp_path / "test_long.py").write_text(LONG)
    variables = {"ETHOS_HIL_CACHE": str(tmp_path / "cache")}
    if len(ends) > 1:  # one that lowers: its workers have torch, Vela and the reference model at work
        assert_leaves_nothing(tmp_path, TERM, TWO, variables)
    arguments = ("-c", "/dev/null", "--suffix", "U55_BI", "--compile-only", tmp_path / "test_long.py")
    assert session(tmp_path, *arguments, root=tmp_path, environment=variables).status == 0
    for numbers, workers in ends:
        assert_leaves_nothing(tmp_path, numbers, workers, variables)


def assert_leaves_nothing(
    folder: Path, numbers: list[signal.Signals], workers: tuple[str, ...], variables: dict[str, str]
) -> None:
    """Send signals to a session of `folder` as soon as it has a board."""
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(temporary), **variables}
    arguments = [*command(folder), "-c", "/dev/null", "--suffix", "U55_BI", *workers, str(folder / "test_long.py")]
    how = f"{[number.name for number in numbers]} {workers}"
    with subprocess.Popen(
        arguments, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=at_default
    ) as process:
        wait_until(lambda: qemu_processes() & children(process.pid) or process.poll() is not None, f"a board: {how}")
        assert process.poll() is None, process.communicate()[0]
        all_of_it = children(process.pid)
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.02)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 2, (how, out)
    assert "KeyboardInterrupt" in out, how
    assert left_of(all_of_it) == [], how
    assert [path.name for path in temporary.iterdir() if not path.name.startswith("pytest-of-")] == [], how


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("everything", [True, False], ids=["with its workers", "without them"])
def test_a_session_that_is_killed_disturbs_no_other_on_its_cache(tmp_path: Path, everything: bool) -> None:
    """From an empty cache: both want the same artifacts. Then no lock is held, and no entry is half written."""
    cache = tmp_path / "cache"
    variables = {"ETHOS_HIL_CACHE": str(cache), "PYTHONPATH": str(ROOT / "src")}
    words = ("-q", "-n", "2", "-k", "itself", str(SAMPLE))
    for name in ("victim", "beside it", "after it"):
        (tmp_path / name).mkdir()
    with (
        subprocess.Popen(
            [*command(tmp_path / "victim"), *words], cwd=ROOT, env={**os.environ, **variables}, start_new_session=True
        ) as victim,
        ThreadPoolExecutor() as pool,
    ):
        beside = pool.submit(session, tmp_path / "beside it", *words, environment=variables)
        wait_until(lambda: list(cache.glob("*/artifacts/[!.]*")), "an artifact is made")
        assert victim.poll() is None
        all_of_it = children(victim.pid)
        if everything:
            os.killpg(victim.pid, signal.SIGKILL)
        victim.kill()
    after = session(tmp_path / "after it", *words, environment=variables)
    for other in (beside.result(), after):
        assert list(other.verdicts.values()) == ["verified"] * 5, other.output
    assert left_of(all_of_it) == []
    assert list(cache.glob("*/artifacts/.*")) == []
    for lock in cache.glob("*/locks/*.lock"):
        FileLock(lock).acquire(blocking=False).lock.release()  # raises Timeout where someone has it


def test_handlers_of_signals_are_those_of_before_when_a_session_ends() -> None:
    code = (
        "import pytest, signal, sys\n"
        "before = [signal.getsignal(n) for n in (1, 3, 15)]\n"
        "pytest.main(['--collect-only', '-q', '-c', '/dev/null', '-p', 'no:cacheprovider', sys.argv[1]])\n"
        "assert [signal.getsignal(n) for n in (1, 3, 15)] == before\n"
    )
    subprocess.run([sys.executable, "-c", code, str(SAMPLE)], check=True, timeout=60, preexec_fn=at_default)


HOSTILE = r"""
from ethos_hil.base.errors import UsageError
from ethos_hil.suites.declare.case import Operator, case, f32

def bad(a):
    raise UsageError("bad \x1b]0;owned\x07 name\nsecond line", hint="do \x9b31m")

evil = Operator("evil", aten=("add.Tensor",), cases=(case("one", bad, f32(1, 4)),))
"""


@pytest.mark.slow
def test_the_terminal_shows_escape_sequences_as_text(tmp_path: Path) -> None:
    (tmp_path / "test_evil.py").write_text(HOSTILE)
    result = session(tmp_path, "-c", "/dev/null", "--suffix", "U55_BI", tmp_path / "test_evil.py", root=tmp_path)
    assert result.status == 1
    assert r"bad \x1b]0;owned\x07 name" in result.output
    for sign in ("\x1b", "\x07", "\x9b"):
        assert sign not in result.output
