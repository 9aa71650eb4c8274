"""`ethos-hil doctor` finds this installation whole, and names what others lack."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ethos_hil.base.testing.processes import left_of
from ethos_hil.harness.doctor import examination
from ethos_hil.harness.doctor.examination import Status, ask
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.tests.test_repository import HEAVY, MODULES

ROOT = Path(__file__).resolve().parents[3]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("ETHOS_HIL_")}
NAMES = sorted(soc.name for soc in SOCS)


@dataclass(frozen=True)
class Told:
    """Its output and exit status."""

    status: int
    out: str
    err: str

    @property
    def findings(self) -> dict[str, dict[str, str]]:
        """Read the findings from its JSON, by name."""
        assert self.out, self.err
        return {finding["name"]: finding for finding in json.loads(self.out)["findings"]}


def doctor(*arguments: str, code: str = "", **environment: str) -> Told:
    """Run it in a process of its own; `code` runs before it."""
    code += "; import sys; sys.argv = ['ethos-hil', 'doctor', *sys.argv[1:]]"
    code += "; from ethos_hil.harness.cli.main import main; main()"
    command = [sys.executable, "-c", code.removeprefix("; "), *arguments]
    done = subprocess.run(command, env={**CLEAN, **environment}, capture_output=True, text=True, timeout=60)
    return Told(done.returncode, done.stdout, done.stderr)


def executable(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_here_everything_is_there_and_each_thing_has_a_line() -> None:
    report = doctor()
    assert (report.status, report.err) == (0, "")
    lines = report.out.splitlines()
    assert all(line.split()[0] in ("ok", "note") for line in lines), report.out
    assert "\x1b" not in report.out, "no colour in a pipe"
    wanted = ["ethos-hil", "python", "torch", "executorch", "ethos-u-vela", "tosa-tools", "numpy", "other packages"]
    wanted += ["qemu", *(f"firmware of {soc}" for soc in NAMES), "cache", "disk", "cmake", "cc", "serial ports"]
    for name in wanted:
        assert sum(line[9:].startswith(f"{name}  ") for line in lines) == 1, name


def test_as_json_it_says_the_same() -> None:
    document = json.loads(doctor("--json").out)
    assert (document["schema_version"], document["can_run"]) == (1, True)
    assert {"name", "status", "found", "remedy"} == document["findings"][0].keys()
    lines = doctor().out.splitlines()
    assert [finding["name"] for finding in document["findings"]] == [re.split("  +", line[9:])[0] for line in lines]


def test_it_imports_nothing_of_what_it_examines() -> None:
    watch = "import atexit, sys; atexit.register(lambda: print([m for m in %r if m in sys.modules], file=sys.stderr))"
    report = doctor(code=watch % ((*HEAVY, "numpy", "capstone", "elftools"),))
    assert (report.status, report.err) == (0, "[]\n")


def test_without_torch_executorch_and_numpy_it_names_them(tmp_path: Path) -> None:
    """The environment has only the packages of the command line, one of them in a wrong version."""
    here = Path(sysconfig.get_path("purelib"))
    names = (
        "typer click rich pygments markdown mdurl platformdirs filelock packaging shellingham annotated_doc pyserial"
    )
    names += " serial typing_ ethos_hil pydantic annotated_types"
    for path in here.iterdir():
        if path.name.lower().startswith(tuple(names.split())):
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "pandas-1.0.dist-info").mkdir()
    (tmp_path / "pandas-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: pandas\nVersion: 1.0\n")
    command = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + %r" % [
        str(tmp_path),
        str(ROOT / "src"),
    ]
    findings = doctor("--json", code=command).findings
    lock = examination.tested_versions(ROOT)
    for name in ("torch", "executorch", "numpy", "capstone"):
        assert (findings[name]["status"], findings[name]["found"]) == ("missing", "not installed")
        assert findings[name]["remedy"] == f"pip install --no-deps {name}=={lock[name]}"
    assert findings["pandas"]["status"] == "missing"
    assert findings["pandas"]["found"] == "1.0, but ethos-hil needs ~=3.0"
    assert "typer" not in findings


def test_a_version_that_will_do_and_is_not_the_tested_one_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "rich-99.0.dist-info").mkdir()
    (tmp_path / "rich-99.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: rich\nVersion: 99.0\n")
    report = doctor("--json", code=f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    assert report.status == 0
    assert report.findings["other packages"]["status"] == "note"
    assert report.findings["other packages"]["found"].startswith("rich 99.0, tested with ")


def test_without_qemu_it_cannot_run_and_says_how_it_could(tmp_path: Path) -> None:
    report = doctor(PATH=str(tmp_path))
    assert report.status == 3
    (line,) = (line for line in report.out.splitlines() if line.startswith("missing"))
    assert "qemu" in line
    assert "qemu-system-arm is not on PATH" in line
    assert "apt install qemu-system-arm" in line
    for name in ("arm-none-eabi-g++", "cmake", "ninja"):
        assert re.search(rf"^note +{re.escape(name)} +not found; needed only to build the firmware", report.out, re.M)
    assert re.search(r"^note +cc +not found; needed only to profile .*apt install gcc", report.out, re.M)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo QEMU emulator version 6.2.0", "is QEMU emulator version 6.2.0"),
        ('[ "$1" = --version ] && echo QEMU emulator version 9.0.2 || echo virt  a board', "has no machine mps3-an547"),
        ("echo no such library; exit 127", "ended with status 127 and said 'no such library'"),
        ("exit 0", "ended with status 0"),
    ],
)
def test_a_qemu_that_will_not_do(tmp_path: Path, text: str, why: str) -> None:
    report = doctor("--json", ETHOS_HIL_QEMU=str(executable(tmp_path / "qemu", text)))
    assert report.status == 3
    assert report.findings["qemu"]["status"] == "missing"
    assert why in report.findings["qemu"]["found"]
    assert "QEMU 7.2 or newer" in report.findings["qemu"]["remedy"]


def test_without_firmware_it_cannot_run_and_says_how_it_could(tmp_path: Path) -> None:
    report = doctor("--json", ETHOS_HIL_FIRMWARE=str(tmp_path))
    assert report.status == 3
    for soc in NAMES:
        finding = report.findings[f"firmware of {soc}"]
        assert finding["status"] == "missing"
        assert finding["found"] == f"none at {tmp_path}/{soc.replace('-', '')}/ethos-hil.elf: No such file or directory"
        assert "make firmware" in finding["remedy"]
    (tmp_path / "text.elf").write_text("text")
    report = doctor("--json", ETHOS_HIL_FIRMWARE=str(tmp_path / "text.elf"))
    assert report.status == 3
    assert report.findings["firmware of corstone-300"]["found"] == f"{tmp_path}/text.elf is not an ELF file"


def test_fvps_are_found_with_their_versions(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "launchers", tmp_path / "arm"
    install(ours)
    theirs.mkdir()
    name = "FVP_Corstone_SSE-320"
    executable(theirs / name, "echo; echo Fast Models [11.27.25 Jul 22 2024]; echo Copyright")
    findings = doctor("--json", ETHOS_HIL_FVP_PATH=f"{theirs}:{ours}").findings
    assert "fvps" not in findings
    assert findings[name]["status"] == "ok"
    assert findings[name]["found"] == f"Fast Models [11.27.25 Jul 22 2024] ({theirs / name})"
    launcher = findings["FVP_Corstone_SSE-300_Ethos-U55"]
    assert launcher["found"].startswith("ethos-hil 0.1.0, a virtual corstone-300")
    executable(theirs / name, "echo Failed to check out a licence; exit 1")
    report = doctor("--json", ETHOS_HIL_FVP_PATH=str(theirs))
    assert (report.status, report.findings[name]["status"]) == (0, "note")
    assert "Failed to check out a licence" in report.findings[name]["found"]


def test_a_program_that_does_not_answer_is_ended_with_all_it_started(tmp_path: Path) -> None:
    slow = executable(tmp_path / "slow", f"sleep 1000 & echo $! > {tmp_path}/child; echo started; wait")
    began = time.monotonic()
    assert ask([str(slow)], seconds=0.5) == "it did not answer in 0.5 s"
    assert time.monotonic() - began < 5
    assert left_of([int((tmp_path / "child").read_text())]) == []
    assert ask([str(tmp_path / "absent")]) == "it cannot be started: No such file or directory"


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({"ETHOS_HIL_CACHE": "/dev/null/cache"}, "/dev/null/cache cannot be written"),
        ({"ETHOS_HIL_CACHE_LIMIT": "plenty"}, "ETHOS_HIL_CACHE_LIMIT 'plenty' is not a size"),
    ],
)
def test_a_cache_that_cannot_be_used_stops_every_run(environment: Mapping[str, str], text: str) -> None:
    report = doctor("--json", **environment)
    assert report.status == 3
    assert (report.findings["cache"]["status"], report.findings["cache"]["found"]) == ("missing", text)
    assert report.findings["cache"]["remedy"]


def test_the_cache_is_told_with_how_to_empty_it(tmp_path: Path) -> None:
    finding = doctor("--json", ETHOS_HIL_CACHE=str(tmp_path / "new"), ETHOS_HIL_CACHE_LIMIT="2GB").findings["cache"]
    assert finding["found"] == f"0 lowered models, 0 bytes of at most 2.0 GB, in {tmp_path / 'new'}"
    assert finding["remedy"] == "to empty it: ethos-hil cache clear"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("free", "status"),
    [(10**12, Status.OK), (10**9 - 1, Status.NOTE), (10**8 - 1, Status.MISSING), (0, Status.MISSING)],
)
def test_a_disk_is_judged_by_what_is_free(free: int, status: Status) -> None:
    assert examination.disk("runs", free).status is status


def test_disks_are_told_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_CACHE", "/dev/shm/absent/cache")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    uses = [disk.found.partition(" free for ")[2] for disk in examination.disks()]
    assert uses == ["cache", "runs, temporary files"]


def test_variables_are_told_and_a_misspelt_one_is_seen() -> None:
    findings = doctor("--json", ETHOS_HIL_CASHE="/x", ETHOS_HIL_FVP_PATH="/nowhere").findings
    assert findings["ETHOS_HIL_CASHE"]["status"] == "note"
    assert findings["ETHOS_HIL_CASHE"]["remedy"] == "did you mean ETHOS_HIL_CACHE?"
    assert (findings["ETHOS_HIL_FVP_PATH"]["status"], findings["ETHOS_HIL_FVP_PATH"]["found"]) == ("ok", "/nowhere")
    assert "nor in /nowhere" in findings["fvps"]["found"]


def test_every_variable_that_is_read_is_known() -> None:
    product = [path for path in MODULES if "lab" not in path.parts]
    read = {name for path in product for name in re.findall(r"\"(ETHOS_HIL_[A-Z_]+)\"", path.read_text())}
    read -= {"ETHOS_HIL_BOARD", "ETHOS_HIL_LEFT_OUT", "ETHOS_HIL_OUTPUT"}  # variables of CMake's
    assert len(read) > 4
    assert read <= set(examination.VARIABLES)
