"""`make setup`: killed at any moment and run again, without a network, with a wrong file, in another user's checkout.

The small tests run the Makefile's own recipes with locks of three small packages, made here.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ethos_hil.harness.scan.tests.small_wheels import wheel

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted(ROOT.glob("requirements*.lock"))
LIB = f"lib/python3.{sys.version_info[1]}"
SITE = Path(".venv") / LIB / "site-packages"
FROM_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
"""What `make test` hands on to the tests: a make among them would say which folder it enters."""
QUIET = {
    **{name: value for name, value in os.environ.items() if name not in FROM_MAKE},
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_NO_INDEX": "1",
    "PIP_NO_COMPILE": "1",
}
PIN = re.compile(
    r"(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[^\s\\]+)(?P<hashes>(?: \\\n    --hash=sha256:[0-9a-f]{64})*)\n"
)
RANGE = 'requires-python = ">=3.11,<3.14"'
SETUP = ["make", f"PYTHON={sys.executable}", "setup"]
set_up = pytest.mark.environment(contents=["firmware/CMake*", "firmware/cmake/*", "setup.py"])


def pins(lock: Path) -> dict[str, re.Match[str]]:
    """The pins of a lock by their normalised names; every line must be part of one, or a comment."""
    text = re.sub(r"^#.*\n", "", lock.read_text("utf-8"), flags=re.MULTILINE)
    matches = {str(canonicalize_name(match["name"])): match for match in PIN.finditer(text)}
    assert "".join(match[0] for match in matches.values()) == text, f"{lock.name} has lines that are no pins"
    return matches


def test_every_pin_but_torchs_has_hashes() -> None:
    parts = [path.name.removeprefix("requirements").removesuffix(".lock") for path in LOCKS]
    assert parts == ["-build", "-merge", "-run", "-torch", ""]
    without = {name for lock in LOCKS for name, pin in pins(lock).items() if not pin["hashes"]}
    assert without == {"torch"}


def test_a_line_without_a_pin_is_found(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text((ROOT / "requirements.lock").read_text("utf-8") + "# Editable Git install with no remote\n-e .\n")
    with pytest.raises(AssertionError, match="has lines that are no pins"):
        pins(lock)


def test_the_locks_hold_all_that_pyproject_asks_for() -> None:
    """A lock that was cut off, or written by hand, lacks something."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *(line for some in project["optional-dependencies"].values() for line in some)]
    locks = (*LOCKS, ROOT / "suites/lab/prove/zoo/requirements.lock")  # the extra `zoo` has a folder of its own
    locked = {name: pin["version"] for lock in locks for name, pin in pins(lock).items()}
    for requirement in map(Requirement, wanted):
        if requirement.name != "ethos-hil":
            assert requirement.specifier.contains(locked[canonicalize_name(requirement.name)]), requirement


def test_the_document_names_all_debian_packages() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    listed = re.search(r"^PACKAGES := ((?:.*\\\n)*.*)", makefile, re.MULTILINE)
    assert listed is not None
    missing = set(listed[1].replace("\\\n", "").split()) - set((ROOT / "docs/install.md").read_text("utf-8").split())
    assert not missing


def pin(path: Path) -> str:
    """The line of a lock for a wheel."""
    name, version = path.name.split("-")[:2]
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def setuptools_wheel(folder: Path) -> Path:
    """Write the installed setuptools as a wheel."""
    distribution = metadata.distribution("setuptools")
    path = folder / f"setuptools-{distribution.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in distribution.files or ():
            if ".." not in file.parts and file.suffix != ".pyc" and file.name not in ("INSTALLER", "REQUESTED"):
                archive.write(str(distribution.locate_file(file)), str(file))
    return path


@set_up
@pytest.mark.parametrize("name", [*'$";#\\=:', "(&,'%+", "a b", "é"])
def test_a_path_that_a_tool_cannot_have_is_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / f"x{name}y"
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    done = subprocess.run(["make", "help"], cwd=folder, env=QUIET, capture_output=True, text=True, timeout=20)
    if len(name) == 1 and name.isascii():
        assert f"the path of this checkout has {name} in it" in done.stderr
        assert done.returncode == 2
    else:
        assert done.returncode == 0, done.stderr


