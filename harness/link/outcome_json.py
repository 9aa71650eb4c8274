"""Answers of a target or the reference model, as JSON and arrays.

JSON has a dataclass by the names of its fields (an operation's event, of which there are many, by their order), bytes
as hexadecimal digits, and in place of an array its name among the arrays.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from cattrs.gen import make_dict_structure_fn

from ethos_hil.base.typed_json import from_json, new_converter
from ethos_hil.harness.link.outcome import OpEvent, Outcome

Arrays = dict[str, np.ndarray]
"""Arrays by name."""
_EVENT = tuple(field.name for field in dataclasses.fields(OpEvent))


def outcome_to_json(outcome: Outcome, arrays: Arrays) -> dict[str, Any]:
    """Return an outcome as JSON; its arrays are added to `arrays` under the names in the JSON."""
    document: dict[str, Any] = _document(outcome, "outcome", arrays)
    return document


def outcome(data: Mapping[str, Any], arrays: Arrays) -> Outcome:
    """Return the outcome of `outcome_to_json`'s output. Raises ValueError where it has another form.

    Recordings of older releases lack some fields, which have a default.
    """
    converter = new_converter(bounded=True)
    event = make_dict_structure_fn(OpEvent, converter)
    converter.register_structure_hook(np.ndarray, lambda name, _: arrays[name])
    converter.register_structure_hook(bytes, lambda digits, _: bytes.fromhex(digits))
    converter.register_structure_hook(OpEvent, lambda values, _: event(dict(zip(_EVENT, values, strict=True))))
    return from_json(Outcome, data, converter=converter)


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
        return {field: _document(getattr(value, field), f"{name}.{field}", arrays) for field in names}
    return value
