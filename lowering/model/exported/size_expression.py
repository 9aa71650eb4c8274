"""Size expressions: the text that torch.export writes for a size that is not a number.

torch hands this text to sympy, which evaluates it as Python. So only what torch writes itself is accepted: sympy's
notation of whole-number arithmetic with size symbols, such as `Add(Symbol('s77', integer=True), Integer(1))`, and the
same arithmetic written with signs.
"""

from __future__ import annotations

import ast
import re

from ethos_hil.lowering.model.exported.refused import RefusedPart, quoted

_SYMBOL = re.compile(r"(?:s|u|ps|zf|zuf)\d{1,5}")
_MOST_CHARACTERS = 8192
_MOST_NODES = 1000
_LARGEST = 2**63
_LARGEST_POWER = 8
_FUNCTIONS = frozenset(
    {
        "Add", "And", "CeilDiv", "CeilToInt", "CleanDiv", "Equality", "FloatTrueDiv", "FloorDiv", "FloorToInt",
        "GreaterThan", "Identity", "IntTrueDiv", "LessThan", "Max", "Min", "Mod", "ModularIndexing", "Mul", "Not", "Or",
        "PythonMod", "RoundToInt", "StrictGreaterThan", "StrictLessThan", "ToFloat", "TruncToFloat", "TruncToInt",
        "Unequality", "Where",
    }
)  # fmt: skip
"""Functions of sympy and torch that neither grow numbers beyond a product nor take anything but numbers."""
_POWERS = frozenset({"Pow", "PowByNatural"})
_SIGNS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


def is_symbol(name: str) -> bool:
    """Return whether this is a name that torch gives to a size, such as s77 or u0."""
    return _SYMBOL.fullmatch(name) is not None


def check_expression(text: str, where: str) -> None:
    """Check a size expression. Nothing is evaluated.

    Raises:
        RefusedPart: it is more than arithmetic with numbers and size symbols.
    """
    if len(text) > _MOST_CHARACTERS:
        raise RefusedPart(where, f"a size expression of {len(text):,} characters: {quoted(text)}")
    try:
        tree = ast.parse(text, mode="eval").body
        count = sum(1 for _ in ast.walk(tree))
        plain = count <= _MOST_NODES and _is_plain(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # what ast.parse raises for bad or deep text
        plain = False
    if not plain:
        raise RefusedPart(where, f"not a plain size expression: {quoted(text)}")


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is True or node.value is False or _is_number(node.value)
    if isinstance(node, ast.Name):
        return is_symbol(node.id) or node.id in ("true", "false", "oo", "int_oo")
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub | ast.UAdd) and _is_plain(node.operand)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _SIGNS) and _is_plain(node.left) and _is_plain(node.right)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and _is_plain_call(node.func.id, node)


def _is_plain_call(name: str, call: ast.Call) -> bool:
    if name == "Symbol":
        return len(call.args) == 1 and _is_symbol_name(call.args[0]) and all(map(_is_assumption, call.keywords))
    if name == "Float":
        return len(call.args) == 1 and _is_decimal(call.args[0]) and all(map(_is_precision, call.keywords))
    if call.keywords or any(isinstance(argument, ast.Starred) for argument in call.args):
        return False
    if name in ("Integer", "Rational"):
        return 1 <= len(call.args) <= 2 and all(map(_is_signed_number, call.args))
    if name in _POWERS:
        base, *power = call.args or [ast.Constant(None)]
        return _is_symbol_call(base) and len(power) == 1 and _is_small_power(power[0])
    return name in _FUNCTIONS and all(map(_is_plain, call.args))


def _is_number(value: object) -> bool:
    return type(value) is int and abs(value) <= _LARGEST


def _is_signed_number(node: ast.expr) -> bool:
    operand = node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    return isinstance(operand, ast.Constant) and _is_number(operand.value)


def _is_symbol_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and is_symbol(node.value)


def _is_symbol_call(node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        return is_symbol(node.id)
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Symbol"
        and _is_plain_call("Symbol", node)
    )


def _is_assumption(keyword: ast.keyword) -> bool:
    return keyword.arg is not None and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, bool)


def _is_decimal(node: ast.expr) -> bool:
    if not isinstance(node, ast.Constant):
        return False
    return (
        isinstance(node.value, str) and re.fullmatch(r"-?\d{1,40}(\.\d{0,40})?(e[+-]?\d{1,3})?", node.value) is not None
    )


def _is_precision(keyword: ast.keyword) -> bool:
    return keyword.arg == "precision" and isinstance(keyword.value, ast.Constant) and keyword.value.value == 53


def _is_small_power(node: ast.expr) -> bool:
    call = node.args[0] if isinstance(node, ast.Call) and _is_plain(node) and len(node.args) == 1 else node
    value = call.operand if isinstance(call, ast.UnaryOp) else call
    return _is_signed_number(call) and isinstance(value, ast.Constant) and abs(int(value.value)) <= _LARGEST_POWER  # type: ignore[arg-type]
