"""The table of docs/testing.md: how many test functions a room has in which tier, and how many of them are guards."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from ethos_hil.suites.lab.shared import markdown_table

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {
    "base": "src/ethos_hil/base",
    "results": "results",
    "lowering": "lowering",
    "harness": "harness",
    "firmware": "firmware",
    "suites": "suites",
    "laboratory": "suites/lab",
    "labgrid": "extra/labgrid",
    "documents": "docs/tests",
}
GUARD = re.compile(r"_(is|are)_(seen|noticed|found)$|_red$")
"""How a test is called that breaks something and expects that it is noticed. There are more, with other names."""
TIERS = ("make test", "environment", "proof", "lab")


def tier(path: Path, markers: Iterable[str]) -> str:
    """The tier of a test. The environment's are a part of `make test`, when what they read has changed."""
    if "proof" in markers:
        return "proof"
    if "lab" in path.relative_to(ROOT).parts and "product" not in markers:
        return "lab"
    return "environment" if "environment" in markers else "make test"


def functions(path: Path) -> Iterator[tuple[str, str]]:
    """The name of each test function of a file, and its tier."""
    tree = ast.parse(path.read_text("utf-8"))
    names = {node.targets[0].id: node.value for node in tree.body if _assigns_a_name(node)}
    everywhere = set(_markers([names["pytestmark"]], names)) if "pytestmark" in names else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name, tier(path, everywhere | set(_markers(node.decorator_list, names)))


def _assigns_a_name(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)


def _markers(expressions: Iterable[ast.expr], names: dict[str, ast.expr]) -> Iterator[str]:
    """The markers in decorators, also in those that have a name. A marker of single cases is not one of the test."""
    for expression in expressions:
        if isinstance(expression, ast.List):
            yield from _markers(expression.elts, names)
        elif isinstance(expression, ast.Name) and expression.id in names:
            yield from _markers([names[expression.id]], {})
        else:
            called = expression.func if isinstance(expression, ast.Call) else expression
            if ast.unparse(called).startswith("pytest.mark."):
                yield ast.unparse(called).removeprefix("pytest.mark.")


def files(room: str) -> list[Path]:
    """The files of tests of a room; the laboratory's are not the suites'."""
    paths = sorted((ROOT / ROOMS[room]).rglob("test_*.py"))
    return [path for path in paths if room == "laboratory" or not path.is_relative_to(ROOT / ROOMS["laboratory"])]


def markdown() -> str:
    """The table, with a row for each room and one for all."""
    rows, total = [], Counter[str]()
    for room in ROOMS:
        counts = Counter[str]()
        for path in files(room):
            for name, where in functions(path):
                counts[where] += 1
                counts["guards"] += bool(GUARD.search(name))
        total += counts
        rows.append([room, *(f"{counts[column]:,}" for column in (*TIERS, "guards"))])
    rows.append(["all", *(f"{total[column]:,}" for column in (*TIERS, "guards"))])
    head = ("room", *TIERS, "guards")
    return markdown_table(head, rows, right=head[1:])
