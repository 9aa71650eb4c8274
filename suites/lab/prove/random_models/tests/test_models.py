"""PyTorch models that meet known defects are exact on all families; the tools say what was done, and where.

The command counts how networks end; a refusal without a line or advice is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.suites.lab.prove.random_models.networks import Drawn, NetworkStep, RandomNetwork, network
from ethos_hil.suites.lab.prove.random_models.trial import NetworkEnding, problems_of, refused, trial

pytestmark = pytest.mark.product

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


def two_outputs(module: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    y = torch.relu(module.a(x))
    return y, module.b(y)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    # The query of an attention, as transformers take it from one dense layer; Vela crashes on it for U55 and U65.
    "query": (lambda: module_of(lambda x: torch.relu((x * 2)[1])), (3, 2, 4, 5, 6)),
    "two outputs": (
        lambda: keeping(two_outputs, a=nn.Conv2d(3, 6, 3, padding=1), b=nn.Conv2d(6, 5, 3, padding=1)),
        (1, 3, 8, 8),
    ),
    "dense layers": (lambda: nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 64)), (1, 32, 64)),
}


def lowered(name: str, npu: str, folder: Path, *, as_upstream: bool = False) -> Artifact:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model = from_module(make().eval(), (torch.rand(shape),), label=name)
    return lower(model, EthosU.parse(npu), cache=Cache(folder), as_upstream=as_upstream)


@pytest.mark.slow
@pytest.mark.parametrize("npu", [NPUS[0], pytest.param(NPUS[1], marks=pytest.mark.proof), NPUS[2]])
@pytest.mark.parametrize("name", MODELS)
def test_models_are_exact(name: str, npu: str, tmp_path: Path) -> None:
    artifact = lowered(name, npu, tmp_path)
    assert artifact.delegates
    assert [problem for delegate in artifact.delegates for problem in problems_of(delegate, npu, 0)] == []


@pytest.mark.slow
def test_a_note_says_what_was_repaired_and_where(tmp_path: Path) -> None:
    artifact = lowered("two outputs", NPUS[0], tmp_path)
    (note,), (delegate,) = artifact.notes, artifact.delegates
    assert note.startswith("vela-dropped-output: the TOSA program was rewritten (at conv2d.default in a at test_models")
    assert delegate.defects == ("vela-dropped-output",)
    assert delegate.compiled not in (None, delegate.tosa)
    left = lowered("two outputs", NPUS[0], tmp_path, as_upstream=True)
    assert left.key != artifact.key
    assert [note.split(" (")[0] for note in left.notes] == ["vela-dropped-output: not repaired, as asked"]
    assert (left.delegates[0].compiled, left.delegates[0].tosa) == (None, delegate.tosa)
    assert len(left.delegates[0].blob.outputs) == 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*(pytest.param(seed, marks=pytest.mark.proof) for seed in (18, 20)), 3007])
def test_networks_that_meet_defects_are_verified(seed: int, tmp_path: Path) -> None:
    done = trial(network(seed), NPUS[0], tmp_path)
    assert done.ending is NetworkEnding.VERIFIED, done
    assert done.defects


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        (lambda count: count + (2**31 - 2), "tosa_reference_model reports TOSA_UNPREDICTABLE for delegate 0 with rand"),
        (lambda count: count * (2**30), "random inputs: int32 overflows in TOSA operator"),
    ],
    ids=["sum", "product"],
)
def test_an_answer_that_tosa_does_not_define_is_an_ending_of_its_own(
    layer: Callable[[torch.Tensor], torch.Tensor], told: str, tmp_path: Path
) -> None:
    """What random numbers make of these overflows; what the example makes does not."""
    steps = (NetworkStep("layer", module_of(layer), (), 1),)
    inputs = (torch.zeros(1, 4, dtype=torch.int32),)
    drawn = Drawn(0, RandomNetwork(steps, (1,)).eval(), inputs, steps, "a8w8", ())
    done = trial(drawn, NPUS[0], tmp_path)
    assert (done.ending, done.ending.failed) == (NetworkEnding.UNDEFINED, False), done
    assert done.detail.startswith(told)


def test_a_refusal_needs_a_line_and_advice() -> None:
    message = "aten.sort at nets.py:7 is none"
    refusals = [(message, "end before it"), ("aten.sort is none", "end before it"), (message, None)]
    refusals.append((message, "--debug shows the whole traceback"))
    endings = [refused(network(0), NPUS[0], CompileError(message, hint=hint)).ending for message, hint in refusals]
    assert endings == [NetworkEnding.REFUSED, *[NetworkEnding.UNCLEAR] * 3]
    assert [ending.failed for ending in endings] == [False, True, True, True]
