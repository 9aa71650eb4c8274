"""What a user asks a scan for, checked before anything is installed or lowered."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.ask.request import DEFAULT_NPU, RunRequest
from ethos_hil.harness.scan.elsewhere import is_case
from ethos_hil.harness.scan.releases import WantedVersions


@dataclass(frozen=True)
class ScanOrder:
    """What to scan.

    Attributes:
        request: the question: a MODEL, or a test's id; its NPU and memory mode are not used.
        over: the versions, of one package or of several.
        npus: the NPUs; empty for the default, or for that of the test.
        memory_modes: the memory modes; empty for ExecuTorch's default for each NPU.
        environments: where environments are kept; None for the user's cache.
    """

    request: RunRequest
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
        self.request.check_numbers()
        if self.request.is_program:
            raise UsageError(
                f"{self.request.label} is compiled already, and has no TOSA to compile again",
                hint="give the model that it was made from",
            )
        for request in self.requests:
            if request.npu:
                request.vela.setup(request.npu_name, request.memory_mode)
        asked = self.request
        if is_case(str(asked.model)) and (
            asked.vela.given or asked.quantisation.given or asked.leave or asked.as_upstream or asked.scheme != "a8w8"
        ):
            raise UsageError(
                f"{asked.model} is a test of a suite, which says itself how it is lowered",
                hint="only --npu and --memory-mode can be chosen for it",
            )

    @property
    def requests(self) -> tuple[RunRequest, ...]:
        """The question for each NPU in each memory mode."""
        npus = dict.fromkeys(self.npus or (("",) if is_case(str(self.request.model)) else (DEFAULT_NPU,)))
        modes = dict.fromkeys(self.memory_modes or (None,))
        return tuple(replace(self.request, npu=npu, memory_mode=mode) for npu in npus for mode in modes)
