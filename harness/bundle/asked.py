"""What was asked of a run that is bundled, as far as it decides the answer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ethos_hil.harness.ask.request import RunRequest
from ethos_hil.harness.bundle.typed import mistyped
from ethos_hil.harness.image.delegation import Delegation
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.lowering.formats.zip_members import BadArchive
from ethos_hil.lowering.program.program_file import ProgramFile


@dataclass(frozen=True)
class RunSettings:
    """What decides the answer beside the program and its data.

    Attributes:
        model: the model's name.
        npu, target, method: as in a request.
        soc: name of the target's system on chip.
        repeat: executions of each input set.
        strict, strict_board, atol, rtol, min_sqnr, delegation: as in a request.
    """

    model: str
    npu: str
    target: str
    method: str
    soc: str
    repeat: int = 1
    strict: bool = False
    strict_board: bool = False
    atol: float = 0.0
    rtol: float = 0.0
    min_sqnr: float | None = None
    delegation: Delegation = dataclasses.field(default_factory=Delegation)

    def to_json(self) -> dict[str, Any]:
        """Return them ready for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: object) -> RunSettings:
        """Return the settings of `to_json`'s output.

        Raises:
            BadArchive: they have another form.
        """
        try:
            if not isinstance(data, Mapping):
                raise TypeError(f"they are {data!r:.50}")
            found = cls(**{**data, "delegation": Delegation(**data["delegation"])})
        except (KeyError, TypeError) as error:
            raise BadArchive(f"its settings cannot be used: {error}") from error
        problem = mistyped(found, cls, "settings")
        if problem is not None:
            raise BadArchive(problem)
        return found

    def request(
        self,
        program: bytes,
        inputs: tuple[InputSet, ...],
        expected: tuple[InputSet, ...] | None,
        **changes: Any,
    ) -> RunRequest:
        """Return the request that asks the same of a program.

        Args:
            program: the .pte.
            inputs: its input sets.
            expected: the outputs that are right, if somebody says so.
            changes: other fields of the request.
        """
        asked: dict[str, Any] = {
            "npu": self.npu,
            "target": self.target,
            "method": self.method,
            "repeat": self.repeat,
            "strict": self.strict,
            "strict_board": self.strict_board,
            "atol": self.atol,
            "rtol": self.rtol,
            "min_sqnr": self.min_sqnr,
            "delegation": self.delegation,
            "inputs": inputs,
            "expected": expected,
        }
        return RunRequest(ProgramFile(self.model, program), **(asked | changes))


@dataclass(frozen=True)
class CommandWords:
    """The words of a command that a run folder's manifest keeps: of `ethos-hil run`, or of a session of pytest."""

    words: Sequence[str] = ()

    def has(self, *names: str) -> bool:
        """Return whether one of these options is given."""
        return any(name in self.words for name in names)

    def value(self, name: str) -> str | None:
        """Return the value of an option; None if it is not given."""
        for at, word in enumerate(self.words):
            if word == name and at + 1 < len(self.words):
                return self.words[at + 1]
            if word.startswith(f"{name}="):
                return word.removeprefix(f"{name}=")
        return None

    def number(self, name: str) -> float | None:
        """Return the value of an option as a number; None if it is not given, or none."""
        try:
            found = float(self.value(name) or "")
        except ValueError:
            return None
        return found if math.isfinite(found) else None

    def count(self, name: str) -> int | None:
        """Return the value of an option as a positive number; None if it is not given, or none."""
        found = self.number(name)
        return int(found) if found is not None and found >= 1 else None
