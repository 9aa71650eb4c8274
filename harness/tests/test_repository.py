"""The repository keeps its own rules: direction of imports, no circles, late imports, modules that stand alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src/ethos_hil"
ROOMS = ("base", "harness", "lowering", "results", "suites")
EXTRAS = {"ethos_hil_labgrid": ROOT / "extra/labgrid/src"}
"""Packages of distributions of their own, by name, and where they are imported from."""
FILES = {path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")}
MODULES = sorted(
    path
    for path in (*FILES, *(path for name, root in EXTRAS.items() for path in (root / name).rglob("*.py")))
    if not {"tests", "testing"} & set(path.relative_to(ROOT).parts)
)
# What each room may import: itself, and those below it.
ALLOWED = {
    "base": {"base"},
    "results": {"base", "results"},
    "lowering": {"base", "results", "lowering"},
    "harness": {"base", "results", "lowering", "harness"},
    "suites": set(ROOMS),
    **{name: {"base", "harness", name} for name in EXTRAS},
}
LABORATORY = ("ethos_hil.suites.lab", *(f"ethos_hil.{room}.testing" for room in ("base", "lowering", "harness")))
LIGHT = ("base", "results")
"""Rooms that need neither a model nor a board."""
HEAVY = ("torch", "executorch", "torchao", "ethosu.vela", "pandas", "sklearn")


def name_of(path: Path) -> str:
    (root,) = (root for root in (ROOT / "src", *EXTRAS.values()) if path.is_relative_to(root))
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


NAMES = {name_of(path): path for path in MODULES}
PACKAGES = {name for name, path in NAMES.items() if path.name == "__init__.py"}
tree_of = cache(lambda path: ast.parse(path.read_text()))


@cache
def imported(path: Path) -> frozenset[str]:
    """All that a file imports, anywhere in it; of this repository the modules, of others what the statement names."""
    names = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.add(full if full in NAMES else node.module)
    return frozenset(names)


def room(name: str) -> str:
    return [*name.split("."), ""][1] if name.startswith("ethos_hil.") else name.split(".")[0]


def foreign_imports(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a line for each import of what a module's room must not import."""
    return [
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in sorted(others)
        if (room(other) in ALLOWED and room(other) not in ALLOWED[room(name)])
        or (room(name) in LIGHT and room(other) in ("torch", "executorch", "serial"))
    ]


def test_imports_follow_the_flow_of_data_and_one_against_it_is_found(recorded: Recorded) -> None:
    assert len(NAMES) > 450
    assert foreign_imports({name: imported(path) for name, path in NAMES.items()}) == []
    recorded.check(foreign_imports({
        "ethos_hil.base.record": ["ethos_hil.base.verdict", "json", "ethos_hil.results.store"],
        "ethos_hil.results.store": ["ethos_hil.base.record", "json", "ethos_hil.harness.api", "torch.nn"],
        "ethos_hil.lowering.lower": ["torch", "ethos_hil.base.files", "ethos_hil.suites"],
        "ethos_hil.harness": ["ethos_hil.lowering.lower", "ethos_hil_labgrid.place"],
        "ethos_hil_labgrid.place": ["ethos_hil.base.errors", "ethos_hil.harness.boards", "ethos_hil.suites.lab"],
    }))  # fmt: skip


def importing(files: Iterable[Path], *banned: str) -> list[str]:
    """Return a line for each import of a banned module, or of one in a banned package."""
    beginnings = tuple(f"{name}." for name in banned)
    return [f"{file} imports {name}" for file in files for name in imported(file) if f"{name}.".startswith(beginnings)]


def test_neither_the_product_nor_a_unit_test_needs_the_laboratory() -> None:
    """It is not in the wheel. What unit tests share with it is in the folders called testing."""
    assert not importing((path for name, path in NAMES.items() if not name.startswith(LABORATORY)), *LABORATORY)
    outside = {path for path in FILES if "lab" not in path.relative_to(PACKAGE).parts}
    assert not importing(outside, LABORATORY[0])
    assert importing(FILES - outside, LABORATORY[0]), "the laboratory itself is seen"


