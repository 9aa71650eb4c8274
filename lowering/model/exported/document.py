"""The JSON documents of a .pt2, checked field by field against the types that torch reads them into.

torch reads a field without a look at its type, makes Python source of names, and looks operators up by attributes. So
each field has to have the type that torch declares, and each text has to be of its kind: a name, an operator, a size
expression, a tree of containers, or a text that is only shown. Fields that torch does not declare are left out.
"""

from __future__ import annotations

import ast
import json
import keyword
import re
import types
import typing
from collections.abc import Callable
from functools import partial
from typing import Any

from ethos_hil.lowering.upstream.names import exported_schema
from ethos_hil.lowering.upstream.names.exported_schema import SYMBOLIC, dispatched_names
from ethos_hil.lowering.upstream.names.operators import PT2E_OPERATORS

_MOST_TEXT = 1 << 20
_ATTRIBUTE = re.compile(r"\w{1,999}(?:\.\w{1,999})*", re.ASCII)
_MODULE = re.compile(r"(?:\w{1,999}(?:[.@]\w{1,999})*)?", re.ASCII)
_PAYLOAD = re.compile(r"(?:weight|tensor)_\d{1,9}", re.ASCII)
_DOTTED = re.compile(r"[A-Za-z_][\w.]{0,999}", re.ASCII)
_NOT_FINITE = ("Infinity", "-Infinity", "NaN")
_FOREIGN = {
    "CustomObjArgument": "a custom object",
    "InputToCustomObjSpec": "a custom object",
    "TokenArgument": "an effect token",
}
_LEFT_OUT: dict[str, Any] = {"guards_code": [], "treespec_namedtuple_fields": {}}
"""Fields that lowering does not need and torch may make source of. They are emptied, whatever is in them."""


def load_json(data: bytes | str, member: object) -> Any:
    """Return a JSON document.

    Raises:
        RefusedPart: it is not JSON, or is nested too deeply, or has a number of thousands of digits.
    """
    try:
        return json.loads(data, parse_constant=_no_constant)
    except RecursionError:
        raise RefusedPart(member, "JSON that is nested too deeply") from None
    except ValueError as error:
        raise RefusedPart(member, f"not JSON: {error}") from None


def check_program(data: bytes, member: str) -> dict[str, Any]:
    """Return the checked document of an exported program.

    Raises:
        RefusedPart: it is more than data, or is damaged.
    """
    return _check_document(exported_schema.program_type(), data, member)


def check_payloads(data: bytes, member: str) -> dict[str, Any]:
    """Return the checked list of a program's weights or constants. Raises RefusedPart, as `check_program`."""
    return _check_document(exported_schema.payloads_type(), data, member)


