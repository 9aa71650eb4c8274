"""A data set on the virtual boards: scores, equality with the reference, and errors in the middle that lose nothing."""

from __future__ import annotations

import dataclasses
import errno
import json
import pickle
import re
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Standing
from ethos_hil.harness.campaign.place import RunPlace
from ethos_hil.harness.campaign.planned import share_of
from ethos_hil.harness.campaign.run_folder import EVALUATE, CampaignSubject
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.evaluate.chunks import Chunk, ChunkAnswer, ChunkJob, EvaluationJournal, FailedChunk, PlannedChunk
from ethos_hil.harness.evaluate.dataset import DataSet, Item
from ethos_hil.harness.evaluate.metric import DEVICE, FLOAT, QUANTISED, ItemMetric, ScoreTally, class_of
from ethos_hil.harness.testing.command import Run, assert_one_clear_line, check_errors
from ethos_hil.harness.testing.refusals import refusal
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import Tensor
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.results.gate.account import take_account
from ethos_hil.results.run_results import read_results

NPU = EthosU.parse("ethos-u55-128")
OFM_ZERO_POINT = 0x118  # NPU_SET_OFM_ZERO_POINT of Vela's wheel
DATA = """
import ethos_hil
import torch
from net import Net

class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 4, 3)
        self.dense = torch.nn.Linear(144, 5)

    def forward(self, x):
        return self.dense(torch.relu(self.conv(x)).flatten(1))

def classifier():
    torch.manual_seed(0)
    return Classifier(), (torch.randn(1, 2, 8, 8),)

def fresh():
    ethos_hil.depends_on(fresh=True)
    return classifier()

class Labelled(torch.utils.data.Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.images = torch.randn(70, 2, 8, 8, generator=generator)
        with torch.no_grad():
            self.labels = classifier()[0](self.images).argmax(-1)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.images[index], int(self.labels[index])

def labelled():
    return Labelled()

def broken():
    data = Labelled()
    for index in range(6):
        if index == 5:
            raise OSError("the disk is gone")
        yield data[index]

def broken_free():
    data = Labelled()
    return [data[index] for index in range(6)]

def mislabelled():
    return [(image, 7 if index == 3 else label) for index, (image, label) in enumerate(broken_free())]

def regression():
    return [(image, torch.zeros(5)) for image, _ in broken_free()]

def interrupted():
    from pathlib import Path
    for index, item in enumerate(broken_free() + broken_free()):
        if index == 9 and not Path("repaired").exists():
            raise OSError("the disk is gone")
        yield item
"""


@pytest.fixture
def data(here: Path) -> Path:
    (here / "data.py").write_text(DATA)
    return here


def evaluated(
    ethos_hil: Run, data: Path, name: str, *more: object, status: int = 0, model: str = "classifier"
) -> dict[str, Any]:
    report = data / "report.json"
    result = ethos_hil("evaluate", f"data.py:{model}", "--data", f"data.py:{name}", "--json", report, *more)
    assert result.status == status, result.err
    document: dict[str, Any] = json.loads(report.read_text())
    return document | {"out": result.out, "err": result.err}


