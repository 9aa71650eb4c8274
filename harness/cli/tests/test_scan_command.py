"""`ethos-hil scan`: the tables, and one line and the right exit status for what cannot be scanned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.scan.tests.small_wheels import only_from, wheel
from ethos_hil.harness.testing.command import Run, assert_one_clear_line, check_errors, check_session
from ethos_hil.lowering.cache import environments


@pytest.fixture
def ethos_hil(ethos_hil: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `ethos-hil scan` in a folder with a model. pip knows no wheels but those in `wheels`."""
    Path("net.pte").write_bytes(b"")
    Path("wheels").mkdir()
    Path("mixed").mkdir()
    for version in ("9.1.0", "9.2.0"):
        wheel(Path("wheels"), "ethos-u-vela", version)
        wheel(Path("mixed"), "ethos-u-vela" if version == "9.1.0" else "executorch", version)
    for name, value in only_from(Path("wheels").absolute()).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(environments, "cache_folder", lambda: Path("kept"))

    return lambda *arguments: ethos_hil("scan", *arguments)


def test_what_cannot_be_scanned_is_one_line_and_status_2(ethos_hil: Run, recorded: Recorded) -> None:
    check_errors(recorded, ethos_hil, "net.py:net --over", [
        "numpy=1.0", "ethos-u-vela=9.2..9.1", "ethos-u-vela=9.3..9.9", "ethos-u-vela=9.1.7",
        "ethos-u-vela=9.1 --json there/x.json", "ethos-u-vela=9.1 --json net.py",
        "executorhc=1.5", "here", "here --over ethos-u-vela=9.1", "wheels=nowhere", "wheels=mixed",
        "ethos-u-vela=9.1 --build make", "commits=A..B", "commits=A..B --build make",
        "commits=A..B --build make --repository nowhere", "ethos-u-vela=9.1..9.2 --by speed",
        "ethos-u-vela=9.1..9.2 --bisect --shard 1/2",
        "ethos-u-vela=9.1..9.2 --bisect --npu ethos-u55-32 --npu ethos-u85-256",
        "here --over executorch==1.5.0 --with executorch==1.5.0",
    ])  # fmt: skip
    check_errors(recorded, ethos_hil, "--over ethos-u-vela=9.1", [
        "net.py:none", "net.py:broken", "none.py:net", "net.pte",
    ], lowers=True)  # fmt: skip


def test_without_an_index_it_ends_with_3(ethos_hil: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    ended = ethos_hil("net.py:net", "--over", "ethos-u-vela=9.1..9.2")
    assert_one_clear_line(ended, 3, "the releases of ethos-u-vela: No matching distribution", "check the network")


def test_versions_that_make_no_program_are_rows_with_their_reason(ethos_hil: Run, recorded: Recorded) -> None:
    """These wheels have no Vela in them. The scan was made all the same."""
    wheel(Path("wheels"), "ethos-u-vela", "9.2.0", ["never-there"])
    none = ethos_hil("net.py:net", "--over", "ethos-u-vela=9.2", "--npu", "ethos-u85-128")
    assert_one_clear_line(none, 3, "no version can be installed; the last, ethos-u-vela 9.2.0: ")
    fields = " ".join(f"points.0.versions.{name}" for name in ("version", "cycles"))
    check_session(recorded, ethos_hil, [
        "net.py:net --over ethos-u-vela=9.1..9.2 --npu ethos-u85-128 --json a.json | 'ethos-u-vela on' no version 9.",
        f"json a.json {fields}",
    ])  # fmt: skip
    reasons = [version["reason"] for version in json.loads(Path("a.json").read_text())["points"][0]["versions"]]
    assert reasons[0] == "Vela failed with ModuleNotFoundError: No module named 'ethosu'"
    assert reasons[1].startswith("pip cannot install it: ")


def test_a_wheel_without_its_module_is_not_taken_for_the_package_of_here(ethos_hil: Run) -> None:
    ended = ethos_hil("net.py:net", "--over", "wheels=wheels")
    assert_one_clear_line(ended, 3, "no version can be installed; the last, ethos-u-vela 9.2.0", "has no module ethosu")
