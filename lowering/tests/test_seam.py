"""Private names of torch, torchao and ExecuTorch are used in lowering/upstream only: one place to look when they move.

A syntax tree does not say what an object is. So a private name counts as upstream's unless the file defines it itself,
or reaches it through another package.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SEAM = ROOT / "lowering" / "upstream"
UPSTREAM = ("torch", "torchao", "executorch")
FOREIGN = {"_tab": "the buffer behind an accessor that flatbuffers generated; tosa-tools has no other way to it"}
BY_NAME = ("getattr", "setattr", "hasattr", "delattr", "replace_attribute")
_DOTTED = re.compile(rf"(?:{'|'.join(UPSTREAM)})(?:[.:]\w+)+")


def sources() -> list[Path]:
    """All Python of the repository but tests, and the seam itself."""
    rooms = ("harness", "lowering", "results", "suites", "firmware", "src")
    paths = [path for room in rooms for path in (ROOT / room).rglob("*.py")] + [ROOT / "conftest.py"]
    return sorted(path for path in paths if "tests" not in path.parts and not path.is_relative_to(SEAM))


def private(name: str) -> bool:
    return name.startswith("_") and name.strip("_") != "" and not (name.startswith("__") and name.endswith("__"))


def any_private(dotted: str) -> bool:
    return any(map(private, re.split("[.:]", dotted)))


def root_of(node: ast.expr) -> str:
    """The variable that an expression such as `a.b(1).c[2]` starts from; "" if it starts from none."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


class Names:
    """The names that a file imports and defines."""

    def __init__(self, tree: ast.Module) -> None:
        self.upstream: set[str] = set()
        self.foreign: set[str] = set()
        self.own: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._imported(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.own.add(node.name)
            elif isinstance(node, ast.arg):
                self.own.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self.own.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and root_of(node) == "self":
                self.own.add(node.attr)

    def _imported(self, node: ast.Import | ast.ImportFrom) -> None:
        package = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            root = (package or alias.name).split(".")[0]
            bound = alias.asname or (alias.name if package else root)
            if root in UPSTREAM:
                self.upstream.add(bound)
            elif root != "ethos_hil":
                self.foreign.add(bound)

    def may_be_upstreams(self, name: str, root: str = "") -> bool:
        """Whether a private name that is read from something which starts at `root` may be one of upstream's."""
        if not private(name) or name in FOREIGN or root in self.foreign:
            return False
        return root in self.upstream or name not in self.own


def uses(text: str) -> Iterator[str]:
    """Every use in a file of a private name that may be upstream's: "12: torch._C"."""
    tree = ast.parse(text)
    names = Names(tree)
    for node in ast.walk(tree):
        use = None
        if isinstance(node, ast.Import | ast.ImportFrom):
            package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            whole = (package + alias.name for alias in node.names)
            use = next((name for name in whole if name.split(".")[0] in UPSTREAM and any_private(name)), None)
        elif isinstance(node, ast.Attribute):
            inherited = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not inherited and names.may_be_upstreams(node.attr, root_of(node)):
                use = ast.unparse(node)
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            constants = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            strings = [value for value in constants if isinstance(value, str)] if called in BY_NAME else []
            keywords = [argument.arg for argument in node.keywords if argument.arg]
            use = next(filter(names.may_be_upstreams, [*strings, *keywords]), None)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _DOTTED.fullmatch(node.value) and any_private(node.value):
                use = node.value
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant):
            part = str(node.right.value)  # of a path
            use = part if any(map(private, part.split("/"))) else None
        if use is not None:
            yield f"{getattr(node, 'lineno', 0)}: {use}"


def test_no_private_name_of_upstream_is_used_outside_of_the_seam() -> None:
    lines = [f"{path.relative_to(ROOT)}:{use}" for path in sources() for use in uses(path.read_text())]
    assert not lines, "\n".join(["move these into lowering/upstream (see CONTRIBUTING.md):", *lines])


def test_the_whole_repository_is_looked_at() -> None:
    looked_at = {path.relative_to(ROOT).as_posix() for path in sources()}
    assert len(looked_at) > 300
    assert looked_at >= {"conftest.py", "firmware/cmake/find_schema.py", "harness/run.py", "lowering/lower.py"}
    assert looked_at >= {"suites/lab/prove/upstream/plugin.py", "suites/ops/test_pool.py"}
    assert len([use for path in SEAM.rglob("*.py") for use in uses(path.read_text())]) > 50, "the seam has them"


@pytest.mark.parametrize(
    "line",
    [
        "import torch._C",
        "import executorch.backends.arm.util._factory as factory",
        "from torch._ops import OperatorBase",
        "from torch import _ops",
        "from torchao.quantization.pt2e import _numeric_debugger",
        "from executorch.exir import schema, _warnings",
        "import torch\n\ndef f():\n    return torch.fx.node._side_effectful_functions",
        "from executorch.exir import memory as planning\n\nplanning._thing",
        "def f(spec):\n    return spec._to_list()",
        "def f(make):\n    make(1)[2]._backend_id = 'x'",
        "from torch import fx\n\ndef _codegen(graph: fx.Graph):\n    return fx.Graph()._codegen",
        "def f(node):\n    return getattr(node.target, '_op', None)",
        "def f(owner, replace_attribute):\n    with replace_attribute(owner, '_collect', None):\n        pass",
        "def f(monkeypatch, owner):\n    monkeypatch.setattr(owner, '_collect', None)",
        "def f(config):\n    return config(_check_ir_validity=False)",
        "MODULE = 'executorch.backends.arm.util._factory'",
        "def f(package):\n    return package / 'exir' / '_serialize'",
    ],
)
def test_a_private_name_is_found(line: str) -> None:
    assert len(list(uses(line))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "import torch\n\ntorch.nn.functional.relu",
        "from torch.utils import __version__",
        "import torchvision._internally_replaced_utils",
        "import os\n\nos._exit(1)",
        "class A:\n    def __init__(self):\n        self._x = 1\n\n    def of(self, other):\n        return other._x",
        "class A(Base):\n    def f(self):\n        return self._inherited",
        "def f(accessor):\n    return accessor._tab",
        "for _ in range(3):\n    x.__class__",
        "NAME = '_suffix'",
    ],
)
def test_what_is_public_or_none_of_upstreams_is_not(line: str) -> None:
    assert list(uses(line)) == []
