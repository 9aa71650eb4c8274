"""Profiles of networks in worker processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.suites.lab.profiles.trial import ProfileTrial, compared

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool
    from ethos_hil.lowering.model.torch_model import TorchModel

LIMIT_SECONDS = 600.0
"""For one network on one NPU. MobileNetV2 takes half a minute, most take seconds."""


@dataclass(frozen=True)
class ProfileJob:
    """A network, on some NPUs.

    Attributes:
        network: a model as `ethos-hil run` takes it, or the seed of a random network.
        npus: the NPUs.
    """

    network: str | int
    npus: Sequence[str]

    @property
    def name(self) -> str:
        """What the network is called."""
        return f"seed {self.network}" if isinstance(self.network, int) else self.network

    @property
    def count(self) -> int:
        """One trial for each NPU."""
        return len(self.npus)

    def prepare(self) -> Callable[[int], ProfileTrial]:
        """Make the network."""
        model = _model(self.network, self.name)

        def tried(item: int) -> ProfileTrial:
            with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
                return trial(model, self.npus[item], Path(folder), _pool())

        return tried

    def lost(self, item: int, reason: str) -> ProfileTrial:
        """Return the end of a trial that crashed, hung or raised."""
        return ProfileTrial(self.name, self.npus[item], problem=reason)


def trial(model: TorchModel, npu: str, cache_folder: Path, pool: BoardPool | None = None) -> ProfileTrial:
    """Lower a network, run it on the virtual board with both methods, and compare the rows."""
    from ethos_hil.base.errors import UsageError
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.base.question import Question
    from ethos_hil.harness.profile.options import ProfileMethod
    from ethos_hil.harness.run import run_artifact
    from ethos_hil.harness.targets.registry import make_target
    from ethos_hil.lowering.cache.store import Cache
    from ethos_hil.lowering.lower import lower

    name = EthosU.parse(npu)
    records = []
    try:
        artifact = lower(model, name, cache=Cache(cache_folder))
        for method in (ProfileMethod.SHARES, ProfileMethod.PREFIX):
            question = Question(
                model.label,
                npu=npu,
                allow_cpu_only=True,
                profile=True,
                found_by=method,
                events=("npu_active",),
                timeout=LIMIT_SECONDS,
            )
            records.append(run_artifact(artifact, make_target("virtual", name, pool=pool), question).record)
    except UsageError as error:
        return ProfileTrial(model.label, npu, refused=error.message)
    if not artifact.delegates:
        return ProfileTrial(model.label, npu, refused="nothing of it is on the NPU")
    return compared(model.label, *records)


def _model(network: str | int, name: str) -> TorchModel:
    from ethos_hil.lowering.model.torch_model import TorchModel, from_module, load_model
    from ethos_hil.suites.lab.prove.random_models.networks import network as drawn

    if isinstance(network, str):
        model = load_model(network)
        assert isinstance(model, TorchModel), "a program is profiled as it is: give its model"
        return model
    random = drawn(network)
    return from_module(random.module, random.inputs, label=name)


@cache
def _pool() -> BoardPool:
    """Return the boards of this worker. They end with it."""
    from ethos_hil.harness.virtual.board import BoardPool

    return BoardPool()
