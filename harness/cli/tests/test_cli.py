"""The command line: bad input ends in one clear line and the right exit status, and nothing is lost or half-written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.testing.command import Run, assert_one_clear_line, check_errors, check_session, run_command
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.tests.test_cache import make_artifact


def test_a_model_or_program_or_input_that_cannot_be_used(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    program = (DATA / "add.pte").read_bytes()
    contents = {"empty": b"", "cut": program[:1000], "random": np.random.default_rng(0).bytes(5000), "text": b"hello\n"}
    for name, content in {**contents, "right": program}.items():
        (here / f"{name}.pte").write_bytes(content)
    check_errors(recorded, ethos_hil, "run", [
        "absent.py:net", "nett.py:net", "net.py", "absent.pte", "absent.pt2", "no.such.package:net", "net.py:nett",
        "net.py:nothing", "net.py:not_a_module", "net.py:wrong_inputs", "net.py:broken", "net.py:untraceable",
        *(f"{name}.pte" for name in contents), "right.pte --npu ethos-u55-64",
    ], lowers=True)  # fmt: skip
    np.savez(here / "shape.npz", np.zeros((1, 2, 8, 7), np.float32))
    np.savez(here / "dtype.npz", np.zeros((1, 2, 8, 8), np.float64))
    check_errors(recorded, ethos_hil, "run net.py:net --inputs", ["shape.npz", "dtype.npz"], lowers=True)


def test_what_a_run_cannot_use_is_told_before_the_model_is_loaded(
    ethos_hil: Run, here: Path, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file of the model is never run: it would write one."""
    (here / "net.py").write_text("open(__file__ + '.loaded', 'w')\n")
    check_errors(recorded, ethos_hil, "run net.py:net", [
        "--target nowhere", "--inputs x.npz", "--json no/such/file", "--json .", "--json x --outputs x",
        "--outputs net.py",
    ])  # fmt: skip
    check_errors(recorded, ethos_hil, "preflight net.py:net", ["--json net.py"])
    (here / "text.elf").write_bytes(b"text")
    (here / "other.elf").write_bytes(find_firmware("corstone-320"))
    for name, status in (("text.elf", 3), ("other.elf", 1), ("missing.elf", 3)):
        monkeypatch.setenv("ETHOS_HIL_FIRMWARE", name)
        assert_one_clear_line(ethos_hil("run", "net.py:net"), status, "firmware")
    assert not (here / "net.py.loaded").exists()


def test_a_program_lowered_here_is_verified_and_a_stranger_is_never_green(
    ethos_hil: Run, here: Path, recorded: Recorded
) -> None:
    """Trailing bytes change nothing for the device, but nothing vouches for this file any more."""
    assert ethos_hil("lower", "net.py:net").status == 0
    (here / "stranger.pte").write_bytes((here / "net.pte").read_bytes() + bytes(16))
    np.savez(here / "x.npz", np.zeros((1, 2, 8, 8), np.float32))
    document = json.loads(ethos_hil("run", "net.pte", "--clock", "400MHz", "--json", "-").out)
    assert document["clock"]["hz"] == 400e6
    check_session(recorded, ethos_hil, [
        "run net.pte | verified", "run stranger.pte --inputs x.npz --json r.json | unverified",
        "json r.json verdict failure.kind",
    ])  # fmt: skip


