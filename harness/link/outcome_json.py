"""Answers of a target or the reference model, as JSON and arrays.

JSON has a dataclass by the names of its fields (an operation's event, of which there are many, by their order), bytes
as hexadecimal digits, and in place of an array its name among the arrays.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

import numpy as np

from ethos_hil.harness.link.outcome import OpEvent, Outcome
from ethos_hil.lowering.oracle.reference import ReferenceRun

Arrays = dict[str, np.ndarray]
"""Arrays by name."""
_SEVERAL = tuple[np.ndarray, ...]


def outcome_to_json(outcome: Outcome, arrays: Arrays) -> dict[str, Any]:
    """Return an outcome as JSON; its arrays are added to `arrays` under the names in the JSON."""
    document: dict[str, Any] = _document(outcome, "outcome", arrays)
    return document


def outcome(data: Mapping[str, Any], arrays: Arrays) -> Outcome:
    """Return the outcome of `outcome_to_json`'s output. Raises KeyError or TypeError where it has another form.

    Recordings of older releases lack some fields, which have a default.
    """
    found: Outcome = _value(Outcome, data, arrays)
    return found


def answer_to_json(answer: ReferenceRun, arrays: Arrays) -> dict[str, Any]:
    """Return an answer as JSON; its arrays are added to `arrays` under the names in the JSON."""
    calls = [
        {
            "instruction": at,
            "inputs": _document(answer.delegate_inputs.get(at, ()), f"call{at}.in", arrays),
            "outputs": _document(outputs, f"call{at}.out", arrays),
        }
        for at, outputs in answer.delegate_outputs.items()
    ]
    return {"outputs": _document(answer.outputs, "out", arrays), "delegates": calls}


def answer(data: Mapping[str, Any], arrays: Arrays) -> ReferenceRun:
    """Return the answer of `answer_to_json`'s output."""
    return ReferenceRun(
        outputs=_value(_SEVERAL, data["outputs"], arrays),
        delegate_outputs={each["instruction"]: _value(_SEVERAL, each["outputs"], arrays) for each in data["delegates"]},
        delegate_inputs={each["instruction"]: _value(_SEVERAL, each["inputs"], arrays) for each in data["delegates"]},
    )


def _document(value: Any, name: str, arrays: Arrays) -> Any:
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return name
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, OpEvent):
        return list(dataclasses.astuple(value))
    if isinstance(value, tuple):
        return [_document(part, f"{name}.{index}", arrays) for index, part in enumerate(value)]
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return {each: _document(getattr(value, each), f"{name}.{each}", arrays) for each in names}
    return value


def _value(kind: Any, data: Any, arrays: Arrays) -> Any:
    """Return the value of a type that JSON stands for."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is np.ndarray:
        return arrays[data]
    if kind is bytes:
        return bytes.fromhex(data)
    if origin is types.UnionType:
        return None if data is None else _value(parts[0], data, arrays)
    if origin is tuple:
        return tuple(_value(parts[0], part, arrays) for part in data)
    fields = _fields(kind)
    if not fields:
        return data
    if isinstance(data, list):
        return kind(*data)
    return kind(**{name: _value(each, data[name], arrays) for name, each in fields.items() if name in data})


@functools.cache
def _fields(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass's fields, by name; none for another type."""
    return typing.get_type_hints(kind) if dataclasses.is_dataclass(kind) else {}
