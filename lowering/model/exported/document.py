"""The JSON documents of a .pt2, checked field by field against the types that torch reads them into.

torch reads a field without a look at its type, makes Python source of names, and looks operators up by attributes. So
each field has to have the type that torch declares, and each text has to be of its kind: a name, an operator, a size
expression, a tree of containers, or a text that is only shown. Fields that torch does not declare are left out.
"""

from __future__ import annotations

import json
import keyword
import re
import types
import typing
from collections.abc import Callable
from typing import Any

from ethos_hil.lowering.model.exported.texts import (
    RefusedPart,
    check_expression,
    check_operator,
    check_tree,
    is_name,
    is_symbol,
    quote,
)
from ethos_hil.lowering.upstream.names import exported_schema

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


def load_json(data: bytes | str, member: str) -> Any:
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
    missing = sorted(exported_schema.required_of(cls) - given.keys())
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
            texts[key] = json.dumps(load_json(_check_type(value[key], str, place.at(key)), str(place.at(key))))
    if "source_fn_stack" in value:
        text = _check_type(value["source_fn_stack"], str, place.at("source_fn_stack"))
        for entry in text.split(";"):
            _, _, function = entry.partition(",")
            if not _DOTTED.fullmatch(function) or "__" in function:
                raise RefusedPart(place.at("source_fn_stack"), f"not the name of a function: {quote(function)}")
        texts["source_fn_stack"] = text
    return texts


def _check_name(text: str, place: _Place) -> None:
    if not is_name(text):
        raise RefusedPart(place, f"not a name: {quote(text)}")


def _check_argument(text: str, place: _Place) -> None:
    """Check the name of an operator's argument: it may be a word of Python, such as `from`, or empty."""
    if text and not keyword.iskeyword(text) and not is_name(text):
        raise RefusedPart(place, f"not a name: {quote(text)}")


def _check_attribute(text: str, place: _Place) -> None:
    """Check the name of a parameter, buffer or constant below the module: 0.weight."""
    if not _ATTRIBUTE.fullmatch(text) or any(part.startswith("__") for part in text.split(".")):
        raise RefusedPart(place, f"not the name of a parameter or buffer: {quote(text)}")


def _check_text(text: str, place: _Place) -> None:
    """Accept any text: it is an argument that torch quotes, or is only shown."""


def _check_expression(text: str, place: _Place) -> None:
    check_expression(text, str(place))


def _check_operator(text: str, place: _Place) -> None:
    check_operator(text, str(place))


def _check_inputs(text: str, place: _Place) -> None:
    check_tree(load_json(text, str(place)), str(place), names=True)


def _check_outputs(text: str, place: _Place) -> None:
    check_tree(load_json(text, str(place)), str(place), names=False)


def _matching(pattern: str | re.Pattern[str], what: str) -> Callable[[str, _Place], None]:
    def check(text: str, place: _Place) -> None:
        if not re.fullmatch(pattern, text):
            raise RefusedPart(place, f"not {what}: {quote(text)}")

    return check


def _check_symbol(text: str, place: _Place) -> None:
    if not is_symbol(text):
        raise RefusedPart(place, f"not the name of a size: {quote(text)}")


_TEXTS: dict[str, Callable[[str, _Place], None]] = {
    "Argument.as_operator": _check_operator,
    "Argument.as_string": _check_text,
    "Argument.as_strings": _check_text,
    "ConstantValue.as_string": _check_text,
    "Device.type": _matching("cpu|meta", "the processor"),
    "ExportedProgram.torch_version": _matching(r"[\w.+<= -]{0,64}", "a version"),
    "ExportedProgram.verifiers": _matching("ATEN|TRAINING", "a dialect of torch.export"),
    "ModuleCallEntry.fqn": _matching(_MODULE, "the name of a module"),
    "ModuleCallSignature.in_spec": _check_inputs,
    "ModuleCallSignature.out_spec": _check_outputs,
    "NamedArgument.name": _check_argument,
    "Node.target": _check_operator,
    "Node.metadata": _check_text,
    "PayloadMeta.path_name": _matching(_PAYLOAD, "a file of tensors"),
    "SymExpr.expr_str": _check_expression,
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
_KEYS: dict[str, Callable[[str, _Place], None]] = {
    "ExportedProgram.range_constraints": _check_symbol,
    "GraphModule.metadata": _check_text,
    "Node.metadata": _check_text,
    "PayloadConfig.config": _check_attribute,
}
"""The kind of the keys of each mapping; all others are names."""
