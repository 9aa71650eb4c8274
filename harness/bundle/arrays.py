"""Arrays of a bundle: input sets, outputs and answers as .npz."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ethos_hil.harness.image.inputs import InputSet, describe
from ethos_hil.harness.link.outcome_json import Arrays, answer, answer_to_json
from ethos_hil.lowering.formats.array_archive import BadArchive, packed_arrays, read_arrays
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.oracle.reference import ReferenceRun


def packed_sets(sets: Sequence[InputSet], names: Sequence[str]) -> bytes:
    """Return input sets, or sets of outputs, as an .npz that `--inputs` and `--expected` read.

    Args:
        sets: at least one; each has an array for each name.
        names: the arrays' names.
    """
    columns = zip(*sets, strict=True)
    arrays = [np.stack(column) if len(sets) > 1 else np.asarray(column[0]) for column in columns]
    return packed_arrays(dict(zip(names, arrays, strict=True)))


def sets_of(data: bytes, tensors: Sequence[Tensor], name: str) -> tuple[InputSet, ...]:
    """Return the sets of `packed_sets`, which must fit the tensors of a program.

    Args:
        data: the .npz.
        tensors: the program's inputs or outputs.
        name: of the member, for an error.

    Raises:
        BadArchive: they do not fit, or the .npz is damaged.
    """
    arrays = list(named_arrays(data, name).values())
    if len(arrays) != len(tensors):
        raise BadArchive(f"{name} has {len(arrays)} arrays, the program takes {len(tensors)}")
    columns = []
    for array, tensor in zip(arrays, tensors, strict=True):
        column = array[None] if array.shape == tensor.sizes else array
        if column.dtype != tensor.dtype or column.shape[1:] != tensor.sizes or not len(column):
            raise BadArchive(f"{name} has {describe(array)}, the program has {tensor}")
        columns.append(column)
    if len({len(column) for column in columns}) > 1:
        raise BadArchive(f"the arrays of {name} hold different numbers of sets")
    return tuple(zip(*columns, strict=True)) or ((),)


def named_arrays(data: bytes, name: str) -> Arrays:
    """Return the arrays of a member. Raises BadArchive, which names it."""
    try:
        return read_arrays(io.BytesIO(data))
    except BadArchive as error:
        raise BadArchive(f"{name}: {error}") from error


def references_to_json(references: Sequence[ReferenceRun], arrays: Arrays) -> list[dict[str, Any]]:
    """Return answers as JSON; their arrays are added to `arrays`."""
    return [_reference_to_json(each, f"set{index}.", arrays) for index, each in enumerate(references)]


def references_of_json(data: Sequence[Mapping[str, Any]], arrays: Arrays) -> tuple[ReferenceRun, ...]:
    """Return the answers of `references_to_json`. Raises KeyError or TypeError where it has another form."""
    return tuple(_reference(each, f"set{index}.", arrays) for index, each in enumerate(data))


def _reference_to_json(reference: ReferenceRun, prefix: str, arrays: Arrays) -> dict[str, Any]:
    own: Arrays = {}
    document = answer_to_json(reference, own)
    arrays.update({prefix + name: array for name, array in own.items()})
    later = [_reference_to_json(each, f"{prefix}later{at}.", arrays) for at, each in enumerate(reference.later)]
    return {**document, "later": later}


def _reference(data: Mapping[str, Any], prefix: str, arrays: Arrays) -> ReferenceRun:
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    first = answer(data, own)
    later = tuple(_reference(each, f"{prefix}later{at}.", arrays) for at, each in enumerate(data["later"]))
    return ReferenceRun(first.outputs, first.delegate_outputs, first.delegate_inputs, later)
