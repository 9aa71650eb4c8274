"""The command line: bad input ends in one clear line and the right exit status, and nothing is lost or half-written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.testing.command import Run, assert_one_clear_line, check_errors, check_session, full_disk
from ethos_hil.harness.virtual.tests.programs import DATA


def test_a_model_that_cannot_be_loaded(ethos_hil: Run, recorded: Recorded) -> None:
    check_errors(recorded, ethos_hil, "run", [
        "absent.py:net", "nett.py:net", "net.py", "absent.pte", "absent.pt2", "no.such.package:net", "net.py:nett",
        "net.py:nothing", "net.py:not_a_module", "net.py:wrong_inputs", "net.py:broken", "net.py:untraceable",
    ], lowers=True)  # fmt: skip


def test_what_a_run_cannot_use_is_told_before_the_model_is_loaded(ethos_hil: Run, recorded: Recorded) -> None:
    check_errors(recorded, ethos_hil, "run net.py:net", [
        "--target nowhere", "--inputs x.npz", "--json no/such/file", "--json .",
    ])  # fmt: skip


def test_inputs_of_wrong_shape_or_dtype_say_expected_and_found(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    np.savez(here / "shape.npz", np.zeros((1, 2, 8, 7), np.float32))
    np.savez(here / "dtype.npz", np.zeros((1, 2, 8, 8), np.float64))
    check_errors(recorded, ethos_hil, "run net.py:net --inputs", ["shape.npz", "dtype.npz"], lowers=True)


def test_a_program_that_is_none_or_for_another_npu(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    program = (DATA / "add.pte").read_bytes()
    contents = {"empty": b"", "cut": program[:1000], "random": np.random.default_rng(0).bytes(5000), "text": b"hello\n"}
    for name, content in {**contents, "right": program}.items():
        (here / f"{name}.pte").write_bytes(content)
    check_errors(recorded, ethos_hil, "run", [
        "empty.pte", "cut.pte", "random.pte", "text.pte", "right.pte --npu ethos-u55-64",
    ], lowers=True)  # fmt: skip


def test_a_program_lowered_here_is_verified_and_a_stranger_is_never_green(
    ethos_hil: Run, here: Path, recorded: Recorded
) -> None:
    """Trailing bytes change nothing for the device, but nothing vouches for this file any more."""
    assert ethos_hil("lower", "net.py:net").status == 0
    (here / "stranger.pte").write_bytes((here / "net.pte").read_bytes() + bytes(16))
    np.savez(here / "x.npz", np.zeros((1, 2, 8, 8), np.float32))
    check_session(recorded, ethos_hil, [
        "run net.pte | verified", "run stranger.pte --inputs x.npz --json r.json | unverified",
        "json r.json verdict failure.kind",
    ])  # fmt: skip


def test_preflight_shows_what_is_needed_and_available(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    """Also of a program for another NPU and memory mode: it shows both."""
    assert ethos_hil("lower", "net.py:net").status == 0
    other = "preflight net.pte --npu ethos-u55-256 --memory-mode Sram_Only"
    facts = "schema_version verdict npu target"
    check_session(recorded, ethos_hil, [
        "preflight net.py:net --json p.json | check scratch planned package stack kernels",
        f"json p.json {facts} checks.name checks.status", f"{other} | check npu memory",
        f"{other} --json p.json | check", f"json p.json {facts} checks.status checks.fix",
    ])  # fmt: skip
    assert json.loads((here / "p.json").read_text())["checks"][0].keys() == {
        "name", "needed", "available", "status", "fix"
    }  # fmt: skip


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


def test_debug_shows_the_traceback(ethos_hil: Run) -> None:
    assert "Traceback" in ethos_hil("run", "absent.py:net", "--debug").err
    assert "Traceback" not in ethos_hil("run", "absent.py:net").err


def test_a_json_file_that_cannot_be_written_is_an_error_and_the_record_is_kept(ethos_hil: Run, here: Path) -> None:
    result = ethos_hil("run", "net.py:net", "--json", "/dev/full")
    assert result.status == 2
    assert result.out.startswith("verified"), "the run itself is not lost"
    assert result.err.splitlines()[-1] == (
        "ethos-hil: cannot write /dev/full: No space left on device (nothing was written there)"
    )
    assert ethos_hil("runs").out.count("verified") == 1


def test_a_full_disk_is_one_line_and_leaves_nothing_half_written(ethos_hil: Run, here: Path) -> None:
    (here / "r.json").write_text("before")
    with full_disk(600):
        ended = ethos_hil("run", "absent.py:net", "--json", "r.json")
    assert ended.status == 2
    assert any(line.startswith("ethos-hil: cannot write r.json") for line in ended.err.splitlines())
    assert (here / "r.json").read_text() == "before"
    assert not list(here.glob(".r.json*"))
