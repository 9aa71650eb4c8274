"""Every form of a data set is read item by item; what does not fit is named with its item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.evaluate.dataset import DataSet
from ethos_hil.lowering.formats.pte_model import Tensor

IMAGE = Tensor("FLOAT", (1, 3, 4, 4), (0, 1, 2, 3), 0, 0, None)


class Endless(torch.utils.data.Dataset):
    """As torch has them: a length, and items that do not raise IndexError at the end."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 4, 4), float(index)), index


def numbers(data: Any, limit: int | None = None) -> list[int]:
    items = list(DataSet.of(data).items([IMAGE], limit))
    assert [item.number for item in items] == list(range(len(items)))
    for item in items:
        (array,) = item.inputs
        assert (array.shape, array.dtype) == (IMAGE.sizes, np.float32)
        assert array.flags.c_contiguous
    return [int(item.inputs[0].flat[0]) for item in items]


def generated() -> Iterator[tuple[np.ndarray, int]]:
    for index in range(3):
        yield np.full((1, 3, 4, 4), index, np.float32), index


@pytest.mark.parametrize(
    "data",
    [
        Endless(),
        torch.utils.data.DataLoader(Endless(), batch_size=1),
        [Endless()[index] for index in range(3)],
        [((torch.full((3, 4, 4), float(index)),), index) for index in range(3)],
        generated(),
    ],
)
def test_every_form(data: Any) -> None:
    assert numbers(data) == [0, 1, 2]


def test_a_limit_reads_no_more() -> None:
    def two() -> Iterator[tuple[np.ndarray, int]]:
        yield from list(generated())[:2]
        raise AssertionError("a third item is read")

    assert numbers(two(), 2) == [0, 1]
    assert DataSet.of(Endless()).count == 3
    assert DataSet.of(two()).count is None


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (torch.zeros(3, 4, 4), "item 1 is Tensor, not a pair"),
        ((torch.zeros(3, 4, 4),), "item 1 is 1 values, not a pair"),
        ((torch.zeros(3, 4, 5), 0), r"item 1: input 0 is float32\[3, 4, 5\], the program takes float32\[1, 3, 4, 4\]"),
        ((torch.zeros(2, 3, 4, 4), 0), r"float32\[2, 3, 4, 4\]"),
        ((np.zeros((3, 4, 4)), 0), r"float64\[3, 4, 4\]"),
        (((torch.zeros(3, 4, 4), torch.zeros(1)), 0), "item 1 has 2 inputs, the program takes 1"),
        (("cat.png", 0), "item 1: input 0 is"),
        ((object(), 0), "item 1: input 0 is"),
        ((torch.zeros(3, 4, 4).to_sparse(), 0), "item 1: input 0 is a Tensor, not a tensor"),
    ],
)
def test_an_item_that_does_not_fit_is_named(raw: Any, message: str) -> None:
    items = DataSet.of([Endless()[0], raw], "data.py:mine").items([IMAGE], None)
    assert next(items).number == 0
    with pytest.raises(UsageError, match=f"--data data.py:mine: .*{message.removeprefix('item 1')}"):
        next(items)


def test_what_is_raised_is_told_with_its_item() -> None:
    def broken() -> Iterator[tuple[torch.Tensor, int]]:
        yield Endless()[0]
        raise OSError("the disk is gone")

    items = DataSet.of(broken()).items([IMAGE], None)
    next(items)
    with pytest.raises(UsageError, match=r"item 1 raised OSError: the disk is gone \(test_dataset.py:\d+\)"):
        next(items)


def test_what_is_no_data_set() -> None:
    with pytest.raises(UsageError, match="--data data returned int"):
        DataSet.of(5)
