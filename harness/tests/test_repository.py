"""The repository keeps its own rules: direction of imports, late imports, modules that stand alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("harness", "lowering", "results", "suites")
MODULES = sorted(
    path
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if "tests" not in path.relative_to(ROOT).parts
)
# What each package may import of the others. Data flows one way: suites -> lowering -> harness -> results.
ALLOWED = {
    "lowering": {"lowering"},
    "results": {"results"},
    "harness": {"harness", "lowering", "results"},
    "suites": set(PACKAGES),
}
HEAVY = ("torch", "executorch", "torchao", "ethosu.vela", "pandas", "sklearn")


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(path: Path) -> set[str]:
    """Top-level packages that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_follow_the_flow_of_data(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    wrong = (imported(path) & set(PACKAGES)) - ALLOWED[package]
    assert not wrong, f"{package} must not import {', '.join(sorted(wrong))}"
    if package == "results":
        assert not imported(path) & {"torch", "executorch", "serial"}


def problems(names: list[str], *options: str, preloaded: str, absent: tuple[str, ...] = ()) -> str:
    """A line for each module that cannot be imported with no other of the repository's, or imports one of `absent`."""
    command = [sys.executable, *options, str(Path(__file__).with_name("alone.py"))]
    command += [preloaded, ",".join(names), ",".join(absent)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=250
    )
    return done.stdout + (done.stderr if done.returncode else "")


MODELS = [name for name in map(name_of, MODULES) if name.startswith("suites.models.") or name == "suites.build"]
"""A model is also what `suites.build` makes of a declaration."""


def test_every_module_imports_alone_without_warnings_and_all_but_models_without_torch() -> None:
    """What keeps --help, --collect-only and reports fast: torch and executorch cost seconds to import."""
    names = [name for name in map(name_of, MODULES) if name not in MODELS]
    assert len(names) > 200
    assert problems(names, "-W", "error", preloaded="numpy,pytest,rich,typer", absent=HEAVY) == ""


def test_every_model_imports_alone() -> None:
    assert problems(MODELS, preloaded="torch") == ""


def test_what_cannot_be_imported_or_imports_too_much_is_seen() -> None:
    """Each for itself: what one imports is not there for the next."""
    names = ["antigravity_lacks", "decimal", "fractions", "imp"]
    found = problems(names, "-W", "error", preloaded="numpy", absent=("decimal", "fractions")).splitlines()
    assert [line.split()[0] for line in found] == ["antigravity_lacks:", "decimal", "fractions", "imp:"]
    assert "ModuleNotFoundError" in found[0]
    assert "imports decimal" in found[1]
    assert "DeprecationWarning" in found[3]


def test_no_file_has_outgrown_its_noun() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert not {name: size for name, size in sizes.items() if size > 400}
