"""`ethos-hil doctor` finds this installation whole, and names what others lack."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from ethos_hil.base.testing.distribution import distribution
from ethos_hil.base.testing.processes import left_of
from ethos_hil.base.testing.recorded import WRITE, Recorded, plain
from ethos_hil.harness.doctor import examination
from ethos_hil.harness.doctor.examination import ask
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.testing.command import run_command
from ethos_hil.harness.tests.test_repository import HEAVY

ROOT = Path(__file__).resolve().parents[3]
NAMES = sorted(soc.name for soc in SOCS)
Findings = dict[str, dict[str, str]]


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ETHOS_HIL_") and name != WRITE]:
        monkeypatch.delenv(name)


def doctor(status: int = 0, **environment: str) -> Findings:
    """Return what it finds, by name."""
    done = run_command("doctor", "--json", environment=environment)
    assert (done.status, done.err) == (status, ""), done
    document = json.loads(done.out)
    assert (document["schema_version"], document["can_run"]) == (1, not status)
    return {finding["name"]: finding for finding in document["findings"]}


def doctor_after(code: str) -> Findings:
    """Return what it finds in a process of its own, in which `code` runs before it, and that says nothing else."""
    code += "; import sys; sys.argv = ['ethos-hil', 'doctor', '--json']"
    code += "; from ethos_hil.harness.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr in ("", "[]\n")
    return {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}


def executable(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_here_everything_is_there_and_each_thing_has_a_line() -> None:
    report = run_command("doctor")
    assert (report.status, report.err) == (0, "")
    lines = report.out.splitlines()
    assert all(line.split()[0] in ("ok", "note") for line in lines), report.out
    assert "\x1b" not in report.out, "no colour in a pipe"
    names = [re.split("  +", line[9:])[0] for line in lines]
    assert names == list(doctor())
    wanted = ["ethos-hil", "python", "torch", "executorch", "ethos-u-vela", "tosa-tools", "numpy", "other packages"]
    wanted += ["qemu", *(f"firmware of {soc}" for soc in NAMES), "cache", "cmake", "cc", "target virtual"]
    assert [name for name in wanted if names.count(name) != 1] == []


def test_it_imports_nothing_of_what_it_examines() -> None:
    watch = "import atexit, sys; atexit.register(lambda: print([m for m in %r if m in sys.modules], file=sys.stderr))"
    assert doctor_after(watch % ((*HEAVY, "capstone"),))["numpy"]["status"] == "ok"


def test_without_torch_executorch_and_numpy_it_names_them(tmp_path: Path) -> None:
    """The environment has only the packages of the command line, one of them in a wrong version."""
    here = Path(sysconfig.get_path("purelib"))
    names = "typer click rich pygments markdown mdurl platformdirs filelock packaging shellingham annotated_doc "
    names += "pyserial serial typing_ ethos_hil pydantic annotated_types"
    for path in here.iterdir():
        if path.name.lower().startswith(tuple(names.split())):
            (tmp_path / path.name).symlink_to(path)
    for name, version in (("pandas", "1.0"), ("rich", "99.0")):
        distribution(tmp_path, name, version=version)
    paths = [str(tmp_path), str(ROOT / "src")]
    findings = doctor_after(f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + {paths}")
    lock = examination.tested_versions(ROOT)
    for name in ("torch", "executorch", "numpy", "capstone"):
        assert (findings[name]["status"], findings[name]["found"]) == ("missing", "not installed")
        assert findings[name]["remedy"] == f"pip install --no-deps {name}=={lock[name]}"
    assert findings["pandas"]["status"] == "missing"
    assert findings["pandas"]["found"] == "1.0, but ethos-hil needs ~=3.0"
    assert "typer" not in findings


def test_a_version_that_will_do_and_is_not_the_tested_one_is_a_note(tmp_path: Path) -> None:
    distribution(tmp_path, "rich", version="99.0")
    other = doctor_after(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")["other packages"]
    assert (other["status"], other["found"].startswith("rich 99.0, tested with ")) == ("note", True)


def test_without_qemu_it_cannot_run_and_says_how_it_could(tmp_path: Path) -> None:
    report = run_command("doctor", environment={"PATH": str(tmp_path)})
    assert report.status == 3
    (line,) = (line for line in report.out.splitlines() if line.startswith("missing"))
    assert re.match(r"missing  qemu .*qemu-system-arm is not on PATH.*apt install qemu-system-arm", line)
    for name in ("arm-none-eabi-g++", "cmake", "ninja"):
        assert re.search(rf"^note +{re.escape(name)} +not found; needed only to build the firmware", report.out, re.M)
    assert re.search(r"^note +cc +not found; needed only to profile .*apt install gcc", report.out, re.M)
    assert re.search(
        r"^note +target corstone-320 .*FVP_Corstone_SSE-320 is not on PATH.*fvp-launchers", report.out, re.M
    )


def test_a_qemu_that_will_not_do(tmp_path: Path, recorded: Recorded) -> None:
    lines = []
    for number, text in enumerate((
        "echo QEMU emulator version 6.2.0", "echo QEMU emulator version 7.1.9",
        '[ "$1" = --version ] && echo QEMU emulator version 9.0.2 || echo virt  a board',
        "echo no such library; exit 127", "exit 0",
    )):  # fmt: skip
        path = executable(tmp_path / f"qemu{number}", text)
        lines.append(" | ".join(doctor(3, ETHOS_HIL_QEMU=str(path))["qemu"].values()))
    recorded.check(plain("\n".join(lines), [tmp_path]))


def test_without_firmware_it_cannot_run_and_says_how_it_could(tmp_path: Path, recorded: Recorded) -> None:
    (tmp_path / "text.elf").write_text("text")
    lines = []
    for place in (tmp_path, tmp_path / "text.elf"):
        findings = doctor(3, ETHOS_HIL_FIRMWARE=str(place))
        lines += [" | ".join(findings[f"firmware of {soc}"].values()) for soc in NAMES]
    recorded.check(plain("\n".join(lines), [tmp_path]))


def test_fvps_are_targets_once_they_are_found(tmp_path: Path) -> None:
    install(tmp_path)
    finding = doctor(ETHOS_HIL_FVP_PATH=str(tmp_path))["target corstone-320"]
    assert finding["status"] == "ok"
    assert finding["found"].endswith(": ethos-u85-128, -256, -512, -1024, -2048")


def test_a_program_that_does_not_answer_is_ended_with_all_it_started(tmp_path: Path) -> None:
    slow = executable(tmp_path / "slow", f"sleep 1000 & echo $! > {tmp_path}/child; echo started; wait")
    began = time.monotonic()
    assert ask([str(slow)], seconds=0.5) == "it did not answer in 0.5 s"
    assert time.monotonic() - began < 5
    assert left_of([int((tmp_path / "child").read_text())]) == []
    assert ask([str(tmp_path / "absent")]) == "it cannot be started: No such file or directory"


def test_a_cache_is_told_with_how_to_empty_it_and_one_that_cannot_be_used_stops_every_run(
    tmp_path: Path, recorded: Recorded
) -> None:
    states: list[tuple[int, dict[str, str]]] = [
        (3, {"ETHOS_HIL_CACHE": "/dev/null/cache"}),
        (3, {"ETHOS_HIL_CACHE_LIMIT": "plenty", "ETHOS_HIL_CACHE": str(tmp_path / "new")}),
        (0, {"ETHOS_HIL_CACHE_LIMIT": "2GB", "ETHOS_HIL_CACHE": str(tmp_path / "new")}),
    ]
    lines = [" | ".join(doctor(status, **environment)["cache"].values()) for status, environment in states]
    recorded.check(plain("\n".join(lines), [tmp_path]))
    assert not (tmp_path / "new").exists()
