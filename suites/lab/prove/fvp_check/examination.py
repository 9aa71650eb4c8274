"""What one FVP does: programs, whose cycles are compared, and tests, in a session of pytest."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.process import dies_with
from ethos_hil.base.question import Question
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.socs.registry import FvpModel
from ethos_hil.harness.targets.fvp import FvpEvidence, FvpTarget
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.suites.lab.shared import ROOT

if TYPE_CHECKING:
    from ethos_hil.lowering.model.torch_model import TorchModel


def _made(label: str, layers: Callable[[Any], Any], *shape: int) -> TorchModel:
    """Return the model of seeded layers."""
    import torch

    from ethos_hil.lowering.model.torch_model import from_module

    torch.manual_seed(0)
    module = layers(torch.nn).eval()
    return from_module(module, (torch.randn(*shape),), label=label)


def _network(nn: Any) -> Any:
    def separable(channels: int, more: int, stride: int) -> tuple[Any, ...]:
        depthwise = nn.Conv2d(channels, channels, 3, stride, 1, groups=channels)
        return depthwise, nn.ReLU(), nn.Conv2d(channels, more, 1), nn.ReLU()

    first = nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU()
    rest = *separable(16, 32, 2), *separable(32, 64, 2), *separable(64, 64, 1)
    return nn.Sequential(*first, *rest, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


PROGRAMS: dict[str, Callable[[], TorchModel]] = {
    "conv 3x3": lambda: _made("conv 3x3", lambda nn: nn.Conv2d(16, 32, 3, padding=1), 1, 16, 32, 32),
    "conv 1x1": lambda: _made("conv 1x1", lambda nn: nn.Conv2d(64, 64, 1), 1, 64, 16, 16),
    "depthwise": lambda: _made("depthwise", lambda nn: nn.Conv2d(32, 32, 3, padding=1, groups=32), 1, 32, 32, 32),
    "linear": lambda: _made("linear", lambda nn: nn.Linear(512, 256), 1, 512),
    "max pool": lambda: _made("max pool", lambda nn: nn.MaxPool2d(2, 2), 1, 32, 32, 32),
    "sigmoid": lambda: _made("sigmoid", lambda nn: nn.Sigmoid(), 1, 32, 32, 32),
    "softmax": lambda: _made("softmax", lambda nn: nn.Softmax(-1), 1, 64, 64),
    "network": lambda: _made("network", _network, 1, 3, 64, 64),
}
FEW = ("conv 3x3", "linear")
HOPELESS = (FailureKind.NOT_LAUNCHED, FailureKind.LICENCE, FailureKind.TIMEOUT)
"""Kinds of failure after which no further program is tried: each would take its whole time limit."""
Tell = Callable[[str], None]


@dataclass(frozen=True)
class ProgramEnding:
    """A program on one FVP.

    Attributes:
        program: its name.
        verdict: "verified", or the kind and message of what went wrong on the FVP.
        modelled, counted: NPU cycles of one execution on the virtual board, and as the FVP's PMU has them; None where
            there are none.
        events: of the FVP's event counters, summed over the delegate calls: the plan's events, in order; None where
            one has wrapped.
        modelled_events: the same of the virtual board.
        notes: what was unusual.
    """

    program: str
    verdict: str
    modelled: int | None = None
    counted: int | None = None
    events: tuple[int | None, ...] = ()
    modelled_events: tuple[int | None, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether the FVP's answer was verified."""
        return self.verdict == "verified"


@dataclass
class Examination:
    """What was found about one FVP with one NPU.

    Attributes:
        soc, npu: what it is.
        executable: its file's name.
        version: its version text, or "".
        trouble: why it could not be used at all, or "".
        endings: of the programs.
        tests: by how they ended: "passed", "failed", "skipped"; empty where none was tried.
        files: what belongs to it, by the name in the file to send.
    """

    soc: str
    npu: str
    executable: str
    version: str = ""
    trouble: str = ""
    endings: list[ProgramEnding] = field(default_factory=list)
    tests: dict[str, int] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def well(self) -> bool:
        """Whether tests ran, and everything was verified."""
        good = all(ending.verified for ending in self.endings) and not self.trouble
        return good and self.tests.get("passed", 0) > 0 and not self.tests.get("failed", 0)