def test_nothing_is_imported_by_a_folders_name() -> None:
    """pytest puts the repository on the path, where `harness` would be a second copy of `ethos_hil.harness`."""
    assert not importing([*FILES, ROOT / "conftest.py"], *ROOMS, "firmware")


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return nodes of which each leads to the next, and the last is the first; none if there are no such."""
    try:
        TopologicalSorter({node: set(others) - {node} for node, others in graph.items()}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def folder_of(name: str) -> str:
    """The node of a module in the graph of folders: its folder. A file directly in a room, or in the folder of the NPU
    or of the laboratory, is a node of its own: errors are below all, what runs the whole is above."""
    if name in PACKAGES:
        return name
    parent = name.rpartition(".")[0]
    return name if parent.count(".") == 1 or parent in ("ethos_hil.harness.npu", "ethos_hil.suites.lab") else parent


def test_neither_files_nor_folders_import_one_another_in_a_circle_and_one_is_found() -> None:
    """Late imports and those for types count too: a circle that is hidden in a function is one."""
    files = {name: imported(path) & set(NAMES) for name, path in NAMES.items()}
    folders: dict[str, set[str]] = {}
    for name, others in files.items():
        folders.setdefault(folder_of(name), set()).update(map(folder_of, others))
    assert (circle(files), circle(folders)) == ([], [])
    assert set(circle({"a": ["a", "b"], "b": ["c"], "c": ["d"], "d": ["b"], "e": ["a"]})) == {"b", "c", "d"}


def problems(names: list[str], *options: str, preloaded: str, absent: tuple[str, ...] = ()) -> str:
    """A line for each module that cannot be imported with no other of the repository's, or imports one of `absent`."""
    command = [sys.executable, *options, str(Path(__file__).with_name("alone.py"))]
    command += [preloaded, ",".join(names), ",".join(absent)]
    paths = os.pathsep.join(map(str, (ROOT / "src", *EXTRAS.values())))
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, timeout=250)
    return done.stdout + (done.stderr if done.returncode else "")


MODELS = [name for name in NAMES if name.startswith("ethos_hil.suites.models.")]
MODELS += ["ethos_hil.suites.trial.build", "ethos_hil.harness.declared.modules"]
MODELS += [f"ethos_hil.suites.lab.prove.random_models.{name}" for name in ("layers", "networks")]
MODELS += ["ethos_hil.suites.lab.prove.cmsis_nn.library"]
"""A model is also what `suites.trial.build` and `harness.declared` make of a declaration, and what is drawn."""


@pytest.mark.slow
@pytest.mark.parametrize("one_in", [24, pytest.param(1, marks=pytest.mark.proof)])
def test_modules_import_alone_without_warnings_and_all_but_models_without_torch(one_in: int) -> None:
    """What keeps --help, --collect-only and reports fast: torch and executorch cost seconds to import."""
    names = [name for name in NAMES if name not in MODELS]
    assert len(names) > 200
    names = names[::one_in]
    assert problems(names, "-W", "error", preloaded="numpy,pytest,rich,typer", absent=HEAVY) == ""


def test_every_model_imports_alone() -> None:
    assert problems(MODELS, preloaded="torch") == ""


def test_what_cannot_be_imported_or_imports_too_much_is_seen() -> None:
    """Each for itself: what one imports is not there for the next."""
    names = ["antigravity_lacks", "decimal", "fractions", "sre_compile"]
    lines = problems(names, "-W", "error", preloaded="numpy", absent=("decimal", "fractions")).splitlines()
    assert [line.split()[0] for line in lines] == ["antigravity_lacks:", "decimal", "fractions", "sre_compile:"]
    assert "ModuleNotFoundError" in lines[0]
    assert "imports decimal" in lines[1]
    assert "DeprecationWarning" in lines[3]


def test_no_two_classes_have_one_name() -> None:
    """A name means one thing: who reads it need not look where it was imported from."""
    homes: dict[str, list[str]] = {}
    for name, path in NAMES.items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(name)
    assert not {name: where for name, where in homes.items() if len(where) > 1}


FACES = {"ethos_hil.harness": {"api", "exporting", "run"}, "ethos_hil.lowering": {"artifact", "lower"}}
"""What is at the root of a room: where one looks first. All else is in a folder (docs/decisions/0033)."""


def loose_files(names: Iterable[str]) -> list[str]:
    parts = [name.rpartition(".") for name in names if name not in PACKAGES]
    return [f"{room}.{file}" for room, _, file in parts if file not in FACES.get(room, {file})]


def test_rooms_have_no_loose_files() -> None:
    assert loose_files(NAMES) == []
    assert loose_files(["ethos_hil.harness.clock", "ethos_hil.harness.api", "ethos_hil.base.clock"]) == [
        "ethos_hil.harness.clock"
    ]


LONGEST_FUNCTION = 80
"""Lines, its docstring apart: more does not fit a screen, and is more than one thing."""
LARGEST_MODULE = 600
"""Lines. A module is as long as its noun needs; beyond this it has two."""
LIST_OF_PROGRAMS = "ethos_hil.suites.lab.damage.seed_programs: seeds"
"""One statement, which may be as long as it is."""


def test_functions_fit_a_screen_and_modules_are_about_one_thing() -> None:
    wrong: dict[str, int] = {}
    for name, path in NAMES.items():
        text = path.read_text()
        sizes = {name: text.count("\n")} if text.count("\n") > LARGEST_MODULE else {}
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                whole, first = ((part.end_lineno or 0) - part.lineno + 1 for part in (node, node.body[0]))
                lines = whole - (first if ast.get_docstring(node) is not None else 0)
                sizes |= {f"{name}: {node.name}": lines} if lines > LONGEST_FUNCTION else {}
        wrong |= sizes
    assert wrong.keys() == {LIST_OF_PROGRAMS}


