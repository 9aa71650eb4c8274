"""Odd models, lowered and computed: each must end well or in a clear refusal."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.suites.lab.damage import loop
from ethos_hil.suites.lab.damage.loop import CRASHED, DamageEnding
from ethos_hil.suites.lab.damage.odd_models import Odd, odd_models
from ethos_hil.suites.lab.options import CORES, Jobs, JsonFile

TARGETS = ("ethos-u55-128", "ethos-u85-256", "TOSA-1.0+INT", "TOSA-1.0+FP")
_HANG_SECONDS = 120.0
_BLOCK = 20
OK, REFUSED, STOPPED, UNCLEAR, HANG = "ok", "refused", "stopped", "unclear", "hang"
OUTCOMES = (OK, REFUSED, STOPPED, UNCLEAR, CRASHED, HANG)
"""STOPPED: a tool's process ended, and a message says where. UNCLEAR: a message that names internals, without advice.
CRASHED, HANG: of the process that lowers."""
_UNCLEAR = re.compile(
    r"AssertionError|KeyError|IndexError|AttributeError|UnboundLocalError|NotImplementedError|ZeroDivisionError|"
    r"TypeError|StopIteration|RecursionError|Traceback"
)
"""Names of exceptions that say nothing to a user."""


@dataclass(frozen=True)
class OddModels:
    """The odd models, one target after the other.

    Attributes:
        names: the models.
        targets: NPUs, or a TOSA.
        text: what the names were chosen by.
    """

    names: tuple[str, ...]
    targets: tuple[str, ...] = TARGETS
    text: str = ""
    title = "Lowering odd models"
    seconds = _HANG_SECONDS
    outcomes = OUTCOMES

    @property
    def command(self) -> str:
        """The words of its command line."""
        options = [f"--target {target}" for target in self.targets if self.targets != TARGETS]
        options += [f"--name '{self.text}'"] if self.text else []
        return " ".join(("odd-models", *options))

    def place(self, number: int) -> tuple[str, str]:
        """Return target and model of a number."""
        turn, place = divmod(number, len(self.names))
        return self.targets[turn], self.names[place]

    def kin(self, number: int) -> tuple[int, int]:
        """Return target and block."""
        turn, place = divmod(number, len(self.names))
        return turn, place // _BLOCK

    def prepare(self, number: int) -> Callable[[int], DamageEnding]:
        """Import what lowers."""
        from ethos_hil.lowering.upstream.toolchain import import_executorch

        import_executorch()
        models = odd_models()
        return lambda number: self._examined(number, models)

    def lost(self, number: int, reason: str) -> DamageEnding:
        """Return the ending of a model that ended its process, or did not end."""
        return self._ending(number, HANG if reason.startswith("no end") else CRASHED, reason)

    def _examined(self, number: int, models: Mapping[str, Callable[[], Odd]]) -> DamageEnding:
        from ethos_hil.base.errors import EthosHilError, causes
        from ethos_hil.lowering.native.worker import NativeCrash

        target, name = self.place(number)
        try:
            _compute(name, target, models)
        except EthosHilError as error:
            advised = error.hint is not None and "--debug" not in error.hint
            unclear = not advised and (_UNCLEAR.search(error.message) is not None or error.message.endswith(":"))
            stopped = any(isinstance(link, NativeCrash) for link in causes(error))
            outcome = STOPPED if stopped else UNCLEAR if unclear else REFUSED
            return self._ending(number, outcome, f"{error.message} [{error.hint}]")
        except Exception as error:
            return self._ending(number, UNCLEAR, f"{type(error).__name__}: {error}")
        return self._ending(number, OK, "")

    def _ending(self, number: int, outcome: str, message: str) -> DamageEnding:
        target, name = self.place(number)
        finding = f"{outcome}: {message}" if outcome in (UNCLEAR, CRASHED, HANG) else ""
        return DamageEnding(number, f"{name} for {target}", target, outcome, message=message, finding=finding)


def _compute(name: str, target: str, models: Mapping[str, Callable[[], Odd]]) -> None:
    """Lower a model from an empty cache, and compute its reference."""
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.lowering.cache.store import Cache
    from ethos_hil.lowering.formats.tosa_spec import TosaSpec
    from ethos_hil.lowering.lower import lower
    from ethos_hil.lowering.model.torch_model import from_module
    from ethos_hil.lowering.oracle.reference import Reference

    module, inputs = models[name]()
    model = from_module(module, inputs, label=name)
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        spec = TosaSpec.parse(target) if target.startswith("TOSA") else EthosU.parse(target)
        artifact = lower(model, spec, cache=Cache(Path(folder)))
        Reference(artifact).run(artifact.example_inputs)


def main(
    target: Annotated[list[str] | None, typer.Option(help=f"Default: {', '.join(TARGETS)}.")] = None,
    name: Annotated[str, typer.Option(metavar="TEXT", help="Only models with this in their name.")] = "",
    first: loop.First = 0,
    only: loop.Only = None,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
) -> None:
    """Lower odd models and compute their answers. Find crashes, hangs and messages that name internals."""
    names = tuple(odd for odd in odd_models() if name in odd)
    subject = OddModels(names, tuple(target or TARGETS), name)
    count = len(names) * len(subject.targets) - first
    loop.damage(subject, count=count, first=first, only=only, jobs=jobs, json_file=json_file)