def examine(
    model: FvpModel, npu: str, programs: Sequence[str], timeout: float, tell: Tell, *, few: bool
) -> Examination:
    """Examine an FVP that is on this computer. Tests run where a program was verified.

    Args:
        model: the FVP.
        npu: the NPU it gets.
        programs: names in PROGRAMS.
        timeout: wall seconds of each run.
        tell: gets what is being done.
        few: the tests of one file only.
    """
    soc = model.soc.name
    examination = Examination(soc, npu, model.fvp.executable)
    tell(f"{examination.executable}: version and parameters")
    try:
        target = FvpTarget(soc, EthosU.parse(npu))
    except EthosHilError as error:
        examination.trouble = _words(error)
        return examination
    examination.version = target.description.version
    examination.files["version.txt"] = examination.version.encode()
    examination.files["list-params.txt"] = target.description.listed.encode()
    for name in programs:
        tell(f"{examination.executable}, {npu}: {name}")
        artifact = lower(PROGRAMS[name](), EthosU.parse(npu))
        ending, kind = _run(examination, target, artifact, name, timeout)
        examination.endings.append(ending)
        if kind in HOPELESS:
            break
    if any(ending.verified for ending in examination.endings):
        tell(f"{examination.executable}, {npu}: tests")
        _test(examination, few=few)
    return examination


def _run(
    examination: Examination, target: FvpTarget, artifact: Artifact, name: str, timeout: float
) -> tuple[ProgramEnding, FailureKind | None]:
    """Run a program on the virtual board and on the FVP. Return how it ended, and which kind of failure that was."""
    folder = name.replace(" ", "-")
    question = Question(name, npu=examination.npu, timeout=timeout)
    virtual = run_artifact(
        artifact, VirtualTarget(examination.npu, soc=examination.soc), Question(name, npu=examination.npu)
    )
    examination.files[f"{folder}/virtual.json"] = virtual.record.dumps().encode()
    modelled, events = virtual.outcome.runs[0].cycles, _events(virtual.outcome)
    target.witness = lambda evidence: _keep(examination, folder, evidence)
    try:
        report = run_artifact(artifact, target, question)
    except EthosHilError as error:
        examination.files[f"{folder}/error.txt"] = "\n".join((_words(error), *error.console)).encode()
        return ProgramEnding(name, _words(error), modelled, modelled_events=events), error.kind
    record, outcome = report.record, report.outcome
    examination.files[f"{folder}/fvp.json"] = record.dumps().encode()
    verdict = str(record.verdict) if record.failure is None else f"{record.failure.kind}: {record.failure.message}"
    ending = ProgramEnding(name, verdict, modelled, outcome.runs[0].cycles, _events(outcome), events, record.notes)
    return ending, None


def _keep(examination: Examination, folder: str, evidence: FvpEvidence) -> None:
    examination.files[f"{folder}/command.txt"] = "\n".join(evidence.command).encode()
    examination.files[f"{folder}/console.txt"] = "\n".join(evidence.console).encode()
    if evidence.uart:
        examination.files[f"{folder}/uart.bin"] = evidence.uart


def _events(outcome: Outcome) -> tuple[int | None, ...]:
    """Return the event counters of the first execution, summed over its delegate calls."""
    counters = zip(*(call.events for call in outcome.runs[0].delegates), strict=True)
    return tuple(_sum(counts) for counts in counters)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _words(error: EthosHilError) -> str:
    return f"{error.kind}: {error.message}" + (f" ({error.hint})" if error.hint else "")


_PATIENCE = 1800.0
"""Seconds that the session of tests may take."""
_CONTRACT = """from ethos_hil.harness.targets.contract import TargetContract


class TestFvp(TargetContract):
    target, npu = "{target}", "{npu}"
"""


def _test(examination: Examination, *, few: bool) -> None:
    """Run the first case of each file of operators, of which every bit is compared, and what every target passes."""
    target, npu = examination.soc, examination.npu
    with tempfile.TemporaryDirectory(prefix="ethos-hil-fvp-check-") as name:
        folder = Path(name)
        report, runs, contract = folder / "report.xml", folder / "runs", folder / "test_fvp.py"
        contract.write_text(_CONTRACT.format(target=target, npu=npu))
        what = ("suites/ops/test_elementwise.py",) if few else ("suites/ops", str(contract))
        command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", str(report), *what)
        command += ("--suffix", f"{npu.split('-')[1].upper()}_BI", "--one-in", "1000", "--runs", str(runs))
        try:
            log = subprocess.run(
                (*command, "--target", target, "--npu", npu),
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_PATIENCE,
                check=False,
                preexec_fn=dies_with(os.getpid()),
            ).stdout
        except subprocess.TimeoutExpired as error:
            log = (error.stdout or b"") + f"\nended after {_PATIENCE:g} s".encode()
        examination.tests = _counts(report)
        examination.files["tests.txt"] = log
        examination.files["tests.jsonl"] = b"".join(path.read_bytes() for path in sorted(runs.rglob("*.jsonl")))


def _counts(report: Path) -> dict[str, int]:
    if not report.is_file():
        return {"failed": 1}
    words = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    ends = [[words[child.tag] for child in test if child.tag in words] for test in ET.parse(report).iter("testcase")]
    return dict(Counter(end[0] if end else "passed" for end in ends))
