"""An answer that is verified and useless: what shows it, where it is lost, and a remedy that works."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

import ethos_hil
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import FAR_DB, AccuracyLoss, Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.api import OpenTarget
from ethos_hil.harness.ask.lower_question import as_asked
from ethos_hil.harness.verdict.against_pytorch import accuracy
from ethos_hil.harness.verdict.loss import with_layer
from ethos_hil.harness.verdict.loss_signs import loss_signs
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import host_modules, lower
from ethos_hil.lowering.model.torch_model import HostModules, TorchModel, from_module
from ethos_hil.lowering.oracle.bounds.tolerance import step_of
from ethos_hil.results.text.record import summary

ASKED = Question("net", npu="ethos-u85-256", as_upstream=True)
Sets = list[tuple[Tensor, ...]]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


class Attention(nn.Module):
    """Scores with a mask, which is an input or is filled in."""

    def __init__(self, number: float | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.number = nn.Linear(16, 16), nn.Linear(16, 16), number
        self.hidden = torch.triu(torch.ones(12, 12, dtype=torch.bool), 1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        scores = scores + mask if self.number is None else scores.masked_fill(self.hidden, self.number)
        return torch.softmax(scores, -1) @ x


class Fused(nn.Module):
    """An attention as one operator, with a mask that is an input."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), x, attn_mask=mask)


