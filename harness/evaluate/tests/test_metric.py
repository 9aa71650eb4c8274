"""Scores by hand, and labels that do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.evaluate.dataset import DataSet, Item
from ethos_hil.harness.evaluate.metric import DEVICE, FLOAT, QUANTISED, ItemMetric, ScoreTally, class_of
from ethos_hil.lowering.formats.pte_model import Tensor

INF, NAN = np.inf, np.nan
SCORES = (np.array([[0.1, 0.9, 0.9, 0.3, 0.2, 0.05, -1.0]], np.float32),)


@pytest.mark.parametrize(
    ("name", "label", "score"),
    [("top1", 1, 1.0), ("top1", 2, 0.0), ("top5", 0, 1.0), ("top5", 5, 0.0), ("top1", torch.tensor([1]), 1.0)],
)
def test_classes(name: str, label: Any, score: float) -> None:
    assert ItemMetric.parse(name).score(SCORES, label, "item 0") == score


def test_a_mean_absolute_error() -> None:
    outputs = (np.array([[1, 2, 4]], np.int8),)
    assert ItemMetric.parse("mae").score(outputs, torch.tensor([1.0, 1.0, 1.0]), "item 0") == pytest.approx(4 / 3)


@pytest.mark.parametrize(
    ("name", "label", "message"),
    [
        ("top1", 7, "the label is 7, not a class from 0 to 6"),
        ("top1", -1, "the label is -1"),
        ("top1", 0.5, r"the label is float64\[\]"),
        ("top1", "cat", "the label is a str"),
        ("top1", torch.zeros(7), r"the label is float32\[7\]"),
        ("mae", torch.zeros(6), r"the label is float32\[6\], output 0 is float32\[1, 7\]"),
        ("mae", None, "the label is NoneType"),
        (
            "mae",
            [[0, NAN, 0, -INF, 0, 0, 0]],
            r"the label has 2 of 7 elements .* not finite, the first at \[0, 1\]: nan",
        ),
        ("mae", np.full(7, 1.7e308), "mae is not a finite number"),
    ],
)
def test_labels_that_do_not_fit(name: str, label: Any, message: str) -> None:
    with pytest.raises(UsageError, match=f"item 3: {message}"):
        ItemMetric.parse(name).score(SCORES, label, "item 3")


@pytest.mark.parametrize(
    ("name", "output", "message"),
    [
        ("mae", [1, INF, NAN], r"output 0 has 2 of 3 elements that are not finite, the first at \[1\]: inf"),
        ("top1", [1, INF, NAN], "output 0 has 1 scores that are NaN, the first of class 2"),
        ("top5", [NAN, NAN], "output 0 has 2 scores that are NaN, the first of class 0"),
    ],
)
def test_outputs_that_are_not_numbers(name: str, output: list[float], message: str) -> None:
    """Class 0 would be the best of NaN, and a mean would be NaN."""
    label: Any = np.zeros(len(output)) if name == "mae" else 0
    with pytest.raises(UsageError, match=f"item 3: {message}"):
        ItemMetric.parse(name).score((np.array(output, np.float32),), label, "item 3")
    assert ItemMetric.parse("top1").score((np.array([0, -INF, INF]),), 2, "") == 1, "a class may be ruled out"


def test_a_sum_is_never_infinite_and_a_noise_never_nan() -> None:
    tally = ScoreTally(ItemMetric("mine", lambda outputs, label: 1e308))
    infinite = (np.array([[1, INF]]),)
    tally.add(Item(0, (), 0), {FLOAT: infinite, DEVICE: infinite}, equal=True, what="item 0")
    assert tally.sqnr(DEVICE) is None
    with pytest.raises(UsageError, match="item 1: the sum of the scores up to it is too large, with 1e"):
        tally.add(Item(1, (), 0), {DEVICE: infinite}, equal=True, what="item 1")
    assert (tally.items, tally.mean(DEVICE)) == (1, 1e308)


def test_outputs_that_are_no_classes() -> None:
    with pytest.raises(UsageError, match=r"output 0 is float32\[1, 2, 2, 2\], not one score for each class"):
        ItemMetric.parse("top1").score((np.zeros((1, 2, 2, 2), np.float32),), 0, "item 0")


def test_a_function_of_the_users() -> None:
    assert ItemMetric("mine", lambda outputs, label: outputs[0][0, label]).score(SCORES, 3, "") == pytest.approx(0.3)
    functions: list[tuple[Any, str]] = [
        (lambda outputs, label: outputs[9], "raised IndexError"),
        (lambda outputs, label: "good", "raised ValueError"),
        (lambda outputs, label: float("nan"), "returned nan"),
    ]
    for function, message in functions:
        with pytest.raises(UsageError, match=f"item 4: --metric mine {message}"):
            ItemMetric("mine", function).score(SCORES, 3, "item 4")


def test_the_metric_that_suits_a_label() -> None:
    assert [ItemMetric.for_label(label).name for label in (3, np.int64(3), torch.tensor(3), torch.zeros(7), 0.5)] == [
        "top1", "top1", "top1", "mae", "mae",
    ]  # fmt: skip
    assert class_of(True) is None
    with pytest.raises(UsageError, match="--metric 'top3' is not a metric"):
        ItemMetric.parse("top3")


def test_a_tally_by_hand() -> None:
    tally = ScoreTally(ItemMetric.parse("top1"))
    first, second = np.array([[1.0, 0.0]], np.float32), np.array([[0.0, 1.0]], np.float32)
    for label, quantised, device in ((0, first, first), (0, first, second), (1, second, second), (0, first, first)):
        answers = {FLOAT: (first,), QUANTISED: (quantised,), DEVICE: (device,)}
        tally.add(Item(0, (), label), answers, equal=device is quantised, what="item")
    assert (tally.items, tally.equal) == (4, 3)
    assert [tally.mean(source) for source in (FLOAT, QUANTISED, DEVICE)] == [0.75, 1.0, 0.75]
    assert tally.agreement(FLOAT, QUANTISED) == 0.75
    assert tally.agreement(QUANTISED, DEVICE) == 0.75
    assert dict(tally.confusion) == {(0, 0): 2, (0, 1): 1, (1, 1): 1}
    assert tally.sqnr(QUANTISED) == pytest.approx(10 * np.log10(4 / 2))
    assert tally.sqnr(DEVICE) == pytest.approx(0.0)


# Every form of a data set is read item by item; what does not fit is named with its item.


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
    with pytest.raises(UsageError, match=r"item 1 raised OSError: the disk is gone \(test_metric.py:\d+\)"):
        next(items)


def test_what_is_no_data_set() -> None:
    with pytest.raises(UsageError, match="--data data returned int"):
        DataSet.of(5)
