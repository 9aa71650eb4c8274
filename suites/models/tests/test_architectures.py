"""The zoo's architectures: each is built, and its answer depends on its inputs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ethos_hil.suites.models import zoo
from ethos_hil.suites.models.zoo import structures
from ethos_hil.suites.models.zoo.architectures import ARCHITECTURES

PLACE = Path(__file__).resolve().parents[3] / "build/zoo"
"""Where `make zoo` has the packages."""
PACKAGES = ("torchvision", "timm", "transformers")
LEAST = 1e-3
"""Of the largest difference between two inputs' answers, to the largest answer, or to 1 where that is smaller."""


def names(origin: str) -> list[str]:
    return [architecture.name for architecture in ARCHITECTURES.values() if architecture.origin == origin]


def tensors(answer: Any) -> Iterator[torch.Tensor]:
    if isinstance(answer, torch.Tensor):
        yield answer.double()
    else:
        for part in answer.values() if isinstance(answer, dict) else answer:
            yield from tensors(part)


def check(name: str) -> None:
    method = getattr(zoo, name)()
    with torch.no_grad():
        answers = [list(tensors(method.module(*inputs))) for inputs in method.calibration_inputs]
    assert all(part.isfinite().all() for answer in answers for part in answer), f"{name}: not finite"
    apart = max(
        (one - other).abs().max() / one.abs().max().clamp(min=1) for one, other in zip(*answers[:2], strict=True)
    )
    assert apart > LEAST, f"{name}: inputs that differ have answers that differ by {apart:.1e}"


def test_there_are_120_of_four_origins_and_each_has_a_name_of_its_own() -> None:
    counts = {origin: len(names(origin)) for origin in ("own", *PACKAGES)}
    assert sum(counts.values()) == len(ARCHITECTURES) >= 120
    assert counts["transformers"] >= 20, counts
    assert all(name.isidentifier() for name in ARCHITECTURES)


@pytest.mark.parametrize("name", names("own"))
def test_an_architecture_of_ours_answers_what_it_is_asked(name: str) -> None:
    check(name)


def test_an_answer_that_does_not_depend_on_the_inputs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structures.PointNet, "forward", lambda self, points: self.head.bias[None])
    with pytest.raises(AssertionError, match=r"point_net: inputs that differ have answers that differ by 0\.0"):
        check("point_net")


@pytest.mark.slow
@pytest.mark.skipif(not (PLACE / ".installed").exists(), reason="needs the packages of `make build/zoo/.installed`")
@pytest.mark.parametrize("origin", PACKAGES)
def test_an_architecture_of_a_package_answers_what_it_is_asked(origin: str) -> None:
    """In a process of its own: other tests do without these packages."""
    program = f"from {__name__} import check, names\nfor name in names({origin!r}): check(name)"
    places = {"PYTHONPATH": os.pathsep.join([str(PLACE / "packages"), *sys.path])}
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, **places}, timeout=600)
