"""One odd model, lowered and computed. A crash or a hang of the process is a result too."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

HANG_SECONDS = 120.0
GOOD = ("ok", "refused", "stopped")
_UNCLEAR = re.compile(
    r"AssertionError|KeyError|IndexError|AttributeError|UnboundLocalError|NotImplementedError|ZeroDivisionError|"
    r"TypeError|StopIteration|RecursionError|Traceback"
)
"""Names of exceptions that say nothing to a user."""


@dataclass(frozen=True)
class OddEnding:
    """How a trial ended.

    Attributes:
        name: the model's.
        target: what it was lowered to.
        outcome: "ok", "refused" (with a clear message), "stopped" (a tool's process ended, and a message says where),
            "unclear" (a message that names internals, without advice), "crash" or "hang" (of the process that lowers).
        said: the error's message.
    """

    name: str
    target: str
    outcome: str
    said: str = ""


@dataclass(frozen=True)
class OddJob:
    """Odd models for one target.

    Attributes:
        target: an NPU, or a TOSA.
        seed: of the drawn models.
        names: the models.
    """

    target: str
    seed: int
    names: tuple[str, ...]

    @property
    def count(self) -> int:
        """One item for each model."""
        return len(self.names)

    def prepare(self) -> Callable[[int], OddEnding]:
        """Import what lowers."""
        from ethos_hil.lowering.upstream.process import import_executorch
        from ethos_hil.suites.lab.fuzz.models.odd import odd_models

        import_executorch()
        models = odd_models(self.seed)
        return lambda item: self._tried(self.names[item], models)

    def _tried(self, name: str, models: Mapping[str, Callable[[], object]]) -> OddEnding:
        from ethos_hil.base.errors import EthosHilError, causes
        from ethos_hil.lowering.native.worker import NativeCrash

        try:
            self._lowered(name, models)
        except EthosHilError as error:
            advised = error.hint is not None and "--debug" not in error.hint
            unclear = not advised and (_UNCLEAR.search(error.message) is not None or error.message.endswith(":"))
            message = f"{error.message} [{error.hint}]"
            stopped = any(isinstance(link, NativeCrash) for link in causes(error))
            return OddEnding(name, self.target, "stopped" if stopped else "unclear" if unclear else "refused", message)
        except Exception as error:
            return OddEnding(name, self.target, "unclear", f"{type(error).__name__}: {error}")
        return OddEnding(name, self.target, "ok")

    def _lowered(self, name: str, models: Mapping[str, Callable[[], object]]) -> None:
        from ethos_hil.base.npu.ethos_u import EthosU
        from ethos_hil.lowering.cache.store import Cache
        from ethos_hil.lowering.formats.tosa_spec import TosaSpec
        from ethos_hil.lowering.lower import lower
        from ethos_hil.lowering.model.torch_model import from_module
        from ethos_hil.lowering.oracle.reference import Reference

        tosa = self.target.startswith("TOSA")
        parts = models[name]()
        assert isinstance(parts, tuple)
        module, inputs, calibration = parts
        model = from_module(module, inputs, calibration, label=name)
        with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
            target = TosaSpec.parse(self.target) if tosa else EthosU.parse(self.target)
            artifact = lower(model, target, cache=Cache(Path(folder)))
            Reference(artifact).run(artifact.example_inputs)

    def lost(self, item: int, reason: str) -> OddEnding:
        """Return the result of a model that ended its process, or did not end."""
        return OddEnding(self.names[item], self.target, "hang" if reason.startswith("no end") else "crash", reason)
