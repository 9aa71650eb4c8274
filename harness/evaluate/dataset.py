"""A user's data set, item by item, in the form that a program takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError, raise_if_interrupted
from ethos_hil.harness.image.inputs import InputSet, describe
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.user_code.user_function import call_user, load_function, summary, user_line

_GIVES = (
    "it returns a torch Dataset, a DataLoader with batches of 1, a list or a generator of pairs (inputs, label), where "
    "inputs is a tensor, or a tuple of tensors for a model with several"
)


@dataclass(frozen=True)
class Item:
    """One item of a data set.

    Attributes:
        number: its place in the data set, from 0.
        inputs: of the shapes and types of the program's inputs.
        label: what the metric compares with, as the data set gave it.
    """

    number: int
    inputs: InputSet
    label: Any


@dataclass(frozen=True)
class DataSet:
    """A data set by the user's name for it.

    Attributes:
        name: "file.py:function", or a name of objects in memory.
        data: pairs of inputs and label; with a length and items, or to be iterated over.
    """

    name: str
    data: Any

    @classmethod
    def load(cls, text: str) -> DataSet:
        """Call the user's function.

        Raises:
            UsageError: there is no such function, it raises, or what it returns is not a data set.
        """
        function, _ = load_function(text, "--data")
        return cls.of(call_user(function, f"--data {text}", _GIVES), text)

    @classmethod
    def of(cls, data: Any, name: str = "data") -> DataSet:
        """Return the data set of an object. Raises UsageError when it is not one."""
        if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")) and not isinstance(data, Iterable):
            raise UsageError(f"--data {name} returned {type(data).__name__}", hint=_GIVES)
        return cls(name, data)

    @property
    def count(self) -> int | None:
        """How many items it has, or None if it does not say."""
        try:
            return len(self.data)
        except TypeError:
            return None

    def items(self, tensors: Sequence[Tensor], limit: int | None) -> Iterator[Item]:
        """Yield the first `limit` items, all if it is None.

        Args:
            tensors: the program's inputs.
            limit: how many.

        Raises:
            UsageError: an item cannot be read, or does not fit the program; the error names it.
        """
        source = self._raw()
        number = 0
        while limit is None or number < limit:
            try:
                raw = next(source)
            except StopIteration:
                return
            except (Exception, SystemExit) as error:
                raise_if_interrupted(error)
                raise UsageError(f"{self._item(number)} raised {summary(error)}{user_line(error)}") from error
            yield self._fitting(raw, number, tensors)
            number += 1

    def _raw(self) -> Iterator[Any]:
        if hasattr(self.data, "__iter__"):
            return iter(self.data)
        return (self.data[index] for index in range(len(self.data)))  # a torch Dataset need not end by itself

    def _item(self, number: int) -> str:
        return f"--data {self.name}: item {number}"

    def _fitting(self, raw: Any, number: int, tensors: Sequence[Tensor]) -> Item:
        what = self._item(number)
        if not isinstance(raw, tuple | list) or len(raw) != 2:
            kind = f"{len(raw)} values" if isinstance(raw, tuple | list) else type(raw).__name__
            raise UsageError(f"{what} is {kind}, not a pair (inputs, label)", hint=_GIVES)
        inputs, label = raw
        values = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
        if len(values) != len(tensors):
            raise UsageError(f"{what} has {len(values)} inputs, the program takes {len(tensors)}", hint=_GIVES)
        pairs = enumerate(zip(values, tensors, strict=True))
        return Item(
            number, tuple(_array(value, tensor, f"{what}: input {index}") for index, (value, tensor) in pairs), label
        )


def _array(value: Any, tensor: Tensor, what: str) -> np.ndarray:
    """Return a value as an array, with the program's leading axis of length 1 if it lacks it."""
    detached = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        array = np.asarray(detached)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{what} is a {type(value).__name__}, not a tensor: {summary(error)}") from error
    fits = array.shape == tensor.sizes or (tensor.sizes[:1] == (1,) and array.shape == tensor.sizes[1:])
    if not fits or array.dtype != tensor.dtype:
        raise UsageError(f"{what} is {describe(array)}, the program takes {tensor}")
    return np.ascontiguousarray(array.reshape(tensor.sizes))
