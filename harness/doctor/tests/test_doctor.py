"""`ethos-hil doctor` finds this installation whole, and names what others lack."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from ethos_hil.base.testing.distribution import distribution
from ethos_hil.base.testing.processes import left_of
from ethos_hil.base.testing.recorded import WRITE, Recorded, plain
from ethos_hil.harness.doctor import examination
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.testing.command import run_command
from ethos_hil.harness.tests.test_repository import HEAVY

ROOT = Path(__file__).resolve().parents[3]
FIRMWARE = sorted(f"firmware of {soc.name}" for soc in SOCS)
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
    wanted += ["qemu", *FIRMWARE, "cache", "cmake", "cc", "target virtual"]
    assert [name for name in wanted if names.count(name) != 1] == []


def test_it_imports_nothing_of_what_it_examines() -> None:
    watch = "import atexit, sys; atexit.register(lambda: print([m for m in %r if m in sys.modules], file=sys.stderr))"
    assert doctor_after(watch % (HEAVY,))["numpy"]["status"] == "ok"


def test_a_python_that_the_package_does_not_want_is_missing(tmp_path: Path) -> None:
    distribution(tmp_path, "ethos_hil", version="9")
    with (tmp_path / "ethos_hil-9.dist-info/METADATA").open("a") as file:
        file.write("Requires-Python: >=3.7,<3.8\n")
    finding = doctor_after(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")["python"]
    assert (finding["status"], finding["found"].endswith(", and must be 3.7 to 3.7")) == ("missing", True)


def test_without_torch_executorch_and_numpy_it_names_them(tmp_path: Path) -> None:
    """The environment has only the packages of the command line, one of them in a wrong version."""
    here = Path(sysconfig.get_path("purelib"))
    names = "typer click rich pygments markdown mdurl platformdirs filelock packaging shellingham annotated_doc "
    names += "pyserial serial typing_ ethos_hil"
    for path in here.iterdir():
        if path.name.lower().startswith(tuple(names.split())):
            (tmp_path / path.name).symlink_to(path)
    for name, version in (("pandas", "1.0"), ("rich", "99.0")):
        distribution(tmp_path, name, version=version)
    paths = [str(tmp_path), str(ROOT / "src")]
    findings = doctor_after(f"import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p] + {paths}")
    lock = examination.tested_versions(ROOT)
    for name in ("torch", "executorch", "numpy", "pyelftools"):
        assert (findings[name]["status"], findings[name]["found"]) == ("missing", "not installed")
        assert findings[name]["remedy"] == f"pip install --no-deps {name}=={lock[name]}"
    assert findings["pandas"]["status"] == "missing"
    assert findings["pandas"]["found"] == "1.0, but ethos-hil needs ~=3.0"
    assert "typer" not in findings


def test_a_version_that_will_do_and_is_not_the_tested_one_is_a_note(tmp_path: Path) -> None:
    distribution(tmp_path, "rich", version="99.0")
    other = doctor_after(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")["other packages"]
    assert (other["status"], other["found"].startswith("rich 99.0, tested with ")) == ("note", True)


def test_without_qemu_it_cannot_run_and_says_how_it_could(tmp_path: Path, recorded: Recorded) -> None:
    report = run_command("doctor", environment={"PATH": str(tmp_path)})
    assert report.status == 3
    names = ("qemu", "arm-none-eabi-g++", "cmake", "ninja", "cc", "target corstone-320")
    lines = [line for line in report.out.splitlines() if line.startswith("missing") or line[9:].startswith(names)]
    recorded.check("\n".join(re.sub("  +", "  ", line) for line in lines))


def test_a_cmake_that_is_too_old_for_the_firmware_is_a_note(tmp_path: Path) -> None:
    executable(tmp_path / "cmake", "echo cmake version 3.22.1")
    found = doctor(0, PATH=f"{tmp_path}:{os.environ['PATH']}")["cmake"]
    assert (found["status"], found["remedy"]) == ("note", "install cmake 3.23 or newer")
    assert found["found"].endswith("/cmake); cmake 3.23 or newer is needed to build the firmware")


def test_what_does_not_answer_is_ended_and_so_is_all_that_a_program_started(tmp_path: Path) -> None:
    assert examination.ask(["sleep", "1000"], seconds=0.01) == "it did not answer in 0.01 s"
    leaves = executable(tmp_path / "leaves", "sleep 1000 >/dev/null 2>&1 & echo $!")
    assert left_of([int(examination.ask([str(leaves)])[0])]) == []


def test_what_will_not_do_is_said_with_what_would(tmp_path: Path, recorded: Recorded) -> None:
    """Without QEMU, firmware or a cache nothing can run; a cache that will do is told with how to empty it."""
    qemus = (
        "echo QEMU emulator version 6.2.0", "echo QEMU emulator version 7.1.9",
        '[ "$1" = --version ] && echo QEMU emulator version 9.0.2 || echo virt  a board',
        "echo no such library; exit 127", "exit 0",
    )  # fmt: skip
    (tmp_path / "text.elf").write_text("text")
    new = {"ETHOS_HIL_CACHE": str(tmp_path / "new")}
    paths = [executable(tmp_path / f"qemu{number}", text) for number, text in enumerate(qemus)]
    states: list[tuple[int, dict[str, str], list[str]]] = [
        *((3, {"ETHOS_HIL_QEMU": str(path)}, ["qemu"]) for path in paths),
        *((3, {"ETHOS_HIL_FIRMWARE": str(path)}, FIRMWARE) for path in (tmp_path, tmp_path / "text.elf")),
        (3, {"ETHOS_HIL_CACHE": "/dev/null/cache"}, ["cache"]),
        (3, {**new, "ETHOS_HIL_CACHE_LIMIT": "plenty"}, ["cache"]),
        (0, {**new, "ETHOS_HIL_CACHE_LIMIT": "2GB"}, ["cache"]),
    ]
    lines = []
    for status, environment, names in states:
        findings = doctor(status, **environment)
        lines += [" | ".join(findings[name].values()) for name in names]
    recorded.check(plain("\n".join(lines), [tmp_path]))
    assert not (tmp_path / "new").exists()