def _check_document(cls: Any, data: bytes, member: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = _check(cls, load_json(data, member), _Place(member, "", ""))
    except RecursionError:
        raise RefusedPart(member, "JSON that is nested too deeply") from None
    return document


class _Place:
    """A field: the document's member, the path to it, and the names of its type and itself."""

    def __init__(self, member: str, path: str, field: str) -> None:
        self.member, self.path, self.field = member, path, field

    def __str__(self) -> str:
        return f"{self.member}{self.path}"

    def at(self, step: object, field: str | None = None) -> _Place:
        return _Place(self.member, f"{self.path}[{quote(step)}]", self.field if field is None else field)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _check(cls: Any, value: Any, place: _Place) -> Any:
    origin, arguments = typing.get_origin(cls), typing.get_args(cls)
    if origin in (typing.Union, types.UnionType) and type(None) in arguments:
        return None if value is None else _check(arguments[0], value, place)
    if origin is list:
        return [
            _check(arguments[0], item, place.at(index)) for index, item in enumerate(_check_type(value, list, place))
        ]
    if origin is dict:
        return _check_mapping(arguments[1], _check_type(value, dict, place), place)
    fields = exported_schema.fields_of(cls)
    return _check_leaf(cls, value, place) if fields is None else _check_fields(cls, fields, value, place)


def _check_fields(cls: Any, fields: dict[str, Any], value: Any, place: _Place) -> dict[str, Any]:
    name = cls.__name__
    if name in _FOREIGN:
        raise RefusedPart(place, _FOREIGN[name])
    given = _check_type(value, dict, place)
    if exported_schema.is_union(cls) and (len(given) != 1 or not given.keys() <= fields.keys()):
        raise RefusedPart(place, f"expected one field of {name}, checked {quote(sorted(given))}")
    missing = sorted(exported_schema.required_fields(cls) - given.keys())
    if missing:
        raise RefusedPart(place, f"a {name} without {quote(missing)}")
    checked: dict[str, Any] = {}
    for field, kind in fields.items():
        if field in _LEFT_OUT and field in given:
            checked[field] = _LEFT_OUT[field]
        elif field in given:
            checked[field] = _check(kind, given[field], place.at(field, f"{name}.{field}"))
    return checked


def _check_mapping(kind: Any, value: dict[str, Any], place: _Place) -> dict[str, Any]:
    check = _KEYS.get(place.field, _check_name)
    for key in value:
        check(key, place)
    if place.field == "Node.metadata":
        return _metadata(value, place)
    if place.field == "GraphModule.metadata":
        return {}
    return {key: _check(kind, item, place.at(key)) for key, item in value.items()}


def _check_leaf(cls: Any, value: Any, place: _Place) -> Any:
    if cls is str:
        text = _check_type(value, str, place)
        if len(text) > _MOST_TEXT:
            raise RefusedPart(place, f"a text of {len(text):,} characters")
        _TEXTS.get(place.field, _check_name)(text, place)
        return text
    if cls is bool:
        return _check_type(value, bool, place)
    if cls is float:
        return value if value in _NOT_FINITE or type(value) is int else _check_type(value, float, place)
    number = _check_type(value, int, place)
    if not -(2**63) <= number < 2**64:
        raise RefusedPart(place, f"a number of {number.bit_length()} bits")
    if exported_schema.is_choice(cls) and number not in set(cls):
        raise RefusedPart(place, f"{number} is not a {cls.__name__}")
    return number


def _check_type(value: Any, kind: type, place: _Place) -> Any:
    if type(value) is not kind:
        raise RefusedPart(place, f"expected {kind.__name__}, found {quote(value)}")
    return value


def _metadata(value: dict[str, Any], place: _Place) -> dict[str, str]:
    """Return what is known of a node: where it comes from. Other keys are left out."""
    texts: dict[str, str] = {}
    for key in ("stack_trace", "nn_module_stack", "torch_fn"):
        if key in value:
            texts[key] = _check_type(value[key], str, place.at(key))
    for key in ("custom", "from_node"):
        if key in value:
            texts[key] = json.dumps(load_json(_check_type(value[key], str, place.at(key)), place.at(key)))
    if "source_fn_stack" in value:
        text = _check_type(value["source_fn_stack"], str, place.at("source_fn_stack"))
        for entry in text.split(";"):
            _, _, function = entry.partition(",")
            if not _DOTTED.fullmatch(function) or "__" in function:
                raise RefusedPart(place.at("source_fn_stack"), f"not the name of a function: {quote(function)}")
        texts["source_fn_stack"] = text
    return texts


_SHOWN = 80
_NAME = re.compile(r"[A-Za-z_]\w{0,999}", re.ASCII)


class RefusedPart(ValueError):
    """A part of a .pt2 is refused. The message names the member and the place in it, and quotes what is there."""

    def __init__(self, where: object, what: str) -> None:
        super().__init__(f"{where}: {what}")


def quote(value: object) -> str:
    """Return a short, printable form of a value."""
    text = ascii(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a variable in Python."""
    return _NAME.fullmatch(text) is not None and not keyword.iskeyword(text)


# The operators that a .pt2 may name.
#
# torch looks a name up by attributes, so that `torch.os.system` is found too, and calls it with the model's arguments.

_OVERLOAD = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)", re.ASCII)
_HIGHER_ORDER = frozenset(
    f"torch.ops.higher_order.{name}"
    for name in ("cond", "map_impl", "scan", "while_loop", "wrap_with_autocast", "wrap_with_set_grad_enabled")
)
_NAMESPACES = ("aten", PT2E_OPERATORS)
_REFUSED = frozenset({"from_file", "resize", "resize_", "resize_as_", "set", "set_"})
"""Operators of ATen that read files, or that change the memory below a tensor."""
_UNDERSCORED = frozenset(
    {
        "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_assert_async", "_assert_scalar", "_assert_tensor_metadata",
        "_conj", "_convolution", "_convolution_mode", "_embedding_bag", "_embedding_bag_forward_only",
        "_functional_assert_async", "_functional_assert_scalar", "_local_scalar_dense", "_log_softmax",
        "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training",
        "_native_multi_head_attention", "_prelu_kernel", "_reshape_alias", "_safe_softmax",
        "_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention_for_cpu", "_shape_as_tensor",
        "_softmax", "_stack", "_to_copy", "_transformer_encoder_layer_fwd", "_trilinear", "_unsafe_view",
        "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
        "_upsample_nearest_exact3d", "_weight_norm", "_weight_norm_interface",
    }
)  # fmt: skip
"""Operators of ATen whose name starts with a line and that models have. Others trust their arguments."""


def check_operator(name: str, where: object) -> None:
    """Check the name of an operator.

    Raises:
        RefusedPart: it is not an operator that only computes with tensors.
    """
    if name in SYMBOLIC or name in _HIGHER_ORDER:
        return
    match = _OVERLOAD.fullmatch(name)
    if match is None or match[1] not in _NAMESPACES or not _computes(*match.groups()):
        raise RefusedPart(where, f"the operator {quote(name)}, which is not one that only computes with tensors")


def _computes(namespace: str, name: str, overload: str) -> bool:
    if f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}") not in dispatched_names(namespace):
        return False
    if name.startswith("__") and name.endswith("__"):
        return True  # arithmetic, such as __and__
    return name not in _REFUSED and (not name.startswith("_") or name in _UNDERSCORED)


# The trees of containers that a program takes and returns, as a .pt2 describes them.
#
# torch makes the types that such a tree names, with what the file says about them; for some it imports a module. Only
# lists, tuples and dictionaries are accepted.

_SEQUENCES = ("builtins.tuple", "builtins.list", "torch.fx.immutable_collections.immutable_list")
_MAPPINGS = ("builtins.dict", "collections.OrderedDict", "torch.fx.immutable_collections.immutable_dict")
_VERSION = 1
_MOST_DEPTH = 100


def check_tree(document: Any, where: object, *, names: bool) -> None:
    """Check a tree.

    Args:
        document: the tree.
        where: its place, for errors.
        names: whether the keys of dictionaries have to be names: torch makes source of those of keyword arguments.

    Raises:
        RefusedPart: it has other containers than lists, tuples and dictionaries, or other keys than texts and numbers.
    """
    if not isinstance(document, list) or len(document) != 2 or document[0] != _VERSION:
        raise RefusedPart(where, f"not a tree of containers: {quote(document)}")
    _check_node(document[1], where, 0, names)


def _check_node(node: Any, where: object, depth: int, names: bool) -> None:
    if not isinstance(node, dict) or set(node) != {"type", "context", "children_spec"} or depth > _MOST_DEPTH:
        raise RefusedPart(where, f"not a container: {quote(node)}")
    kind, context, children = node["type"], node["context"], node["children_spec"]
    if not isinstance(children, list):
        raise RefusedPart(where, f"not a list of containers: {quote(children)}")
    if kind is None:
        plain = context is None and not children
    elif kind in _SEQUENCES:
        plain = context == "null"
    else:
        plain = kind in _MAPPINGS and _are_keys(context, len(children), names)
    if not plain:
        raise RefusedPart(where, f"a container of type {quote(kind)} with {quote(context)}")
    for child in children:
        _check_node(child, where, depth + 1, names)


def _are_keys(context: Any, count: int, names: bool) -> bool:
    try:
        keys = json.loads(context)
    except (TypeError, ValueError, RecursionError):
        return False
    if not isinstance(keys, list) or len(keys) != count:
        return False
    return all(type(key) is int or (isinstance(key, str) and (not names or is_name(key))) for key in keys)


# Size expressions: the text that torch.export writes for a size that is not a number.
#
# torch hands this text to sympy, which evaluates it as Python. So only what torch writes itself is accepted: sympy's
# notation of whole-number arithmetic with size symbols, such as `Add(Symbol('s77', integer=True), Integer(1))`, and the
# same arithmetic written with signs.

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


def check_expression(text: str, where: object) -> None:
    """Check a size expression. Nothing is evaluated.

    Raises:
        RefusedPart: it is more than arithmetic with numbers and size symbols.
    """
    if len(text) > _MOST_CHARACTERS:
        raise RefusedPart(where, f"a size expression of {len(text):,} characters: {quote(text)}")
    try:
        tree = ast.parse(text, mode="eval").body
        count = sum(1 for _ in ast.walk(tree))
        plain = count <= _MOST_NODES and _is_plain(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # what ast.parse raises for bad or deep text
        plain = False
    if not plain:
        raise RefusedPart(where, f"not a plain size expression: {quote(text)}")


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


# The kinds of texts in a document.

_Check = Callable[[str, object], None]
"""Raises RefusedPart unless a text at a place is of its kind."""


def _fitting(fits: Callable[[str], object], what: str) -> _Check:
    def check(text: str, place: object) -> None:
        if not fits(text):
            raise RefusedPart(place, f"not {what}: {quote(text)}")

    return check


def _is_attribute(text: str) -> bool:
    """Return whether a text can name a parameter, buffer or constant below the module: 0.weight."""
    return _ATTRIBUTE.fullmatch(text) is not None and not any(part.startswith("__") for part in text.split("."))


def _is_argument(text: str) -> bool:
    """Return whether a text can name an operator's argument: it may be a word of Python, such as `from`, or empty."""
    return not text or keyword.iskeyword(text) or is_name(text)


def _check_text(text: str, place: object) -> None:
    """Accept any text: it is an argument that torch quotes, or is only shown."""


def _check_containers(text: str, place: object, *, names: bool) -> None:
    check_tree(load_json(text, place), place, names=names)


_check_name = _fitting(is_name, "a name")
_check_attribute = _fitting(_is_attribute, "the name of a parameter or buffer")
_TEXTS: dict[str, _Check] = {
    "Argument.as_operator": check_operator,
    "Argument.as_string": _check_text,
    "Argument.as_strings": _check_text,
    "ConstantValue.as_string": _check_text,
    "Device.type": _fitting(re.compile("cpu|meta").fullmatch, "the processor"),
    "ExportedProgram.torch_version": _fitting(re.compile(r"[\w.+<= -]{0,64}").fullmatch, "a version"),
    "ExportedProgram.verifiers": _fitting(re.compile("ATEN|TRAINING").fullmatch, "a dialect of torch.export"),
    "ModuleCallEntry.fqn": _fitting(_MODULE.fullmatch, "the name of a module"),
    "ModuleCallSignature.in_spec": partial(_check_containers, names=True),
    "ModuleCallSignature.out_spec": partial(_check_containers, names=False),
    "NamedArgument.name": _fitting(_is_argument, "a name"),
    "Node.target": check_operator,
    "Node.metadata": _check_text,
    "PayloadMeta.path_name": _fitting(_PAYLOAD.fullmatch, "a file of tensors"),
    "SymExpr.expr_str": check_expression,
    **dict.fromkeys(
        (
            "BufferMutationSpec.buffer_name",
            "GradientToParameterSpec.parameter_name",
            "InputToBufferSpec.buffer_name",
            "InputToParameterSpec.parameter_name",
            "InputToTensorConstantSpec.tensor_constant_name",
            "ParameterMutationSpec.parameter_name",
        ),
        _check_attribute,
    ),
}
"""The kind of each text; all others are names."""
_KEYS: dict[str, _Check] = {
    "ExportedProgram.range_constraints": _fitting(is_symbol, "the name of a size"),
    "GraphModule.metadata": _check_text,
    "Node.metadata": _check_text,
    "PayloadConfig.config": _check_attribute,
}
"""The kind of the keys of each mapping; all others are names."""