@set_up
def test_variables_of_other_work_reach_neither_the_firmware_nor_the_packages() -> None:
    names = "CC CXX CFLAGS CXXFLAGS LDFLAGS CPATH LIBRARY_PATH PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX PIP_USER"
    done = subprocess.run(
        ["make", "--eval", "show: ; @env", "show"], cwd=ROOT, env=QUIET | dict.fromkeys(names.split(), "-nonsense"),
        capture_output=True, text=True, timeout=20, check=True,
    )  # fmt: skip
    assert "-nonsense" not in done.stdout


BROKEN = "echo 'main.cc:1:1: error: expected'; exit 1"
HALF = {"dpkg-query": "echo unpacked cmake", "dpkg": "echo dpkg $* >&2", "apt-get": "exit 1", "sudo": '"$@"'}


@set_up
@pytest.mark.parametrize(
    ("goal", "programs", "said"),
    [
        ("build/firmware/a/ethos-hil.elf", {"cmake": BROKEN}, "the firmware of a\nmain.cc:1:1: error: expected\n"),
        ("build/.apt", HALF, "missing: cmake)\ndpkg --configure -a\nCould not install them. As root: apt-get install"),
    ],
    ids=["an error of the compiler", "what a killed apt left half installed"],
)
def test_what_other_programs_say_is_told(tmp_path: Path, goal: str, programs: dict[str, str], said: str) -> None:
    """The compiler's errors are in ninja's stdout; what is half installed is installed to the end, first."""
    (tmp_path / "firmware").mkdir()
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    shutil.copytree(ROOT / "harness/doctor", tmp_path / "harness/doctor")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / ".venv/.torch").touch()
    installed = [word for name in ("build/.apt", ".venv/.installed") if name != goal for word in ("-o", name)]
    env = {**QUIET, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([*SETUP[:2], *installed, goal], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A checkout without firmware, whose locks hold setuptools and two small packages that lie beside it."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    root = tmp_path / "checkout"
    (root / "src/ethos_hil").mkdir(parents=True)
    (root / "src/ethos_hil/__init__.py").write_text("")
    shutil.copy(ROOT / "Makefile", root)
    shutil.copytree(ROOT / "harness/doctor", root / "harness/doctor")
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        f'[project]\nname = "ethos-hil"\nversion = "1"\n{RANGE}\n[tool.setuptools.packages.find]\nwhere = ["src"]\n'
    )
    many = wheel(wheels, "many", "1.0", more={f"many/data{number}.txt": "data" for number in range(600)})
    (root / "requirements-build.lock").write_text(pin(setuptools_wheel(wheels)))
    (root / "requirements.lock").write_text(pin(many))
    (root / "requirements-torch.lock").write_text("torch==1.0\n")
    wheel(wheels, "torch", "1.0+cpu")
    return root


def environment(root: Path) -> dict[str, str]:
    return {**QUIET, "PIP_FIND_LINKS": str(root.parent / "wheels")}


def set_up_there(root: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run make to its end."""
    env = environment(root) | more
    return subprocess.run(command or SETUP, cwd=root, env=env, capture_output=True, text=True, timeout=1500)


def kill(root: Path, came: Callable[[], bool]) -> None:
    """Start make and end all its processes with SIGKILL at a moment, which must come before make ends."""
    started = subprocess.Popen(SETUP, cwd=root, env=environment(root), start_new_session=True, stderr=subprocess.PIPE)
    while not came():
        assert started.poll() is None, f"the moment never came: {started.communicate()}"
        time.sleep(0.005)
    os.killpg(started.pid, signal.SIGKILL)
    started.communicate()
    assert started.returncode == -signal.SIGKILL


def whole(root: Path) -> bool:
    return len(list((root / SITE / "many").glob("data*.txt"))) == 600 and (root / SITE / "torch.py").is_file()


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("half", ["bin/python", f"{LIB}/site-packages/many/data0.txt"])
def test_an_environment_that_was_not_finished_is_made_anew(small: Path, half: str) -> None:
    kill(small, (small / ".venv" / half).exists)
    assert not whole(small)
    done = set_up_there(small)
    assert done.returncode == 0, done.stderr
    assert whole(small)
    assert done.stdout + done.stderr == "Setting up .venv (torch, executorch, Vela, tosa-tools ...)\n"
    assert "Nothing to be done" in set_up_there(small).stdout


@set_up
@pytest.mark.slow
def test_a_file_with_another_hash_is_refused(small: Path) -> None:
    lock = small / "requirements.lock"
    right = lock.read_text()
    digest = re.findall(r"sha256:(\w+)", right)[0]
    lock.write_text(right.replace(digest, digest[:-1] + ("0" if digest[-1] != "0" else "1")))
    done = set_up_there(small)
    assert done.returncode == 2
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in done.stderr
    assert not (small / SITE / "many").exists()


@set_up
def test_the_first_python_that_will_do_is_taken_and_where_none_does_nothing_is_installed(small: Path) -> None:
    """The first has the name of the second, as a shim of pyenv does, and does not run."""
    minor = sys.version_info[1]
    programs = small / "bin"
    programs.mkdir()
    (programs / "python3").write_text("#!/bin/sh\nexit 127\n")
    (programs / f"python3.{minor}").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (programs / "apt-get").write_text("#!/bin/sh\nexit 1\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    assert RANGE in (ROOT / "pyproject.toml").read_text()
    told = set_up_there(ROOT, "make", "--eval", "show: ; @echo $(PYTHON)", "show").stdout
    assert told == "python3 python3.13 python3.12 python3.11\n"

    project = small / "pyproject.toml"
    right = project.read_text()
    project.write_text(right.replace(RANGE, 'requires-python = ">=3.7,<3.8"'))
    for command, said in (
        (SETUP, f"No Python for .venv among {sys.executable}: {sys.executable} is Python 3.{minor}."),
        (["make", "setup"], "No Python for .venv among python3 python3.7: python3 does not run; "),
    ):
        done = set_up_there(small, *command, PATH=path)
        assert (done.returncode, done.stderr.startswith(said)) == (2, True), done.stderr
        assert "; install one that will do (apt-get install python3.7-venv), or name it: make setup" in done.stderr
        assert not (small / ".venv").exists()

    project.write_text(right.replace(RANGE, f'requires-python = ">=3.{minor},<3.{minor + 1}"'))
    done = set_up_there(small, "make", "build/.apt", PATH=path)
    assert done.returncode == 0, done.stderr
    assert f"\nversion = 3.{minor}." in (small / ".venv/pyvenv.cfg").read_text()
    # A finished environment whose Python will not do any more is made anew, if there is one that will.
    for name in (".begun", ".installed"):
        (small / ".venv" / name).touch()
    project.write_text(right.replace(RANGE, 'requires-python = ">=3.7,<3.8"'))
    assert "No Python for .venv among " in set_up_there(small).stderr


@set_up
@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere the usual torch is for the CPU")
def test_without_a_torch_for_the_cpu_nothing_is_installed_but_where_any_will_do(small: Path) -> None:
    next((small.parent / "wheels").glob("torch-*")).unlink()
    wheel(small.parent / "wheels", "torch", "1.0")
    done = set_up_there(small)
    assert done.returncode == 2
    assert done.stderr.startswith(f"There is no torch 1.0+cpu for Python 3.{sys.version_info[1]} on x86_64: ")
    assert "take any build by TORCH=any" in done.stderr
    assert {path.name.partition("-")[0] for path in (small / SITE).glob("*.dist-info")} <= {"pip", "setuptools"}
    done = set_up_there(small, *SETUP[:2], "build/.apt", "TORCH=any")
    assert (done.returncode, (small / ".venv/.torch").read_text()) == (0, "torch==1.0\n"), done.stderr


@set_up
def test_a_link_in_place_of_the_environment_is_never_emptied(small: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").touch()
    (small / ".venv").symlink_to(other)
    done = set_up_there(small)
    assert done.returncode == 2
    assert f".venv is a link to {other}, which make setup did not finish; remove the link" in done.stderr
    assert (other / "precious").exists()


@set_up
@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be another user")
def test_another_users_checkout_that_is_not_set_up_says_so() -> None:
    with tempfile.TemporaryDirectory(prefix="ethos-hil-foreign-") as name:
        root = Path(name)
        root.chmod(0o755)  # another user can read it, not write
        shutil.copy(ROOT / "Makefile", root)
        (root / "Makefile").chmod(0o644)
        for file in ("requirements-build.lock", "requirements.lock", "requirements-torch.lock", "pyproject.toml"):
            (root / file).touch()
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]  # nobody (Debian policy, 9.2.2)
        done = subprocess.run([*other, "make", "setup"], cwd=root, capture_output=True, text=True, timeout=100)
    assert done.returncode == 2
    expected = f"the system is not set up, and nobody cannot write to {root}; let its owner run `make setup`"
    assert done.stderr.startswith(expected)