def test_preflight_shows_what_is_needed_and_available(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    """Also of a program for another NPU and memory mode: it shows both."""
    assert ethos_hil("lower", "net.py:net").status == 0
    np.savez(here / "x.npz", np.zeros((5, 1, 2, 8, 8), np.float32))
    other = "preflight net.pte --npu ethos-u55-256 --memory-mode Sram_Only"
    facts = "schema_version verdict npu target"
    check_session(recorded, ethos_hil, [
        "preflight net.py:net --inputs x.npz --json p.json | check scratch planned package stack kernels",
        f"json p.json {facts} checks", f"{other} | check npu memory",
        f"{other} --json p.json | check", f"json p.json {facts} checks.status checks.fix",
    ])  # fmt: skip


def test_what_cannot_be_used_or_is_not_there(
    ethos_hil: Run, here: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    """Running and asking beforehand say the same."""
    monkeypatch.setenv("ETHOS_HIL_FVP_PATH", "/nowhere")
    variants = [
        "--npu ethos-u56-128", "--npu ethos-u55-100", "--memory-mode Shared_Ram", "--memory-mode Dedicated_Sram",
        "--runner absent.elf", "--target corstone-320",
    ]  # fmt: skip
    check_errors(recorded, ethos_hil, "run net.py:net", variants)
    check_errors(recorded, ethos_hil, "preflight net.py:net", variants)
    monkeypatch.setenv("PATH", "/nowhere")
    for command in ("run", "preflight"):
        ended = ethos_hil(command, "net.py:net", "--target", "corstone-300")
        assert_one_clear_line(ended, 3, "FVP_Corstone_SSE-300_Ethos-U55", "fvp-launchers")


def test_a_json_file_that_cannot_be_written_is_an_error_and_the_record_is_kept(ethos_hil: Run, here: Path) -> None:
    result = ethos_hil("run", "net.py:net", "--json", "/dev/full")
    assert result.status == 2
    assert result.out.startswith("verified"), "the run itself is not lost"
    assert result.err.splitlines()[-1] == (
        "ethos-hil: cannot write /dev/full: No space left on device (nothing was written there)"
    )
    assert ethos_hil("runs").out.count("verified") == 1


_ENDING = """
def main():
    ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.2), print("thread")))
    atexit.register(print, "registered")
    sys.exit(3)

import atexit, sys, time; from concurrent.futures import ThreadPoolExecutor; import ethos_hil.harness.cli.main as cli
cli.main = main; cli.program()
"""


def test_the_program_ends_after_its_threads_and_what_is_registered() -> None:
    """It ends without Python's own end, which would wait for the one, call the other, and write what they print."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run([sys.executable, "-c", _ENDING], capture_output=True, text=True, env=environment)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "thread\nregistered\n", "")


@pytest.mark.parametrize("line", ["runs --json", "run absent.py:net", "run net.py:net --npu", "--no-such-option"])
def test_a_command_in_this_process_ends_as_in_one_of_its_own(line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", *line.split()]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    ended = run_command(*line.split(), cwd=tmp_path)
    usage = done.stderr.replace("python -m ethos_hil.harness.cli.main", "ethos-hil")
    assert ended.shown() == type(ended)(done.returncode, done.stdout, usage).shown(), (
        "but for progress, which takes its time"
    )


# --- `ethos-hil cache`, and what the shell completes. ---

KEYS = [f"{number:064x}" for number in range(3)]
LIMIT = "ETHOS_HIL_CACHE_LIMIT"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of the commands here, with three entries."""
    for key in KEYS:
        Cache(tmp_path).get_or_make(key, lambda key=key: make_artifact(key))  # type: ignore[misc]
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path))
    monkeypatch.delenv(LIMIT, raising=False)
    return tmp_path


def test_it_shows_what_there_is_and_clears(
    folder: Path, ethos_hil: Run, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    """A limit that is none is one line, and removes nothing."""
    recorded.check(run_command("cache").shown(folder))
    monkeypatch.setenv(LIMIT, "some")
    check_errors(recorded, ethos_hil, "cache", ["", "clear"])
    recorded.check(run_command("cache", "clear", environment={LIMIT: "1GB"}).shown(folder), "clear")


@pytest.mark.parametrize(("line", "words"), [("run net", []), ("cache ", ["clear"]), ("doc", ["doctor"])])
def test_the_shell_completes_what_is_one_of_a_few(line: str, words: list[str]) -> None:
    """What bash is given for a line that ends where the cursor is."""
    number = str(len(line.split(" ")))
    variables = {"COMP_WORDS": f"ethos-hil {line}", "COMP_CWORD": number, "_ETHOS_HIL_COMPLETE": "complete_bash"}
    ended = run_command(environment=variables)
    assert (ended.out.split(), ended.err) == (words, "")