@pytest.mark.slow
def test_a_data_set_is_scored_and_every_answer_compared(ethos_hil: Run, data: Path) -> None:
    report = evaluated(ethos_hil, data, "labelled", "-j", 1)
    assert (report["verdict"], report["items"], report["equal_to_reference"]) == ("verified", 70, 70)
    assert report["metric"] == "top1"
    assert 0 < report["sqnr_db"]["quantised"] < 100  # of the float model itself it would be infinite
    assert report["scores"]["float"] == 1.0  # the labels are the float model's own
    assert report["scores"]["device"] == report["agreement"]["float-device"] > 0.5
    assert (
        sum(count for label, chosen, count in report["confusion"] if label == chosen) == 70 * report["scores"]["device"]
    )
    assert report["npu_cycles"]["min"] == report["npu_cycles"]["max"] > 0
    assert report["npu_cycles"]["provenance"] == "modelled"
    assert {"aten.conv2d.default", "aten.linear.default"} <= {layer["aten"] for layer in report["layers"]}
    alone = [layer["alone_db"] for layer in report["layers"]]
    assert alone == sorted(alone)

    limited = evaluated(ethos_hil, data, "regression", "--limit", 4, "-j", 1)
    assert (limited["metric"], limited["items"]) == ("mae", 4)
    assert limited["confusion"] == []

    # What was done before an error is kept, and the item named.
    for name, items, message in (
        ("broken", 5, "item 5 raised OSError: the disk is gone (data.py:"),
        ("mislabelled", 3, "item 3: the label is 7, not a class from 0 to 4"),
    ):
        ended = evaluated(ethos_hil, data, name, "-j", 1, status=2)
        assert (ended["verdict"], ended["items"], ended["equal_to_reference"]) == ("failed", items, items)
        (line,) = [line for line in ended["err"].splitlines() if not line.endswith("...")]
        assert line.startswith("ethos-hil: --data data.py:")
        assert message in line
        assert ended["failure"]["message"] in line


FACTS = (
    *("verdict", "items", "equal_to_reference", "scores", "agreement", "sqnr_db"),
    *("confusion", "npu_cycles", "layers"),
)


