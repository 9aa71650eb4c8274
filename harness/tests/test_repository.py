"""The repository keeps its own rules: direction of imports, late imports, modules that stand alone."""

from __future__ import annotations

import ast
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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


def test_every_module_imports_alone_without_warnings_and_all_but_models_without_torch() -> None:
    """What keeps --help, --collect-only and reports fast: torch and executorch cost seconds to import.

    A model is also what `suites.build` makes of a declaration.
    """

    def problem(path: Path) -> str | None:
        name = name_of(path)
        models = name.startswith("suites.models.") or name == "suites.build"
        check = "" if models else f"heavy = [m for m in {HEAVY!r} if m in sys.modules]; assert not heavy, heavy"
        command = [sys.executable, *(() if models else ("-W", "error")), "-c", f"import sys, {name}; {check}"]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
        return f"{name}: {result.stderr.strip().splitlines()[-1]}" if result.returncode else None

    with ThreadPoolExecutor(2) as pool:
        problems = [text for text in pool.map(problem, MODULES) if text]
    assert not problems, "\n".join(problems)


def test_no_file_has_outgrown_its_noun() -> None:
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in MODULES}
    assert not {name: size for name, size in sizes.items() if size > 400}
