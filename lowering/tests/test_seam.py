"""Private names of torch, torchao and ExecuTorch are used in lowering/upstream only: one place to look when they move.

A syntax tree does not say what an object is. So a private name counts as upstream's unless the file defines it itself,
or reaches it through another package.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEAM = ROOT / "lowering" / "upstream"
UPSTREAM = ("torch", "torchao", "executorch")
FOREIGN = {
    "_tab": "the buffer behind an accessor that flatbuffers generated; tosa-tools has no other way to it",
    "_Major": "an accessor that flatbuffers generated of TOSA's schema, whose field is called so",
    "_Minor": "as _Major",
}
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
    return any(map(private, re.split("[.:/]", dotted)))


def root_of(node: ast.expr) -> str:
    """The variable that an expression such as `a.b(1).c[2]` starts from; "" if it starts from none."""
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def names_of(tree: ast.Module) -> tuple[set[str], set[str], set[str]]:
    """The names that a file has from upstream, from other packages, and of its own."""
    upstream, foreign, own = set[str](), set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names) | ast.ImportFrom(names=names):
                package = getattr(node, "module", "") or ""
                for alias in names:
                    root = (package or alias.name).split(".")[0]
                    bound = alias.asname or (alias.name if package else root)
                    if root != "ethos_hil":
                        (upstream if root in UPSTREAM else foreign).add(bound)
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name) | ast.arg(name):
                own.add(name)
            case ast.Name(name, ast.Store()):
                own.add(name)
            case ast.Attribute(ast.expr(), name, ast.Store()) if root_of(node) == "self":
                own.add(name)
    return upstream, foreign, own


def uses(text: str) -> Iterator[str]:
    """Every use in a file of a private name that may be upstream's: "12: torch._C"."""
    tree = ast.parse(text)
    upstream, foreign, own = names_of(tree)

    def may_be_upstreams(name: str, root: str = "") -> bool:
        """Whether a private name that is read from something which starts at `root` may be one of upstream's."""
        if not private(name) or name in FOREIGN or root in foreign:
            return False
        return root in upstream or name not in own

    for node in ast.walk(tree):
        found: list[str] = []
        match node:
            case ast.Import(names) | ast.ImportFrom(names=names):
                package = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
                whole = [package + alias.name for alias in names]
                found = [name for name in whole if name.split(".")[0] in UPSTREAM and any_private(name)]
            case ast.Attribute(value, name):
                inherited = isinstance(value, ast.Name) and value.id in ("self", "cls")
                found = [ast.unparse(node)] if not inherited and may_be_upstreams(name, root_of(value)) else []
            case ast.Call(function, arguments, keywords):
                by_name = getattr(function, "attr", getattr(function, "id", "")) in BY_NAME
                strings = [argument.value for argument in arguments if isinstance(argument, ast.Constant) and by_name]
                named = [*strings, *(argument.arg for argument in keywords)]
                found = [name for name in named if isinstance(name, str) and may_be_upstreams(name)]
            case ast.Constant(str(value)):
                found = [value] if _DOTTED.fullmatch(value) and any_private(value) else []
            case ast.BinOp(_, ast.Div(), ast.Constant(part)):  # of a path
                found = [str(part)] if any_private(str(part)) else []
        yield from (f"{getattr(node, 'lineno', 0)}: {name}" for name in found[:1])


def test_no_private_name_of_upstream_is_used_outside_of_the_seam() -> None:
    lines = [f"{path.relative_to(ROOT)}:{use}" for path in sources() for use in uses(path.read_text())]
    assert not lines, "\n".join(["move these into lowering/upstream (see CONTRIBUTING.md):", *lines])


def test_the_whole_repository_is_looked_at() -> None:
    looked_at = {path.relative_to(ROOT).as_posix() for path in sources()}
    assert len(looked_at) > 300
    assert looked_at >= {"conftest.py", "firmware/cmake/find_schema.py", "harness/run.py", "lowering/lower.py"}
    assert looked_at >= {"suites/lab/prove/upstream/plugin.py", "suites/ops/test_pool.py"}
    assert len([use for path in SEAM.rglob("*.py") for use in uses(path.read_text())]) > 50, "the seam has them"


FOUND = (
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
)
PUBLIC_OR_NOT_UPSTREAMS = (
    "import torch\n\ntorch.nn.functional.relu",
    "from torch.utils import __version__",
    "import torchvision._internally_replaced_utils",
    "import os\n\nos._exit(1)",
    "class A:\n    def __init__(self):\n        self._x = 1\n\n    def of(self, other):\n        return other._x",
    "class A(Base):\n    def f(self):\n        return self._inherited",
    "def f(accessor):\n    return accessor._tab",
    "for _ in range(3):\n    x.__class__",
    "NAME = '_suffix'",
)


def test_a_private_name_of_upstream_is_found_and_nothing_else() -> None:
    counts = {line: len(list(uses(line))) for line in (*FOUND, *PUBLIC_OR_NOT_UPSTREAMS)}
    assert counts == {**dict.fromkeys(FOUND, 1), **dict.fromkeys(PUBLIC_OR_NOT_UPSTREAMS, 0)}
