"""What set-up asks before it installs packages: whether Python, CMake and QEMU will do, and which torch there is."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ethos_hil.harness.doctor import suitable_python, suitable_tools, torch_build
from ethos_hil.harness.doctor.tests.test_doctor import executable
from ethos_hil.harness.scan.tests.small_wheels import only_from, wheel
from ethos_hil.harness.virtual.qemu import QEMU_REMEDY, QEMU_VARIABLE

HERE = sys.version_info[1]
FIRMWARE = Path(suitable_tools.__file__).resolve().parents[2] / "firmware"


@pytest.mark.parametrize("wanted", [f">=3.{HERE},<3.{HERE + 1}", f"Requires-Python: <3.{HERE + 2},>=3.{HERE - 1}"])
def test_this_python_will_do(wanted: str) -> None:
    assert suitable_python.unsuitable(wanted) == ""


@pytest.mark.parametrize(
    ("module", "name", "value", "said"),
    [
        (sys, "version_info", (3, 10, 13), "must be 3.11 to 3.13"),
        (sys, "version_info", (3, 14, 0), "must be 3.11 to 3.13"),
        (platform, "python_implementation", lambda: "PyPy", "is PyPy, and must be CPython"),
        (sys, "maxsize", 2**31 - 1, "is not a 64-bit program with glibc"),
        (sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get, "has no global lock"),
        (sysconfig, "get_config_var", {"HOST_GNU_TYPE": "x86_64-pc-linux-musl"}.get, "with glibc"),
    ],
)
def test_another_says_why_not(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, value: Any, said: str) -> None:
    if module is sys:  # which pytest itself reads
        module = suitable_python
        name, value = "sys", SimpleNamespace(**{"version_info": (3, 11), "maxsize": sys.maxsize, name: value})
    monkeypatch.setattr(module, name, value)
    assert said in suitable_python.unsuitable(">=3.11,<3.14")


def test_tools_that_are_too_old_are_named_with_what_is_needed_and_others_pass(tmp_path: Path) -> None:
    """Ubuntu 22.04's."""
    executable(tmp_path / "cmake", "echo cmake version 3.22.1; echo; echo CMake suite")
    executable(tmp_path / "old-qemu", "echo 'QEMU emulator version 6.2.0 (Debian 1:6.2+dfsg-2ubuntu6)'")
    script = [sys.executable, suitable_tools.__file__]
    ours = {"PATH": f"{tmp_path}", "ETHOS_HIL_QEMU": str(tmp_path / "old-qemu")}
    old = subprocess.run(script, env=ours, capture_output=True, text=True, check=False)
    assert (old.returncode, old.stdout) == (1, "")
    assert old.stderr.splitlines() == [
        "cmake is cmake version 3.22.1, and 3.23 or newer is needed: install one, and put it first in PATH",
        f"{tmp_path}/old-qemu is QEMU emulator version 6.2.0 (Debian 1:6.2+dfsg-2ubuntu6), and 7.2 or newer is needed: "
        "install one, and put it first in PATH, or its path in ETHOS_HIL_QEMU",
    ]
    subprocess.run(script, check=True)
    executable(tmp_path / "cmake", "echo cmake version 3.23.0-rc1")
    subprocess.run(script, env={"PATH": f"{tmp_path}"}, check=True)  # a missing QEMU, and no apt


@pytest.mark.parametrize(
    ("candidate", "said"),
    [("1:6.2+dfsg-2ubuntu6.31", "apt would install qemu-system-arm 1:6.2+dfsg-2ubuntu6.31, and 7.2 or newer is needed"),
     ("1:7.2+dfsg-7", ""), ("1:10.0.2+ds-2", ""), ("(none)", "")],
)  # fmt: skip
def test_of_a_tool_that_is_missing_apt_s_version_is_judged(tmp_path: Path, candidate: str, said: str) -> None:
    executable(tmp_path / "cmake", "echo cmake version 3.25.1")
    executable(tmp_path / "apt-cache", f"echo $2: ; echo '  Installed: (none)'; echo '  Candidate: {candidate}'")
    script = [sys.executable, suitable_tools.__file__]
    done = subprocess.run(script, env={"PATH": f"{tmp_path}"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.startswith(said), bool(done.stderr)) == (int(bool(said)), True, bool(said))


def test_the_oldest_cmake_is_that_of_the_firmware() -> None:
    least = json.loads((FIRMWARE / "CMakePresets.json").read_text())["cmakeMinimumRequired"]
    assert (least["major"], least["minor"]) == suitable_tools.OLDEST["cmake"]
    assert (
        "cmake_minimum_required(VERSION {major}.{minor})".format(**least) in (FIRMWARE / "CMakeLists.txt").read_text()
    )


def test_the_virtual_board_says_the_same_of_its_qemu() -> None:
    """Set-up's own words: it runs before anything of ours can be imported."""
    assert suitable_tools.VARIABLES == {"qemu-system-arm": QEMU_VARIABLE}
    assert f"QEMU {suitable_tools.oldest('qemu-system-arm')} " in QEMU_REMEDY


def test_a_torch_that_is_installed_and_one_that_is_held_by_a_hash_are_not_asked_for(tmp_path: Path) -> None:
    lock = tmp_path / "requirements-torch.lock"
    lock.write_text("# a comment: --hash\ntorch==2.13.0\n")
    assert torch_build.arguments(lock, any_build=False) == ["torch==2.13.0"]
    lock.write_text("torch==2.9.0 --hash=sha256:00\n")
    assert torch_build.arguments(lock, any_build=False) == ["-r", str(lock)]


def test_elsewhere_than_on_x86_64_the_usual_build_is_taken_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in only_from(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    lock = tmp_path / "requirements-torch.lock"
    lock.write_text("torch==1.0\n")
    with pytest.raises(LookupError, match=r"no torch 1\.0 for Python 3\.\d+ on aarch64: pip finds none"):
        torch_build.arguments(lock, any_build=False)
    wheel(tmp_path, "torch", "1.0")
    assert torch_build.arguments(lock, any_build=False) == ["torch==1.0"]
