"""Scores by hand, and labels that do not fit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
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


def scored(name: str, output: Any, label: Any) -> Callable[[], Any]:
    return lambda: ItemMetric.parse(name).score((np.asarray(output, np.float32),), label, "item 3")


def mine(function: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    return lambda: ItemMetric("mine", function).score(SCORES, 3, "item 3")


def read(raw: Any) -> Callable[[], Any]:
    """Read a second item; the first one is right."""
    items = DataSet.of([Endless()[0], raw], "data.py:mine").items([IMAGE], None)
    return lambda: [next(items), next(items)]


IMAGE = Tensor("FLOAT", (1, 3, 4, 4), (0, 1, 2, 3), 0, 0, None)


class Endless(torch.utils.data.Dataset):
    """As torch has them: a length, and items that do not raise IndexError at the end."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.full((3, 4, 4), float(index)), index


ZEROS = torch.zeros(3, 4, 4)
REFUSED: dict[str, Callable[[], Any]] = {
    "a class too high": scored("top1", SCORES[0], 7),
    "a negative class": scored("top1", SCORES[0], -1),
    "a float for a class": scored("top1", SCORES[0], 0.5),
    "a text for a class": scored("top1", SCORES[0], "cat"),
    "a tensor for a class": scored("top1", SCORES[0], torch.zeros(7)),
    "another shape": scored("mae", SCORES[0], torch.zeros(6)),
    "no label": scored("mae", SCORES[0], None),
    "a label that is not finite": scored("mae", SCORES[0], [[0, NAN, 0, -INF, 0, 0, 0]]),
    "an error that is not finite": scored("mae", SCORES[0], np.full(7, 1.7e308)),
    # Class 0 would be the best of NaN, and a mean would be NaN.
    "an output that is not finite": scored("mae", [1, INF, NAN], np.zeros(3)),
    "a score of NaN": scored("top1", [1, INF, NAN], 0),
    "scores of NaN": scored("top5", [NAN, NAN], 0),
    "outputs that are no classes": scored("top1", np.zeros((1, 2, 2, 2)), 0),
    "a function that raises": mine(lambda outputs, label: outputs[9]),
    "a function that gives a text": mine(lambda outputs, label: "good"),
    "a function that gives NaN": mine(lambda outputs, label: float("nan")),
    "a metric that is none": lambda: ItemMetric.parse("top3"),
    "a data set that is none": lambda: DataSet.of(5),
    "no pair": read(ZEROS),
    "one value": read((ZEROS,)),
    "an input of another shape": read((torch.zeros(3, 4, 5), 0)),
    "a batch": read((torch.zeros(2, 3, 4, 4), 0)),
    "an input of another type": read((np.zeros((3, 4, 4)), 0)),
    "two inputs": read(((ZEROS, torch.zeros(1)), 0)),
    "a text for an input": read(("cat.png", 0)),
    "an object for an input": read((RuntimeError, 0)),
    "a sparse tensor": read((ZEROS.to_sparse(), 0)),
}


@pytest.mark.filterwarnings("ignore:overflow")
def test_what_does_not_fit_is_named_with_its_item(recorded: Recorded) -> None:
    answers = {}
    for what, ask in REFUSED.items():
        with pytest.raises(UsageError) as caught:
            ask()
        answers[what] = re.sub(r"(?<=\.py:)\d+|(?<=TypeError: ).*", "...", caught.value.message)
    recorded.check(answers)


def test_a_function_of_the_users_and_a_class_that_is_ruled_out() -> None:
    assert ItemMetric("mine", lambda outputs, label: outputs[0][0, label]).score(SCORES, 3, "") == pytest.approx(0.3)
    assert ItemMetric.parse("top1").score((np.array([0, -INF, INF]),), 2, "") == 1


def test_a_sum_is_never_infinite_and_a_noise_never_nan() -> None:
    tally = ScoreTally(ItemMetric("mine", lambda outputs, label: 1e308))
    infinite = (np.array([[1, INF]]),)
    tally.add(Item(0, (), 0), {FLOAT: infinite, DEVICE: infinite}, equal=True, what="item 0")
    assert tally.sqnr(DEVICE) is None
    with pytest.raises(UsageError, match="item 1: the sum of the scores up to it is too large, with 1e"):
        tally.add(Item(1, (), 0), {DEVICE: infinite}, equal=True, what="item 1")
    assert (tally.items, tally.mean(DEVICE)) == (1, 1e308)


def test_the_metric_that_suits_a_label() -> None:
    labels: list[Any] = [3, np.int64(3), torch.tensor(3), torch.zeros(7), 0.5]
    assert [ItemMetric.for_label(label).name for label in labels] == [*["top1"] * 3, *["mae"] * 2]
    assert class_of(True) is None


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


def test_what_is_raised_is_told_with_its_item() -> None:
    def broken() -> Iterator[tuple[torch.Tensor, int]]:
        yield Endless()[0]
        raise OSError("the disk is gone")

    items = DataSet.of(broken()).items([IMAGE], None)
    next(items)
    with pytest.raises(UsageError, match=r"item 1 raised OSError: the disk is gone \(test_metric.py:\d+\)"):
        next(items)
