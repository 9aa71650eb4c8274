"""What a user asks a scan for, checked before anything is installed or lowered."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import DEFAULT_NPU, Question
from ethos_hil.harness.scan.releases import WantedVersions
from ethos_hil.lowering.vela.options import VelaSetup

_OF_A_TEST = {"method", "trust_model", "npu", "memory_mode"}
"""Fields that may be given for a test; the rest it says itself."""


@dataclass(frozen=True)
class ScanOrder:
    """What to scan.

    Attributes:
        question: the question: a MODEL, or a test's id; its NPU and memory mode are not used.
        over: the versions, of one package or of several.
        npus: the NPUs; empty for the default, or for that of the test.
        memory_modes: the memory modes; empty for ExecuTorch's default for each NPU.
        environments: where environments are kept; None for the user's cache.
    """

    question: Question
    over: tuple[WantedVersions, ...]
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    environments: Path | None = None

    def check(self) -> None:
        """Check what needs no environment and no lowering.

        Raises:
            UsageError: nothing is to be scanned over, a package is named twice, or an NPU, a mode or an option cannot
                be used.
        """
        if not self.over:
            raise UsageError("no versions to scan over", hint="give --over ethos-u-vela=4.4..5.2")
        packages = [each.package for each in self.over]
        twice = next((each for each in packages if packages.count(each) > 1), None)
        if twice is not None:
            raise UsageError(f"--over names {twice} twice", hint="separate versions and ranges by commas")
        self.question.check()
        if self.question.is_program:
            raise UsageError(
                f"{self.question.label} is compiled already, and has no TOSA to compile again",
                hint="give the model that it was made from",
            )
        for question in self.questions:
            if question.npu:
                VelaSetup.of(question)
        asked = self.question
        if asked.is_test and set(asked.given) - _OF_A_TEST:
            raise UsageError(
                f"{asked.model} is a test of a suite, which says itself how it is lowered",
                hint="only --npu and --memory-mode can be chosen for it",
            )

    @property
    def questions(self) -> tuple[Question, ...]:
        """The question for each NPU in each memory mode."""
        npus = dict.fromkeys(self.npus or (("",) if self.question.is_test else (DEFAULT_NPU,)))
        modes = dict.fromkeys(self.memory_modes or (None,))
        return tuple(self.question.but(npu=npu, memory_mode=mode) for npu in npus for mode in modes)
