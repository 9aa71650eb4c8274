"""Load a .pt2. Nothing in it is executed, unless the user trusts it.

torch.export.load looks operators up by attributes, hands size expressions to sympy, which evaluates them, imports what
a tree of containers names, and makes Python source of the names in a graph. So what it reads is examined first, and is
what torch.export.save writes of a model with plain tensors, or it is refused:

- each field of the JSON documents has the type that torch declares, since torch reads it without a look at its type;
- each text has a grammar: a name, an operator, a size, a tree of containers, or a text that torch quotes or shows;
- pickles are loaded weights-only, by torch.

torch gets an archive of what was examined and nothing else: a difference between two readers of zip archives is not a
way around it, and members that lowering does not need, such as other models, never reach torch.
"""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import re
import types
import typing
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ethos_hil.base.errors import UsageError, raise_if_interrupted
from ethos_hil.base.files import opened
from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.formats.array_archive import BadArchive, ZipMembers, members
from ethos_hil.lowering.upstream.names import operators
from ethos_hil.lowering.upstream.names.operators import PT2E_OPERATORS, register_operators
from ethos_hil.lowering.user_code.user_function import summary

if TYPE_CHECKING:
    import torch

MOST_BYTES = 8 << 30
TRUST_OPTION = "--trust-model"
_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_NOT_WEIGHTS_ONLY = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
_WRITE = "write it with torch.export.save(torch.export.export(module, inputs), path), same torch version"


class RefusedPart(ValueError):
    """A part of a .pt2 is refused. The message names the member and the place in it, and quotes what is there."""

    def __init__(self, where: object, what: str) -> None:
        super().__init__(f"{where}: {what}")


def load_exported(path: Path, *, trust: bool = False) -> torch.export.ExportedProgram:
    """Load an exported program.

    Args:
        path: the .pt2.
        trust: load what is more than data too: pickled objects, other operators. Loading may then execute what is in
            the file.

    Raises:
        UsageError: the file is not a readable .pt2, or it is more than data and not trusted.
    """
    try:
        with opened(path, most=MOST_BYTES) as file:
            if trust:
                return _load(path, file)
            with members(file, os.fstat(file.fileno()).st_size, packed=False) as archive:
                examined = _write(_examine(_Members(archive)))
        with _weights_only():
            return _load(path, examined)
    except RefusedPart as error:
        raise UsageError(
            f"{path} is more than data, at {error}",
            hint=f"if you know who made it: {TRUST_OPTION}, which lets the file run code on this machine",
        ) from None
    except BadArchive as error:
        raise UsageError(f"{path} cannot be loaded as an exported program: {error}", hint=_WRITE) from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def _load(path: Path, file: BinaryIO) -> torch.export.ExportedProgram:
    import torch

    try:
        with quiet():
            register_operators()
            return torch.export.load(file)
    except pickle.UnpicklingError as error:  # torch's message is long, and proposes to load it all the same
        needs = re.search(r"GLOBAL (\S+)", str(error))
        raise RefusedPart("a pickle", f"it needs {needs[1]}" if needs else "more than tensors") from None
    except Exception as error:
        raise_if_interrupted(error)
        raise UsageError(f"{path} cannot be loaded as an exported program: {summary(error)}", hint=_WRITE) from error