class Longest(nn.Module):
    """A maximum over what is kept, for which the rest is filled with something low."""

    def __init__(self, number: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.head, self.number = nn.Conv1d(8, 16, 3, padding=1), nn.Linear(16, 8), number

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        best = torch.relu(self.layer(x)).masked_fill(keep == 0, self.number).amax(-1)
        return torch.sigmoid(self.head(best))


class Capsules(nn.Module):
    """Vectors of about 0.001, squashed; the product comes first, or the quotient."""

    def __init__(self, *, quotient_first: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Conv2d(1, 32, 5, stride=2, bias=False), nn.Conv2d(32, 64, 3, bias=False)
        self.quotient_first = quotient_first

    def forward(self, x: Tensor) -> Tensor:
        u = self.two(torch.relu(self.one(x))).reshape(x.shape[0], 8, -1)
        n = (u * u).sum(1, keepdim=True)
        return u * (torch.sqrt(n) / (1 + n)) if self.quotient_first else u * n / (1 + n) / torch.sqrt(n)


class Logarithms(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.log(torch.exp(4 * x) + 1e-3)


class WideRange(nn.Module):
    """One module has a range that 8 bits do not hold."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.wide, self.two = nn.Linear(16, 16), Logarithms(), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.wide(self.one(x)))


class Cancelling(nn.Module):
    """A layer adds a thousand, the next takes it away."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.large, self.two = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 10)
        self.offset = offset
        self.large.bias = nn.Parameter(self.large.bias.detach() + offset)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.large(torch.relu(self.one(x))) - self.offset)


def vectors(*shape: int, count: int = 4, scale: float = 1.0) -> Sets:
    torch.manual_seed(1)
    return [(scale * torch.randn(shape),) for _ in range(count)]


def with_mask(number: float) -> Sets:
    mask = torch.triu(torch.full((1, 12, 12), number), 1)
    return [(x, mask) for (x,) in vectors(1, 12, 16, scale=2.0)]


def texts() -> Sets:
    return [(x, (torch.rand(1, 1, 20) > 0.3).float()) for (x,) in vectors(1, 8, 20)]


def images() -> Sets:
    torch.manual_seed(1)
    return [(0.1 * torch.rand(1, 1, 12, 12),) for _ in range(4)]


def modules(module: nn.Module, sets: Sets, **changes: object) -> HostModules:
    model = as_asked(from_module(module.eval(), sets[0], sets), ASKED.but(**changes))
    assert isinstance(model, TorchModel)
    return host_modules(model, "forward", ASKED.but(**changes))


def level(module: nn.Module, sets: Sets, **changes: object) -> float:
    """The SQNR of the quantised module over some inputs, in dB."""
    hosts = modules(module, sets, **changes)
    answers = [hosts.answers([tensor.numpy() for tensor in tensors]) for tensors in sets]
    wanted, found = (np.concatenate([answer[side][0] for answer in answers]) for side in ("float", "quantised"))
    decibels = accuracy("", wanted, found).sqnr_db
    assert decibels is not None
    return decibels


def searched(module: nn.Module, sets: Sets) -> AccuracyLoss:
    """What is found of a loss."""
    model = from_module(module.eval(), sets[0], sets)
    arrays = [tuple(tensor.numpy() for tensor in tensors) for tensors in sets]
    return with_layer(AccuracyLoss(("output 0: SQNR",)), ASKED, "forward", arrays, lambda: model, print)


def number_in(text: str) -> float:
    """The number that is advised in place of a mask's."""
    found = re.search(r": (-?\d+) in its place masks as well", text)
    assert found is not None, text
    return float(found[1])


# --- Each remedy is applied to what it is given for, and works. ---


@pytest.mark.parametrize("module", [Attention(), Fused()], ids=["in parts", "fused"])
def test_a_mask_as_an_input(module: nn.Module) -> None:
    sets = with_mask(-1e9)
    loss = searched(module, sets)
    assert "input 1 (mask) has -1e+09, which takes the range" in loss.remedy
    assert level(module, sets) < FAR_DB
    good = with_mask(number_in(loss.remedy))
    assert level(module, good) > FAR_DB + 10
    # And it masks as well: the float model answers the same but for less than a step of a softmax in 8 bits.
    for (x, mask), (_, other) in zip(sets, good, strict=True):
        with torch.no_grad():
            assert float((module(x, mask) - module(x, other)).abs().max()) < float(x.abs().max()) / 256


def test_a_mask_that_is_filled_in() -> None:
    loss = searched(Attention(-1e9), vectors(1, 12, 16))
    assert re.match(r"aten.masked_fill.Scalar at \S*test_loss.py:\d+ has -1e\+09", loss.remedy)
    assert level(Attention(-1e9), vectors(1, 12, 16)) < FAR_DB
    assert level(Attention(number_in(loss.remedy)), vectors(1, 12, 16)) > FAR_DB + 10


def test_a_constant_answer() -> None:
    loss = searched(Longest(-1e9), texts())
    assert "masked_fill" in loss.remedy
    assert level(Longest(number_in(loss.remedy)), texts()) > level(Longest(-1e9), texts()) + 10


def test_numbers_that_are_too_small() -> None:
    module = Capsules(quotient_first=False)
    loss = searched(module, images())
    assert "dividing before multiplying" in loss.remedy
    assert loss.aten == "aten.mul.Tensor"
    assert level(module, images()) < FAR_DB
    assert level(module, images(), scheme="a16w8") < FAR_DB  # so this is not what is advised
    assert level(Capsules(quotient_first=True), images()) > level(module, images()) + 10


def test_bits_for_one_module() -> None:
    loss = searched(WideRange(), vectors(1, 16))
    assert (loss.aten, loss.module) == ("aten.log.default", "wide")
    assert level(WideRange(), vectors(1, 16)) < FAR_DB
    better = level(WideRange(), vectors(1, 16), int16=("wide",))
    assert loss.remedy == f"--int16 wide: {better:.1f} dB in PyTorch"
    assert better > FAR_DB


def test_large_numbers_that_cancel() -> None:
    """The layer is the difference, not one that has a larger error of its own."""
    loss = searched(Cancelling(1000.0), vectors(1, 16))
    assert loss.aten == "aten.sub.Tensor"
    assert "take out before what they have in common" in loss.remedy
    assert level(Cancelling(1000.0), vectors(1, 16)) < FAR_DB < level(Cancelling(0.0), vectors(1, 16)) - 10


def test_nothing_is_named_where_nothing_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr("ethos_hil.lowering.upstream.loss_cause.cause_of", nothing)
    assert searched(Cancelling(1000.0), vectors(1, 16)).remedy.startswith("16 bits do not help")


# --- Signs. ---


@pytest.fixture(scope="module")
def program() -> Artifact:
    """A quantised program with one input and one output of floats, of four classes."""
    torch.manual_seed(0)
    return lower(from_module(nn.Linear(16, 4), (torch.randn(1, 16),)), EthosU.parse("ethos-u55-128"))


def signs(program: Artifact, wanted: np.ndarray, found: np.ndarray) -> tuple[str, ...]:
    """What is said of an output."""
    loss = loss_signs(program, [program.example_inputs], [(wanted,)], [(found,)])
    return loss.outputs if loss is not None else ()


SCORES = np.random.default_rng(0).normal(size=(20, 4))
MOVED = np.roll(SCORES, 1, axis=-1)


def test_signs_of_outputs(program: Artifact, recorded: Recorded) -> None:
    step = step_of(program.plan, program.plan.outputs[0])
    assert 0 < step < 0.1
    close = 1000 + 0.01 * SCORES  # a constant beside it has 100 dB
    indices = np.arange(20)
    cases = {
        "near": (SCORES, SCORES + step / 2),
        "noise": (SCORES, SCORES + 0.3),
        "elsewhere": (SCORES, MOVED),
        "a constant": (close, np.full_like(close, 1000.0)),
        "a constant in both": (np.full((3, 4), 0.5), np.full((3, 4), 0.75)),
        "maxima too close to one another": (step * SCORES / 10, step * MOVED / 10 + 5.0),
        "indices": (indices, np.where(indices < 14, indices, 0)),
        "wrong indices": (indices, np.where(indices < 3, indices, 0)),
        "truth": (indices > 3, indices > 4),
        "zeros": (np.zeros(4), np.zeros(4)),
    }
    recorded.check([[name, *signs(program, *pair)] for name, pair in cases.items()])
    floats = dataclasses.replace(program, scheme=None)
    assert loss_signs(floats, [program.example_inputs], [(SCORES,)], [(MOVED,)]) is None


def test_the_signs_of_an_output_are_over_all_executions(program: Artifact) -> None:
    """One class in each: it is no constant, where another input set has another one."""
    ones = [(np.full((1, 4), float(number)),) for number in range(4)]
    assert loss_signs(program, [program.example_inputs], ones, ones) is None
    constant = loss_signs(program, [program.example_inputs], ones, ones[1:2] * 4)
    assert constant is not None
    assert "it is 1 everywhere, and is not in PyTorch" in constant.outputs[0]


def test_inputs_beyond_their_range(program: Artifact) -> None:
    examples = program.example_inputs
    assert loss_signs(program, [examples], [program.floating], [program.floating]) is None
    larger = loss_signs(program, [(20 * examples[0],)], [program.floating], [program.floating])
    assert larger is not None
    assert larger.outputs == ()
    assert re.fullmatch(r"input 0: \d+ of 16 elements are beyond -\S+ to \S+, which it .*", larger.inputs[0])


# --- On a board. ---


@pytest.fixture(scope="module")
def board() -> Iterator[OpenTarget]:
    with ethos_hil.target(npu="ethos-u85-256") as target:
        yield target


def test_a_run_says_it_beside_the_verdict(board: OpenTarget) -> None:
    """The answer stays verified; the record has the loss, and reads it again."""
    sets = texts()
    result = board.run(Longest(-1e9), sets[0], calibrate=sets, as_upstream=True)
    assert result.verified
    text = on(summary(result.record))
    assert text.startswith("verified, but far from the float model")
    assert text.index("everywhere, and is not in PyTorch") < text.index("masked_fill") < text.index("npu cycles")
    assert Record.from_json(result.record.to_json()).loss == result.record.loss
    assert result.record.loss is not None
    number = number_in(result.record.loss.remedy)
    good = board.run(Longest(number), sets[0], calibrate=sets, as_upstream=True)
    assert good.record.loss is None
    assert "explaining_seconds" not in [metric.name for metric in good.record.metrics]


def test_saturated_inputs_are_to_be_calibrated_with(board: OpenTarget) -> None:
    torch.manual_seed(0)
    module, small = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)), vectors(1, 16)
    large = vectors(1, 16, scale=20.0)
    loss = board.run(module, large, calibrate=small).record.loss
    assert loss is not None
    assert loss.inputs
    assert loss.remedy.startswith("calibrate with inputs like these (--calibrate X.npz): ")
    assert board.run(module, large, calibrate=large).record.loss is None


def test_a_limit_of_the_users_names_the_layer(board: OpenTarget) -> None:
    """Also an answer that is only farther away than the user allows."""
    record = board.run(WideRange(), vectors(1, 16)[0], min_sqnr=60.0).record
    assert (record.verdict, record.kind) == (Verdict.FAILED, FailureKind.ACCURACY)
    assert record.loss is not None
    assert record.loss.module == "wide"


def on(content: object) -> str:
    console = Console(width=400, file=io.StringIO(), color_system=None)
    console.print(content)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
