"""Mutants of the firmware's C++: one operator or number of a source, compiled and linked with all other objects.

It is a pytest plugin, too: with it the firmware's tests boot the mutant, and nothing is run on this computer beside it.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path

import pytest

from ethos_hil.suites.lab.measure.mutants.changes import CodeChange
from ethos_hil.suites.lab.measure.mutants.session import KILLED, SURVIVED, MutantFate

MUTANT = "ETHOS_HIL_MUTANT_FIRMWARE"
"""Environment variable: the folder with the mutant's ELF."""
_BOARD = "corstone300"
_TESTS = {
    "kernels/": ("test_kernels.py", "test_hostile.py"),
    "": ("test_features.py", "test_bundle.py", "test_prefixes.py", "test_kernels.py", "test_hostile.py"),
}
_OTHERS = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
           "&&": ("||",), "||": ("&&",), "+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("/",)}  # fmt: skip
# As clang-format writes them: an operator has spaces around it, the brackets of a template have none.
_TOKEN = re.compile(r"(?<= )(<=|>=|==|!=|&&|\|\||[-<>+*/%])(?= )|(?<![\w.])\d+(?![\w.])")
_NO_CODE = re.compile(r'//.*|^\s*#.*|static_assert.*|"(?:[^"\\]|\\.)*"', re.MULTILINE)


def draw(root: Path, files: Iterable[str], count: int, seed: int) -> list[CodeChange]:
    """Draw places of the sources, all alike, and for each a way to change it."""
    every = [place for file in sorted(files) for place in _places(root, file)]
    rng = random.Random(seed)
    return sorted(rng.choice(ways) for ways in rng.sample(every, min(count, len(every))))


def _places(root: Path, file: str) -> Iterator[list[CodeChange]]:
    source = (root / file).read_text()
    code = _NO_CODE.sub(lambda match: " " * len(match[0]), source)
    for match in _TOKEN.finditer(code):
        before, line = match[0], source.count("\n", 0, match.start()) + 1
        text = source.splitlines()[line - 1].strip()
        ways = (str(int(before) + 1), str(max(0, int(before) - 1))) if before.isdigit() else _OTHERS[before]
        yield [
            CodeChange(file, line, line, text, before, after, match.start(), way, True)
            for way, after in enumerate(ways)
            if after != before
        ]


def tried(root: Path, mutants: Sequence[CodeChange]) -> Iterator[MutantFate]:
    """Build each mutant and run the tests nearest to it. What the compiler refuses is killed."""
    for mutant in mutants:
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="ethos-hil-mutant-") as folder:
            tests = _nearest(root, mutant)
            by = _built(root, mutant, Path(folder)) or _failing(root, tests, folder)
        fate = MutantFate(mutant, KILLED if by else SURVIVED, by, len(tests), round(time.monotonic() - started, 1))
        os.write(2, f"{fate.fate}: {mutant}{f' ({by})' if by else ''}\n".encode())
        yield fate


def _nearest(root: Path, mutant: CodeChange) -> list[str]:
    patterns = next(patterns for part, patterns in _TESTS.items() if part in mutant.file)
    return [str(path) for pattern in patterns for path in sorted((root / "firmware/tests").glob(pattern))]


def _built(root: Path, mutant: CodeChange, folder: Path) -> str:
    """Put the mutant's ELF into a folder. Return why that is not possible, or ""."""
    sys.path.insert(0, str(root / "firmware/tests"))  # its helpers are not a package
    import_module("builds").build(_BOARD)
    saboteur = import_module("saboteur")
    source = (root / mutant.file).read_text()
    after = source[: mutant.node] + mutant.after + source[mutant.node + len(mutant.before) :]
    try:
        change = saboteur.Change(str(Path(mutant.file).relative_to("firmware")), source, after)
        elf = saboteur.sabotaged(_BOARD, change)
    except AssertionError:
        return "the compiler"
    (folder / "ethos-hil.elf").write_bytes(elf)
    return ""


def _failing(root: Path, tests: Sequence[str], folder: str) -> str:
    """Return the first test that fails with the ELF of a folder, or ""."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        *["-q", "-x", "-n", "0", "--tb=no", "-p", "no:cacheprovider", "-p"],
        __name__,
    ]
    command += ["-m", "not slow and not proof", *tests]
    done = subprocess.run(
        command, cwd=root, env={**os.environ, MUTANT: folder}, capture_output=True, text=True, check=False
    )
    failed = re.search(r"^(?:FAILED|ERROR) (.*)", done.stdout, re.MULTILINE)
    return failed[1] if failed else f"pytest ended with {done.returncode}" if done.returncode else ""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the fixtures of the firmware's tests take the mutant for the board's build, and leave out the host's."""
    if MUTANT not in os.environ:
        return
    for plugin in session.config.pluginmanager.get_plugins():
        if str(getattr(plugin, "__file__", "")).endswith("firmware/tests/conftest.py"):
            plugin.build = lambda preset: Path(os.environ[MUTANT])
            plugin.run_on_host = plugin.check_same_ending = lambda *_: None