@contextmanager
def _weights_only() -> Iterator[None]:
    """Make every torch.load in this process refuse what is more than tensors."""
    before = {name: os.environ.get(name) for name in (_WEIGHTS_ONLY, _NOT_WEIGHTS_ONLY)}
    os.environ.pop(_NOT_WEIGHTS_ONLY, None)
    os.environ[_WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# The archive.

_PROGRAM = "models/model.json"
_INPUTS = "data/sample_inputs/model.pt"
_LISTS = {
    "data/weights/": "data/weights/model_weights_config.json",
    "data/constants/": "data/constants/model_constants_config.json",
}
_FOUNDATION = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little", ".data/version": b"6"}
_MOST_ELEMENTS = 1 << 20
_MOST_RATIO = 100
"""A tensor may have this many elements for each byte that is stored (a broadcast one stores few), or 2**20."""


class _Members:
    """An archive's members without the name of the folder that all of them are in."""

    def __init__(self, archive: ZipMembers) -> None:
        self._archive = archive
        roots = {name.partition("/")[0] for name in archive.sizes}
        if len(roots) != 1:
            raise BadArchive(f"expected one folder with everything in it, found {quote(sorted(roots))}")
        self._root = roots.pop()

    def read(self, name: str) -> bytes:
        return self._archive.read(f"{self._root}/{name}")


def _examine(archive: _Members) -> dict[str, bytes]:
    """Return the members that torch may read. Raises RefusedPart: one has more than data; or BadArchive."""
    checked = {name: archive.read(name) for name in _FOUNDATION}
    for name, expected in _FOUNDATION.items():
        if checked[name].strip() != expected:
            raise BadArchive(f"{name} is {quote(checked[name])}, expected {quote(expected)}")
    program = check_document(operators.program_type(), archive.read(_PROGRAM), _PROGRAM)
    checked[_PROGRAM] = json.dumps(program).encode()
    checked[_INPUTS] = archive.read(_INPUTS)
    for folder, name in _LISTS.items():
        payloads = check_document(operators.payloads_type(), archive.read(name), name)
        checked[name] = json.dumps(payloads).encode()
        for payload in payloads["config"].values():
            path = folder + payload["path_name"]
            checked[path] = archive.read(path)
            if not payload["use_pickle"]:
                _check_size(path, checked[path], payload["tensor_meta"])
    return checked


def _check_size(path: str, data: bytes, meta: dict[str, Any] | None) -> None:
    """Check that a tensor is no larger than what is stored of it allows."""
    if meta is None:
        raise RefusedPart(path, "a tensor without a shape")
    sizes: list[int] = [size.get("as_int", -1) for size in meta["sizes"]]
    if any(size < 0 for size in sizes):
        raise RefusedPart(path, f"a tensor of shape {quote(sizes)}")
    elements = prod(sizes)
    if elements > max(_MOST_RATIO * len(data), _MOST_ELEMENTS) or (elements and not data):
        raise RefusedPart(path, f"a tensor of {elements:,} elements, of which {len(data):,} bytes are stored")


def _write(checked: dict[str, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, data in checked.items():
            archive.writestr(zipfile.ZipInfo(f"model/{name}"), data)
    stream.seek(0)
    return stream


# The JSON documents, field by field.

_FOREIGN = {
    "CustomObjArgument": "a custom object",
    "InputToCustomObjSpec": "a custom object",
    "TokenArgument": "an effect token",
}
"""What is refused by the name of its type."""
_LEFT_OUT: dict[str, Any] = {"guards_code": [], "treespec_namedtuple_fields": {}}
"""Fields that lowering does not need and torch may make source of. They are emptied, whatever is in them."""
_SHOWN_METADATA = ("nn_module_stack", "stack_trace", "torch_fn")
"""What is kept of a node's metadata: texts that say where it comes from."""
_SHOWN = 80


def check_document(cls: Any, data: bytes, member: str) -> dict[str, Any]:
    """Return what a JSON document has of the fields of a dataclass, each of its type and grammar.

    Raises:
        RefusedPart: it is more than data, or is damaged.
    """
    try:
        document: dict[str, Any] = _check(cls, json.loads(data), member, "")
    except RecursionError:
        raise RefusedPart(member, "JSON that is nested too deeply") from None
    except RefusedPart:
        raise
    except ValueError as error:
        raise RefusedPart(member, f"not JSON: {error}") from None
    return document


def _check(cls: Any, value: Any, where: str, field: str) -> Any:
    """Return a value if it is of the type `cls`; `field` is the dataclass's name and the field's, "Node.target"."""
    origin, arguments = typing.get_origin(cls), typing.get_args(cls)
    if origin in (typing.Union, types.UnionType) and type(None) in arguments:
        return None if value is None else _check(arguments[0], value, where, field)
    if origin is list:
        items = enumerate(_of_type(value, list, where))
        return [_check(arguments[0], item, f"{where}[{at}]", field) for at, item in items]
    if origin is dict:
        mapping = _of_type(value, dict, where)
        if field.endswith(".metadata"):
            return {key: _of_type(mapping[key], str, where) for key in _SHOWN_METADATA if key in mapping}
        for key in mapping:
            _check_text(key, where, f"{field} key")
        return {key: _check(arguments[1], item, f"{where}[{quote(key)}]", field) for key, item in mapping.items()}
    fields = operators.fields_of(cls)
    if fields is not None:
        return _check_fields(cls, fields, value, where)
    if cls is str:
        _check_text(_of_type(value, str, where), where, field)
    elif cls is float:
        if value not in ("Infinity", "-Infinity", "NaN") and type(value) is not int:
            _of_type(value, float, where)
    else:  # an enumeration is a whole number
        _of_type(value, bool if cls is bool else int, where)
    return value


def _check_fields(cls: Any, fields: dict[str, Any], value: Any, where: str) -> dict[str, Any]:
    name = cls.__name__
    if name in _FOREIGN:
        raise RefusedPart(where, _FOREIGN[name])
    given = _of_type(value, dict, where)
    if operators.is_union(cls) and (len(given) != 1 or not given.keys() <= fields.keys()):
        raise RefusedPart(where, f"expected one field of {name}, found {quote(sorted(given))}")
    missing = sorted(operators.required_fields(cls) - given.keys())
    if missing:
        raise RefusedPart(where, f"a {name} without {quote(missing)}")
    return {
        field: _LEFT_OUT[field]
        if field in _LEFT_OUT
        else _check(kind, given[field], f"{where}[{field!r}]", f"{name}.{field}")
        for field, kind in fields.items()
        if field in given
    }


def _of_type(value: Any, kind: type, where: object) -> Any:
    if type(value) is not kind:
        raise RefusedPart(where, f"expected {kind.__name__}, found {quote(value)}")
    return value


def quote(value: object) -> str:
    """Return a short, printable form of a value."""
    text = ascii(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# The grammar of each text.

_NAME = (r"[A-Za-z_]\w{0,999}", "a name")
SYMBOL = r"[su]\d{1,9}"
"""A free size, as torch names it."""
_ATTRIBUTE = (r"(?!__)\w{1,999}(?:\.(?!__)\w{1,999})*", "the name of a parameter or buffer")
_ANY = (r"(?s:.*)", "a text")
_GRAMMARS = {
    "Argument.as_string": _ANY,
    "Argument.as_strings": _ANY,
    "ConstantValue.as_string": _ANY,
    "BufferMutationSpec.buffer_name": _ATTRIBUTE,
    "Device.type": ("cpu|meta", "the processor"),
    "ExportedProgram.range_constraints key": (SYMBOL, "the symbol of a size"),
    "ExportedProgram.torch_version": (r"[\w.+<= -]{0,64}", "a version"),
    "ExportedProgram.verifiers": ("ATEN|TRAINING", "a dialect of torch.export"),
    "GradientToParameterSpec.parameter_name": _ATTRIBUTE,
    "InputToBufferSpec.buffer_name": _ATTRIBUTE,
    "InputToParameterSpec.parameter_name": _ATTRIBUTE,
    "InputToTensorConstantSpec.tensor_constant_name": _ATTRIBUTE,
    "ModuleCallEntry.fqn": (r"(?:\w{1,999}(?:[.@]\w{1,999})*)?", "the name of a module"),
    "NamedArgument.name": (r"\w{0,999}", "a name"),  # empty, or a word of Python such as `from`
    "ParameterMutationSpec.parameter_name": _ATTRIBUTE,
    "PayloadConfig.config key": _ATTRIBUTE,
    "PayloadMeta.path_name": (r"(?:weight|tensor)_\d{1,9}", "a file of tensors"),
}
"""Of texts that are not checked by a function. All others are names, those of a later torch's fields included."""


def _check_text(text: str, where: str, field: str) -> None:
    check = _CHECKS.get(field)
    if check is not None:
        check(text, where)
        return
    grammar, what = _GRAMMARS.get(field, _NAME)
    if not re.fullmatch(grammar, text, re.ASCII):
        raise RefusedPart(where, f"not {what}: {quote(text)}")


# The operators that a .pt2 may name. torch looks a name up by attributes, so that `torch.os.system` is found too, and
# calls it with the model's arguments.

_OVERLOAD = re.compile(r"torch\.ops\.(\w+)\.(\w+)\.(\w+)", re.ASCII)
_HIGHER_ORDER = frozenset(
    f"torch.ops.higher_order.{name}"
    for name in ("cond", "map_impl", "scan", "while_loop", "wrap_with_autocast", "wrap_with_set_grad_enabled")
)
_OF_SIZES = r"_operator\.(?:add|sub|mul|floordiv|mod|neg|eq|ne|lt|le|gt|ge)|torch\.sym_(?:max|min|not)"
"""What a program computes of its own free sizes."""
_REFUSED = frozenset({"from_file", "resize", "resize_", "resize_as_", "set", "set_"})
"""Operators of ATen that read files, or that change the memory below a tensor."""
_UNDERSCORED = frozenset(
    {
        "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_assert_tensor_metadata", "_convolution", "_embedding_bag",
        "_embedding_bag_forward_only", "_log_softmax", "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional", "_native_batch_norm_legit_no_training", "_native_multi_head_attention",
        "_prelu_kernel", "_reshape_alias",
        "_safe_softmax", "_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention_for_cpu",
        "_softmax", "_stack", "_to_copy", "_transformer_encoder_layer_fwd", "_trilinear", "_unsafe_view",
        "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d",
        "_upsample_nearest_exact3d", "_weight_norm", "_weight_norm_interface",
    }
)  # fmt: skip
"""Operators of ATen whose name starts with a line and that models have. Others trust their arguments."""


def _check_operator(name: str, where: str) -> None:
    match = _OVERLOAD.fullmatch(name)
    plain = name in _HIGHER_ORDER or re.fullmatch(_OF_SIZES, name) is not None
    if not plain and (match is None or not _computes(*match.groups())):
        raise RefusedPart(where, f"the operator {quote(name)}, which is not one that only computes with tensors")


def _computes(namespace: str, name: str, overload: str) -> bool:
    full = f"{namespace}::{name}" + ("" if overload == "default" else f".{overload}")
    if namespace not in ("aten", PT2E_OPERATORS) or full not in operators.dispatched_names(namespace):
        return False
    if name.startswith("__") and name.endswith("__"):
        return True  # arithmetic, such as __and__
    return name not in _REFUSED and (not name.startswith("_") or name in _UNDERSCORED)


# The trees of containers that a program takes and returns. torch makes the types that such a tree names, with what the
# file says about them; for some it imports a module. Only lists, tuples and dictionaries are accepted.

_SEQUENCES = ("builtins.tuple", "builtins.list", "torch.fx.immutable_collections.immutable_list")
_MAPPINGS = ("builtins.dict", "collections.OrderedDict", "torch.fx.immutable_collections.immutable_dict")


def _check_tree(text: str, where: str, *, key: str) -> None:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise RefusedPart(where, f"not JSON: {error}") from None
    nodes = document[1:] if isinstance(document, list) and len(document) == 2 and document[0] == 1 else [None]
    while nodes:
        node = nodes.pop()
        if not isinstance(node, dict) or set(node) != {"type", "context", "children_spec"}:
            raise RefusedPart(where, f"not a tree of containers: {quote(text)}")
        kind, context, children = node["type"], node["context"], _of_type(node["children_spec"], list, where)
        plain = (kind is None and context is None and not children) or (kind in _SEQUENCES and context == "null")
        if not plain and not (kind in _MAPPINGS and isinstance(context, str) and _are_keys(context, key)):
            raise RefusedPart(where, f"a container of type {quote(kind)} with {quote(context)}")
        nodes += children


def _are_keys(context: str, key: str) -> bool:
    try:
        keys = json.loads(context)
    except ValueError:
        return False
    return isinstance(keys, list) and all(
        type(name) is int or (isinstance(name, str) and re.fullmatch(key, name, re.ASCII)) for name in keys
    )


# Sizes that are not numbers, as dynamic_shapes make them. torch evaluates their texts as Python.

_FUNCTIONS = frozenset(
    {
        "Add", "CleanDiv", "Equality", "FloorDiv", "GreaterThan", "Integer", "LessThan", "Max", "Min", "Mod", "Mul",
        "PythonMod", "StrictGreaterThan", "StrictLessThan", "Symbol", "Unequality",
    }
)  # fmt: skip
_ASSUMED = frozenset({"integer", "nonnegative", "positive"})
_LONGEST_SIZE = 500
"""Characters of an expression: no more calls are nested in so many than Python can follow."""


def _check_size_expression(text: str, where: str) -> None:
    try:
        good = len(text) <= _LONGEST_SIZE and _is_size(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError):
        good = False
    if not good:
        raise RefusedPart(where, f"not the expression of a size: {quote(text)}")


def _is_size(node: ast.expr) -> bool:
    """Whether an expression is made of sizes, whole numbers and functions: `Mul(Integer(2), Symbol('s0'))`."""
    match node:
        case ast.Constant(value=value):
            return type(value) is int
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _is_size(operand)
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))], keywords=assumed):
            return re.fullmatch(SYMBOL, name, re.ASCII) is not None and all(
                word.arg in _ASSUMED and isinstance(word.value, ast.Constant) and word.value.value is True
                for word in assumed
            )
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return name in _FUNCTIONS and name != "Symbol" and all(map(_is_size, args))
    return False


_CHECKS: dict[str, Callable[[str, str], None]] = {
    "Argument.as_operator": _check_operator,
    "ModuleCallSignature.in_spec": partial(_check_tree, key=_NAME[0]),  # torch makes source of keyword arguments' keys
    "ModuleCallSignature.out_spec": partial(_check_tree, key=_ANY[0]),
    "Node.target": _check_operator,
    "SymExpr.expr_str": _check_size_expression,
}
