"""The changes that can be made to a Python source: one operator, number, condition or guard, and never a text."""

from __future__ import annotations

import ast
import random
import tomllib
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, MappingProxyType

from ethos_hil.base.dataclasses import dataclass

_OTHER_COMPARISONS = MappingProxyType(
    {
        ast.Lt: (ast.LtE, ast.GtE),
        ast.LtE: (ast.Lt, ast.Gt),
        ast.Gt: (ast.GtE, ast.LtE),
        ast.GtE: (ast.Gt, ast.Lt),
        ast.Eq: (ast.NotEq,),
        ast.NotEq: (ast.Eq,),
        ast.In: (ast.NotIn,),
        ast.NotIn: (ast.In,),
        ast.Is: (ast.IsNot,),
        ast.IsNot: (ast.Is,),
    }
)
_OTHER_OPERATORS = MappingProxyType(
    {
        ast.Add: ast.Sub,
        ast.Sub: ast.Add,
        ast.Mult: ast.Add,
        ast.Div: ast.Mult,
        ast.FloorDiv: ast.Mult,
        ast.Mod: ast.FloorDiv,
        ast.Pow: ast.Mult,
        ast.LShift: ast.RShift,
        ast.RShift: ast.LShift,
        ast.BitAnd: ast.BitOr,
        ast.BitOr: ast.BitAnd,
        ast.BitXor: ast.BitAnd,
    }
)
_OTHER_NAMES = MappingProxyType({"min": "max", "max": "min", "any": "all", "all": "any"})
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FIRST = "first"  # the kind of an index of 0: it does not become -1, as the first of one element is the last, too
Edit = Callable[[], None]
EQUIVALENT = "equivalent"
"""The fate of a mutant that means the same as the code: no test can tell them apart."""
_REASONS = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True, order=True)
class CodeChange:
    """A change of one place in a source.

    Attributes:
        file: the source, relative to the checkout.
        line, last: of the statement (of its head, if it has a body).
        text: its first line.
        before, after: what is changed, and into what.
        node, edit: where it is in the syntax tree, as `edits` counts.
        in_function: whether the statement is in a function.
    """

    file: str
    line: int
    last: int
    text: str
    before: str
    after: str
    node: int
    edit: int
    in_function: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before} -> {self.after}"

    def compiled(self, source: bytes, filename: str) -> CodeType:
        """Return the code of the source with the change."""
        tree = ast.parse(source)
        node, _ = list(_nodes(tree))[self.node]
        _edits(node)[self.edit]()
        code: CodeType = compile(ast.fix_missing_locations(tree), filename, "exec", dont_inherit=True)
        return code


@dataclass(frozen=True)
class _Statement:
    line: int
    last: int
    in_function: bool


def places(root: Path, file: str, lines: Container[int] = range(1 << 30)) -> Iterator[tuple[str, int, int]]:
    """Yield the places of a source that can be changed: file, node, and how many ways there are to change it.

    Args:
        root: the checkout.
        file: the source.
        lines: only in statements that start in one of these.
    """
    for number, (node, statement) in enumerate(_nodes(ast.parse((root / file).read_bytes()))):
        if statement.line in lines and (count := len(_edits(node))):
            yield file, number, count


def change(root: Path, file: str, number: int, edit: int) -> CodeChange:
    """Return the change of a node of a source."""
    source = (root / file).read_bytes()
    node, statement = list(_nodes(ast.parse(source)))[number]
    before = ast.unparse(_shown(node))
    _edits(node)[edit]()
    after, text = ast.unparse(_shown(node)), source.decode().splitlines()[statement.line - 1].strip()
    where = (statement.line, statement.last, text)
    return CodeChange(file, *where, before, after, number, edit, statement.in_function)


def draw(root: Path, files: Iterable[str], count: int, seed: int) -> list[CodeChange]:
    """Draw places of the sources, all alike, and for each a way to change it."""
    every = [place for file in sorted(files) for place in places(root, file)]
    rng = random.Random(seed)
    return sorted(
        change(root, file, number, rng.randrange(ways))
        for file, number, ways in rng.sample(every, min(count, len(every)))
    )


def _nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, _Statement]]:
    """Yield all nodes that may be changed, with the statement that each is in, in the source's order."""
    yield from _below(tree, _Statement(1, 1, False))


