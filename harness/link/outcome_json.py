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

    def keep(array: np.ndarray) -> str:
        arrays[name := f"outcome.{len(arrays)}"] = array
        return name

    converter = new_converter()
    converter.register_unstructure_hook(np.ndarray, keep)
    converter.register_unstructure_hook(bytes, bytes.hex)
    converter.register_unstructure_hook(OpEvent, dataclasses.astuple)
    return dict(converter.unstructure(outcome))


def outcome(data: Mapping[str, Any], arrays: Arrays) -> Outcome:
    """Return the outcome of `outcome_to_json`'s output. Raises ValueError where it has another form."""
    converter = new_converter(bounded=True)
    event = make_dict_structure_fn(OpEvent, converter)
    converter.register_structure_hook(np.ndarray, lambda name, _: arrays[name])
    converter.register_structure_hook(bytes, lambda digits, _: bytes.fromhex(digits))
    converter.register_structure_hook(OpEvent, lambda values, _: event(dict(zip(_EVENT, values, strict=True))))
    return from_json(Outcome, data, converter=converter)