JUDGE = "ethos_hil.base.judge"
"""Makes every record, and chooses every verdict."""


def annotated(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node).removesuffix(" | None").strip("'\"")


@cache
def trees() -> Mapping[str, ast.Module]:
    """Each module of the product, parsed: not while tests are collected, which every worker does."""
    return {name: tree_of(path) for name, path in NAMES.items() if not name.startswith(LABORATORY[0])}


@cache
def return_records() -> set[str]:
    """The names of functions that return a record, all that have this name."""
    functions = [node for tree in trees().values() for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    others = {node.name for node in functions if annotated(node.returns) != "Record"}
    return {node.name for node in functions} - others


def is_record(node: ast.expr, names: set[str]) -> bool:
    """Whether an expression is a record, by its name, the function that returns it, or the attribute that it is."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Call):
        called = ast.unparse(node.func)
        return called == "Record.from_json" or called.rpartition(".")[2] in return_records()
    return isinstance(node, ast.Attribute) and node.attr == "record"


def records_of(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that stand for records in a module: parameters, variables, and what loops over records gives."""
    names = {"record"}
    for node in nodes:
        if isinstance(node, ast.arg | ast.AnnAssign) and annotated(node.annotation) == "Record":
            names.add(node.arg if isinstance(node, ast.arg) else ast.unparse(node.target))
        elif isinstance(node, ast.Assign) and is_record(node.value, names):
            names |= {ast.unparse(target) for target in node.targets}
        elif isinstance(node, ast.comprehension | ast.For) and ast.unparse(node.iter).endswith("records"):
            names.add(ast.unparse(node.target))
    return names


def beside_the_judge(tree: ast.AST) -> list[str]:
    """What makes a record or amends one, and what chooses a verdict, as it is written."""
    nodes = list(ast.walk(tree))
    names = records_of(nodes)
    parents: dict[ast.AST, ast.AST] = {}

    def only_looked_at(node: ast.AST) -> bool:
        """Whether a verdict is compared with, or looked up by; also by a constant that it is in."""
        if not parents:
            parents.update({child: node for node in nodes for child in ast.iter_child_nodes(node)})
        parent = parents[node]
        if isinstance(parent, ast.Dict):
            return node in parent.keys
        if isinstance(parent, ast.Tuple | ast.Set | ast.Starred):
            return only_looked_at(parent)
        constant = isinstance(parent, ast.Assign) and isinstance(parents[parent], ast.Module)
        return constant or isinstance(parent, ast.Compare | ast.Subscript)

    def makes_or_amends(call: ast.Call) -> bool:
        called = getattr(call.func, "attr", "") or getattr(call.func, "id", "")
        changes = called in ("replace", "__setattr__", "setattr") and bool(call.args)
        return called in ("Record", "Decision") or (changes and is_record(call.args[0], names))

    return [
        ast.unparse(node)
        for node in nodes
        if (isinstance(node, ast.Call) and makes_or_amends(node))
        or (isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "Verdict" and not only_looked_at(node))
    ]


def test_one_function_makes_records_and_one_chooses_verdicts() -> None:
    """docs/decisions/0034-one-judge.md."""
    places = {name: where for name, tree in trees().items() if (where := beside_the_judge(tree))}
    assert places.keys() == {JUDGE}, "the judge itself is seen"


SABOTAGES = [
    "made = Record(Verdict('failed'), model='m', npu='', target=target)",
    "findings = Findings(facts, Evidence()), Decision(verdict)",
    "def of(record: Record, note: str): return replace(record, notes=(note,))",
    "def of(kept: Record | None): return dataclasses.replace(kept, text='')",
    "def run(report): return replace(report, record=dataclasses.replace(report.record, metrics=()))",
    "made = refused(point, grid, error).record\nlater = replace(made, created='')",
    "later = replace(Record.from_json(data), run=None)",
    "later = replace(kept_record(path), npu='')",
    "all = [replace(each, test=None) for each in results.records]",
    "object.__setattr__(record, 'failure', None)",
    "version = CompiledVersion('5.1', answer=Verdict.VERIFIED)",
    "def verdict(wrong): return Verdict.FAILED if wrong else other",
    "verdict = Verdict.SKIPPED if impossible else Verdict.FAILED",
]


def test_what_judges_beside_the_judge_is_seen_and_reading_a_verdict_is_not_judging() -> None:
    assert [text for text in SABOTAGES if not beside_the_judge(ast.parse(text))] == []
    read = "red = record.verdict in (Verdict.FAILED, Verdict.UNVERIFIED) or total[Verdict.FAILED] > 0"
    facts = "facts = replace(findings.facts, notes=())\nreport = replace(report, answer=None)"
    assert not beside_the_judge(ast.parse(f"{read}\n{facts}"))