def _below(node: ast.AST, statement: _Statement) -> Iterator[tuple[ast.AST, _Statement]]:
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and name == "body"
        for child in field if isinstance(field, list) else [field]:
            if not isinstance(child, ast.AST) or _left_out(child):
                continue
            here = _Statement(statement.line, statement.last, statement.in_function or inside)
            if isinstance(child, ast.stmt | ast.ExceptHandler):
                body = getattr(child, "body", None) or getattr(child, "cases", None)
                first = body[0].pattern if body and isinstance(body[0], ast.match_case) else body[0] if body else None
                last = max(child.lineno, first.lineno - 1) if first else child.end_lineno or child.lineno
                here = _Statement(child.lineno, last, here.in_function)
            elif isinstance(child, ast.match_case):
                here = _Statement(child.pattern.lineno, child.pattern.end_lineno or 0, here.in_function)
            if isinstance(node, ast.Subscript) and isinstance(child, ast.Constant) and child.value == 0:
                child.kind = _FIRST
            yield child, here
            yield from _below(child, here)


def _left_out(node: ast.AST) -> bool:
    """Return whether a change there would not be one of meaning, or not one that a test could see."""
    if isinstance(node, ast.If):
        return {name.id for name in ast.walk(node.test) if isinstance(name, ast.Name)} & {
            "TYPE_CHECKING",
            "__name__",
        } != set()
    if isinstance(node, ast.keyword):
        return node.arg in ("strict", "hash")  # of zip: an assertion, as `assert` is; of a dataclass: for sets alone
    return isinstance(node, ast.Assert)


def _shown(node: ast.AST) -> ast.AST:
    return node.test if isinstance(node, ast.If) else node


def _edits(node: ast.AST) -> list[Edit]:
    """Return the ways to change a node. Each changes it in its place."""
    match node:
        case ast.Compare():
            return [
                lambda at=at, other=other: node.ops.__setitem__(at, other())  # type: ignore[misc]
                for at, op in enumerate(node.ops)
                for other in _OTHER_COMPARISONS[type(op)]
            ]
        case ast.BinOp() if not _is_text(node.left) and not _is_text(node.right):
            return _set(node, op=_OTHER_OPERATORS[type(node.op)]()) if type(node.op) in _OTHER_OPERATORS else []
        case ast.AugAssign() if not _is_text(node.value):
            return _set(node, op=_OTHER_OPERATORS[type(node.op)]()) if type(node.op) in _OTHER_OPERATORS else []
        case ast.BoolOp():
            return _set(node, op=ast.And() if isinstance(node.op, ast.Or) else ast.Or())
        case ast.UnaryOp(op=ast.Not()):
            return _set(node, operand=_not(node.operand))
        case ast.If():
            leaves = len(node.body) == 1 and isinstance(node.body[0], _LEAVES) and not node.orelse
            return _set(node, test=_not(node.test)) + (_set(node, test=ast.Constant(False)) if leaves else [])
        case ast.IfExp():
            return _set(node, body=node.orelse, orelse=node.body)
        case ast.comprehension() if node.ifs:
            return _set(node, ifs=[_not(node.ifs[0]), *node.ifs[1:]])
        case ast.Constant() if isinstance(node.value, bool):
            return _set(node, value=not node.value)
        case ast.Constant() if isinstance(node.value, int | float):
            less = [] if node.kind == _FIRST else _set(node, value=node.value - 1)
            return _set(node, value=node.value + 1) + less
        case ast.Call(func=ast.Name(id=name)) if name in _OTHER_NAMES:
            return _set(node, func=ast.Name(_OTHER_NAMES[name], ast.Load()))
    return []


def _set(node: ast.AST, **fields: object) -> list[Edit]:
    def edit() -> None:
        for name, value in fields.items():
            setattr(node, name, value)

    return [edit]


def _not(test: ast.expr) -> ast.UnaryOp:
    return ast.UnaryOp(ast.Not(), test)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))


@cache
def reasons() -> Mapping[tuple[str, str, str], str]:
    """Return why, by file, the statement's first line, and "before -> after"."""
    listed = tomllib.loads(_REASONS.read_text("utf-8"))["equivalent"]
    return {(entry["file"], entry["line"], change): entry["why"] for entry in listed for change in entry["changes"]}


def why_equivalent(change: CodeChange) -> str:
    """Return why a mutant means the same as the code, or ""."""
    return reasons().get((change.file, change.text, f"{change.before} -> {change.after}"), "")