@pytest.mark.slow
def test_an_evaluation_is_resumed_divided_and_put_together(
    ethos_hil: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scores are those of one that nothing interrupted, which is divided."""
    monkeypatch.setattr("ethos_hil.harness.evaluate.evaluation._CHUNK_ITEMS", 2)

    def facts(*more: object, status: int = 0) -> dict[str, Any]:
        report = evaluated(ethos_hil, data, "interrupted", "-j", 1, *more, status=status)
        return {name: report[name] for name in FACTS}

    assert facts("--run-name", "one", status=2)["items"] == 9
    (data / "repaired").touch()
    whole = facts("--resume", "one")
    assert whole["items"] == 12
    with monkeypatch.context() as nothing:
        nothing.setattr(ChunkJob, "__init__", None)
        assert facts("--resume", "one") == whole

    for number in (1, 2):
        facts("--shard", f"{number}/2", "--run-name", "two", "--runs", "shards")
    assert facts("--merge", "shards") == whole

    (data / "data.py").write_text(DATA.replace("manual_seed(1)", "manual_seed(2)"))
    result = ethos_hil("evaluate", "data.py:classifier", "--data", "data.py:interrupted", "--resume", "one")
    assert_one_clear_line(result, 2, "the run one is of another model, or it has changed")


def test_a_data_set_that_says_its_length_is_planned_before_anything_runs(tmp_path: Path) -> None:
    """What a shard that is killed then has no answer of is missing, question by question."""
    question, subject = Question("net.py:net"), CampaignSubject(EVALUATE, "plan", {}, shard="1/2")
    with RunPlace(tmp_path, "one").opened(subject) as run:
        for shard in (Shard(1, 2), Shard(2, 2)):
            EvaluationJournal(run, question, shard).foresee(130, 64)
            chosen = read_results(run.folders, may_be_empty=True)
            lost = [test.record.run for test in take_account(chosen).tests if test.standing is Standing.MISSING]
            plan = [PlannedChunk(question, "net.py:net", more=str(chunk), chunk=chunk) for chunk in CHUNKS]
            assert [str(planned.chunk) for planned in plan] == ["items 0 to 63", "items 64 to 127", "items 128 to 129"]
            mine = [planned.digest for planned in share_of(plan, shard)]
            assert [test.planned for selection in chosen.selections for test in selection.tests] == mine
            assert len(lost) == len(mine) > 0


CHUNKS = [Chunk(first, ((),) * count) for first, count in ((0, 64), (64, 64), (128, 2))]


@pytest.mark.slow
def test_a_device_that_answers_otherwise_is_no_success(
    ethos_hil: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program's command stream writes another zero point than it was compiled with."""

    def sabotaged(*args: Any, **settings: Any) -> Artifact:
        artifact = lower(*args, **settings)
        (delegate,) = artifact.delegates
        blob = bytearray(delegate.vela)
        start = delegate.vela.index(delegate.blob.command_stream)
        for at in range(start, start + len(delegate.blob.command_stream), 4):
            (word,) = struct.unpack_from("<I", blob, at)
            if word & 0xFFFF == OFM_ZERO_POINT:
                struct.pack_into("<I", blob, at, word ^ 1 << 16)
        return dataclasses.replace(artifact, pte=artifact.pte.replace(delegate.vela, bytes(blob)))

    monkeypatch.setattr("ethos_hil.lowering.lower.lower", sabotaged)
    report = evaluated(ethos_hil, data, "broken_free", "-j", 1, status=1, model="fresh")
    assert any("data.py asks for that: depends_on(fresh=True)" in note for note in report["notes"])
    assert report["verdict"] == "failed"
    assert report["failure"]["kind"] == "mismatch"
    assert report["items"] == 6
    assert report["equal_to_reference"] < 6


class Scarce(tuple[Any, ...]):
    """Input sets that are not to be had."""

    def __iter__(self) -> Iterator[Any]:
        raise OSError(errno.EMFILE, "Too many open files")


def test_what_a_worker_raises_keeps_its_kind_and_status(artifact: Artifact) -> None:
    chunks = (
        Chunk(0, ((np.zeros((1, 2, 8, 8), np.int8),),)),
        Chunk(1, Scarce()),
        Chunk(2, (artifact.example_inputs,)),  # it goes on
    )
    planned = tuple(PlannedChunk(Question("classifier"), "classifier", chunk=chunk) for chunk in chunks)
    with BoardPool() as pool:
        wrong, scarce, right = ChunkJob(planned, program=pickle.dumps(artifact)).answers(pool)
    assert isinstance(wrong, FailedChunk)
    assert isinstance(wrong.error, UsageError)
    assert "input 0 is int8" in wrong.error.message
    assert (wrong.error.exit_status, wrong.error.kind, wrong.record.kind) == (2, "usage", "usage")
    assert isinstance(scarce, FailedChunk)
    assert isinstance(scarce.error, ToolError)
    assert "too many open files" in scarce.error.message
    assert isinstance(right, ChunkAnswer)
    assert right.equal == (True,)


@pytest.fixture
def artifact() -> Artifact:
    torch.manual_seed(0)
    return lower(from_module(torch.nn.Conv2d(2, 4, 3).eval(), (torch.randn(1, 2, 8, 8),)), NPU)


def test_arguments_that_cannot_be(
    ethos_hil: Run, data: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch,
    recorded: Recorded,
) -> None:  # fmt: skip
    # To wait for another process, which lowers the same model, is said in a second line.
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path_factory.mktemp("cache")))
    (data / "my.ini").write_text("[System_Config.Slow]\ncore_clock=quick\n")
    check_errors(recorded, ethos_hil, "evaluate data.py:classifier --data", [
        "data.py:labeled", "absent.py:data", "data.py:classifier", "data.py:labelled --metric top2",
        "data.py:labelled -j 1000", "data.py:labelled --vela-ini my.ini --system-config Slow",
    ], lowers=True)  # fmt: skip


INF, NAN = np.inf, np.nan
SCORES = (np.array([[0.1, 0.9, 0.9, 0.3, 0.2, 0.05, -1.0]], np.float32),)


