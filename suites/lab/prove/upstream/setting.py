"""The environment of upstream's tests: FVPs on PATH, a runner below EXECUTORCH_ROOT, a folder to work in."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError
from ethos_hil.harness.socs.registry import MODELS

REPOSITORY = Path(__file__).resolve().parents[4]
PACKAGES = ("executorch", "torch", "ethos-u-vela", "tosa-tools", "pytest")
# The FVPs that upstream's tests start, and the board whose firmware each runs.
FVPS = {executable: model.soc.firmware.name for executable, model in MODELS.items()}
# Upstream's names of boards in runners' folders (_elf_path_candidates in runner_utils.py, 1.5.1). The last is
# that of its tests for a Cortex-M without an NPU (CortexMSerialize in backends/cortex_m/test/tester.py).
_RUNNERS = {
    "corstone-300": "corstone300",
    "corstone-300-u65": "corstone300",
    "corstone-320": "corstone320",
    "corstone-300_cortex-m55": "corstone300",
}
# Where else upstream looks for a runner, or writes; a user's own values must not decide what is tested.
_UNSET = ("EXECUTORCH_ROOT", "GITHUB_WORKSPACE", "BUILD_WORKSPACE_DIRECTORY", "TOSA_TESTCASES_BASE_PATH", "TEST_SEED")


@dataclass(frozen=True)
class Tree:
    """The tests of one of upstream's backends. They have a conftest of their own, so they need their own pytest."""

    rootdir: Path  # the identifiers of tests are relative to it
    tests: Path

    def own(self, items: Iterable[str]) -> list[str]:
        """Return those of some files or tests that are its own."""
        return [item for item in items if item.startswith("cortex_m/") == (self.rootdir != self.tests)]


def trees() -> tuple[Tree, ...]:
    """Return the tests of the Arm backend and of the Cortex-M backend."""
    arm, backends = tests_root(), tests_root().parents[1]
    return Tree(arm, arm), Tree(backends, backends / "cortex_m/test")


def tests_root() -> Path:
    """Return executorch/backends/arm/test of the installed wheel, without importing torch."""
    spec = importlib.util.find_spec("executorch")
    places = list(spec.submodule_search_locations or ()) if spec else []
    for place in places:
        root = Path(place) / "backends/arm/test"
        if root.is_dir():
            return root
    raise ToolError("executorch's Arm tests are not installed", hint="run make setup: its wheel brings them")


def firmware(board: str) -> Path:
    """Return the path of a board's firmware. Raise ToolError when it is not built."""
    path = REPOSITORY / "build/firmware" / board / "ethos-hil.elf"
    if not path.is_file():
        raise ToolError(f"no firmware for {board}: {path} does not exist", hint="run make firmware")
    return path


@dataclass(frozen=True)
class Setting:
    """A prepared folder: launchers in bin/, runners below root/, and work/ to run in."""

    folder: Path
    fvps: Path  # folder with the FVP executables
    build: str  # what stands for the tested code: equal for equal firmware, harness, FVP executables and packages

    @classmethod
    def prepare(cls, folder: Path, fvps: Path | None) -> Setting:
        """Prepare `folder`, with the FVP executables in `fvps`, or with our launchers when that is None."""
        folder.mkdir(parents=True, exist_ok=True)
        if fvps is None:
            fvps = folder / "bin"
            _run([_script("ethos-hil"), "fvp-launchers", str(fvps)], "cannot install the launchers")
        for name in FVPS:
            _run([str(fvps / name), "--version"], f"{name} in {fvps} does not work")
        for upstream, board in _RUNNERS.items():
            for variant in ("", "portable-ops_"):
                place = folder / "root/arm_test" / f"arm_semihosting_executor_runner_{variant}{upstream}"
                place.mkdir(parents=True, exist_ok=True)
                runner = place / "arm_executor_runner"
                runner.unlink(missing_ok=True)
                runner.symlink_to(firmware(board))
        (folder / "work").mkdir(exist_ok=True)
        return cls(folder, fvps, _build(fvps))

    def environment(self, jobs: int) -> dict[str, str]:
        """Return the variables for pytest: only the intended FVPs, and a share of the processors for each worker."""
        variables = {name: value for name, value in os.environ.items() if name not in _UNSET}
        others = [folder for folder in os.get_exec_path() if not any((Path(folder) / name).exists() for name in FVPS)]
        variables["EXECUTORCH_ROOT"] = str((self.folder / "root").resolve())
        variables["PATH"] = os.pathsep.join([str(self.fvps.resolve()), str(Path(sys.executable).parent), *others])
        variables["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // jobs))
        return variables


def _build(fvps: Path) -> str:
    """Return a digest of all that determines a result, except for the tests' own random seed: 12 hex digits."""
    boards = sorted(set(_RUNNERS.values()))
    return build_digest(
        ("src/ethos_hil/base", "harness"), (*(firmware(board) for board in boards), *(fvps / name for name in FVPS))
    )


def build_digest(folders: Sequence[str], files: Sequence[Path]) -> str:
    """Return 12 hex digits that stand for the packages, the Python files in folders of the repository, but for tests,
    and other files.
    """
    digest = hashlib.sha256(json.dumps({name: version(name) for name in PACKAGES}).encode())
    sources = [path for folder in folders for path in (REPOSITORY / folder).rglob("*.py") if "tests" not in path.parts]
    for path in (*sorted(sources), *files):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:12]


def _script(name: str) -> str:
    """Return the path of a command of this Python's environment."""
    path = Path(sys.executable).parent / name
    program = str(path) if path.exists() else shutil.which(name)
    if program is None:
        raise ToolError(f"{name} is not installed", hint="run make setup")
    return program


def _run(command: list[str], problem: str) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{problem}: {error}") from error
    if result.returncode:
        last = (result.stderr or result.stdout).strip().splitlines()[-1:]
        raise ToolError(f"{problem}: {' '.join(last) or f'exit status {result.returncode}'}")
