"""A data set on the virtual boards: scores, equality with the reference, and errors in the middle that lose nothing."""

from __future__ import annotations

import dataclasses
import errno
import json
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.verdict import Standing
from ethos_hil.harness.campaign.place import RunPlace
from ethos_hil.harness.campaign.planned import share_of
from ethos_hil.harness.campaign.run_folder import EVALUATE, CampaignSubject
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.evaluate.chunks import Chunk, ChunkAnswer, ChunkJob, EvaluationJournal, FailedChunk, PlannedChunk
from ethos_hil.harness.testing.command import Run, assert_one_clear_line
from ethos_hil.harness.virtual.board import BoardPool
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.made_from import named_model
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
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

def mislabelled():
    return [(image, 7 if index == 3 else label) for index, (image, label) in enumerate(broken_free())]

def broken_free():
    data = Labelled()
    return [data[index] for index in range(6)]

def misshapen():
    return [(image, torch.zeros(3 if index == 4 else 5)) for index, (image, _) in enumerate(broken_free())]

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
    report = evaluated(ethos_hil, data, "labelled", "-j", 2)
    assert (report["verdict"], report["items"], report["equal_to_reference"]) == ("verified", 70, 70)
    assert report["metric"] == "top1"
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
    broken = evaluated(ethos_hil, data, "broken", status=2)
    assert (broken["verdict"], broken["items"], broken["equal_to_reference"]) == ("failed", 5, 5)
    assert "item 5 raised OSError: the disk is gone (data.py:" in broken["failure"]["message"]
    assert broken["failure"]["message"] in broken["err"]
    wrong = evaluated(ethos_hil, data, "mislabelled", status=2)
    assert wrong["items"] == 3
    assert "item 3: the label is 7, not a class from 0 to 4" in wrong["err"]
    shaped = evaluated(ethos_hil, data, "misshapen", "-j", 1, status=2)
    assert shaped["items"] == 4
    assert "item 4: the label is float32[3], output 0 is float32[1, 5]" in shaped["err"]
    for ended in (broken, wrong, shaped):
        (line,) = [line for line in ended["err"].splitlines() if not line.endswith("...")]
        assert line.startswith("ethos-hil: --data data.py:")


FACTS = (
    "verdict",
    "items",
    "equal_to_reference",
    "scores",
    "agreement",
    "sqnr_db",
    "confusion",
    "npu_cycles",
    "layers",
)


@pytest.mark.slow
def test_an_evaluation_is_resumed_divided_and_put_together(
    ethos_hil: Run, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scores are those of one that nothing interrupted."""
    monkeypatch.setattr("ethos_hil.harness.evaluate.evaluation._CHUNK_ITEMS", 2)

    def facts(*more: object, status: int = 0) -> dict[str, Any]:
        report = evaluated(ethos_hil, data, "interrupted", "-j", 2, *more, status=status)
        return {name: report[name] for name in FACTS}

    assert facts("--run-name", "one", status=2)["items"] == 9
    (data / "repaired").touch()
    resumed, whole = facts("--resume", "one"), facts()
    assert resumed == whole
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

    monkeypatch.setattr(named_model, "lower", sabotaged)
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


def small() -> TorchModel:
    torch.manual_seed(0)
    return from_module(torch.nn.Conv2d(2, 4, 3).eval(), (torch.randn(1, 2, 8, 8),))


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return lower(small(), NPU)


def test_arguments_that_cannot_be(ethos_hil: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # To wait for another process, which lowers the same model, is said in a second line.
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "cache"))
    (data / "my.ini").write_text("[System_Config.Slow]\ncore_clock=quick\n")
    for arguments, words in (
        (("--data", "data.py:labeled"), ["no function 'labeled'", "did you mean labelled?"]),
        (("--data", "absent.py:data"), ["no such file", "absent.py"]),
        (("--data", "data.py:classifier"), ["item 0"]),
        (("--data", "data.py:labelled", "--metric", "top2"), ["--metric 'top2' is not a metric", "top1, top5, mae"]),
        (("--data", "data.py:labelled", "-j", "1000"), ["--jobs is 1000"]),
        (("--data", "data.py:labelled", "--vela-ini", "my.ini", "--system-config", "Slow"), ["my.ini", "core_clock"]),
    ):
        assert_one_clear_line(ethos_hil("evaluate", "data.py:classifier", *arguments), 2, *words)