def test_scores_of_classes_and_numbers_and_of_a_function_and_the_metric_that_suits_a_label() -> None:
    for name, label, score in (
        ("top1", 1, 1.0), ("top1", 2, 0.0), ("top5", 0, 1.0), ("top5", 5, 0.0), ("top1", torch.tensor([1]), 1.0),
    ):  # fmt: skip
        assert ItemMetric.parse(name).score(SCORES, label, "item 0") == score
    outputs = (np.array([[1, 2, 4]], np.int8),)
    assert ItemMetric.parse("mae").score(outputs, torch.tensor([1.0, 1.0, 1.0]), "item 0") == pytest.approx(4 / 3)
    assert ItemMetric("mine", lambda outputs, label: outputs[0][0, label]).score(SCORES, 3, "") == pytest.approx(0.3)
    assert ItemMetric.parse("top1").score((np.array([0, -INF, INF]),), 2, "") == 1, "a class that is ruled out"
    labels: list[Any] = [3, np.int64(3), torch.tensor(3), torch.zeros(7), 0.5]
    assert [ItemMetric.for_label(label).name for label in labels] == [*["top1"] * 3, *["mae"] * 2]
    assert class_of(True) is None


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
    answers = {what: refusal(ask) for what, ask in REFUSED.items()}
    recorded.check({what: re.sub(r"(?<=\.py:)\d+|(?<=TypeError: ).*", "...", text) for what, text in answers.items()})


def test_a_sum_is_never_infinite_and_a_noise_never_nan() -> None:
    tally = ScoreTally(ItemMetric("mine", lambda outputs, label: 1e308))
    infinite = (np.array([[1, INF]]),)
    tally.add(Item(0, (), 0), {FLOAT: infinite, DEVICE: infinite}, equal=True, what="item 0")
    assert tally.sqnr(DEVICE) is None
    with pytest.raises(UsageError, match="item 1: the sum of the scores up to it is too large, with 1e"):
        tally.add(Item(1, (), 0), {DEVICE: infinite}, equal=True, what="item 1")
    assert (tally.items, tally.mean(DEVICE)) == (1, 1e308)


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


def test_integers_are_counted_and_have_no_sqnr() -> None:
    """Indices of maxima and truth values beside floats, which have the SQNR that they have alone."""
    tally, alone = ScoreTally(METRIC), ScoreTally(METRIC)
    scores, found, index, other = np.array([1.0, 2.0]), np.array([1.0, 2.5]), np.array([7, 3]), np.array([7, 900])
    truth = np.array([True])
    answers = {FLOAT: (scores, index, truth), DEVICE: (found, other, truth), QUANTISED: (scores, index, ~truth)}
    tally.add(Item(0, (), None), answers, equal=True, what="item 0")
    alone.add(Item(0, (), None), {name: arrays[:1] for name, arrays in answers.items()}, equal=True, what="item 0")
    assert (tally.integers, dict(tally.equal_integers)) == (3, {DEVICE: 2, QUANTISED: 2})
    assert tally.sqnr(DEVICE) == alone.sqnr(DEVICE)
    assert alone.sqnr(DEVICE) == pytest.approx(10 * np.log10(5 / 0.25))
    only = ScoreTally(METRIC)
    only.add(Item(0, (), None), {FLOAT: (index,), DEVICE: (other,)}, equal=True, what="item 0")
    assert only.sqnr(DEVICE) is None


METRIC = ItemMetric("mine", lambda outputs, label: 1.0)


def test_every_form() -> None:
    for data in (
        Endless(),
        torch.utils.data.DataLoader(Endless(), batch_size=1),
        [Endless()[index] for index in range(3)],
        [((torch.full((3, 4, 4), float(index)),), index) for index in range(3)],
        generated(),
    ):
        assert numbers(data) == [0, 1, 2]


def test_a_limit_reads_no_more() -> None:
    def two() -> Iterator[tuple[np.ndarray, int]]:
        yield from list(generated())[:2]
        raise OSError("a third item is read")

    assert numbers(two(), 2) == [0, 1]
    with pytest.raises(UsageError, match=r"item 2 raised OSError: a third item is read \(test_evaluation.py:\d+\)"):
        numbers(two())
    assert DataSet.of(Endless()).count == 3
    assert DataSet.of(two()).count is None
