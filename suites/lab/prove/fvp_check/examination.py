"""What one FVP does: programs, whose cycles are compared, and tests, each in a pytest session of its own."""

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
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.socs.registry import FvpModel
from ethos_hil.harness.targets.executor_runner import RunnerJob, run_program
from ethos_hil.harness.targets.fvp import FvpEvidence, FvpTarget
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower

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
        sessions: of the tests.
        runner: how a boot by semihosting ended, or "" where none was tried.
        files: what belongs to it, by the name in the file to send.
    """

    soc: str
    npu: str
    executable: str
    version: str = ""
    trouble: str = ""
    endings: list[ProgramEnding] = field(default_factory=list)
    sessions: list[SessionEnding] = field(default_factory=list)
    runner: str = ""
    files: dict[str, bytes] = field(default_factory=dict)

    @property
    def well(self) -> bool:
        """Whether everything was verified."""
        good = all(ending.verified for ending in self.endings) and self.runner in ("", "verified")
        tested = all(session.well for session in self.sessions)
        return not self.trouble and bool(self.endings) and good and tested


def examine(model: FvpModel, npu: str, programs: Sequence[str], timeout: float, tell: Tell) -> Examination:
    """Examine an FVP that is on this computer.

    Args:
        model: the FVP.
        npu: the NPU it gets.
        programs: names in PROGRAMS.
        timeout: wall seconds of each run.
        tell: gets what is being done.
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
    tell(f"{examination.executable}, {npu}: semihosting")
    examination.runner = _by_semihosting(
        examination, target, lower(PROGRAMS[programs[0]](), EthosU.parse(npu)), timeout
    )
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


def _by_semihosting(examination: Examination, target: FvpTarget, artifact: Artifact, timeout: float) -> str:
    """Run a program with our firmware as a runner, which needs no UART. Return how that ended."""
    tensors = artifact.plan.input_tensors
    inputs = [tensor.to_bytes(value) for tensor, value in zip(tensors, artifact.example_inputs, strict=True)]
    job = RunnerJob(artifact.pte, [inputs], artifact.plan.output_tensors)
    target.witness = lambda evidence: _keep(examination, "semihosting", evidence)
    try:
        outcome = run_program(target, find_firmware(examination.soc), job, timeout=timeout)
    except EthosHilError as error:
        return _words(error)
    reference = run_program(
        VirtualTarget(examination.npu, soc=examination.soc), find_firmware(examination.soc), job, timeout=timeout
    )
    pairs = zip(outcome.runs[0].outputs, reference.runs[0].outputs, strict=True)
    return "verified" if all(output.tobytes() == other.tobytes() for output, other in pairs) else "mismatch"


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


_ROOT = Path(__file__).resolve().parents[4]
_PATIENCE = 1800.0
"""Seconds that a session may take."""
_CONTRACT = """from ethos_hil.harness.targets.contract import TargetContract


class TestFvp(TargetContract):
    target, npu = "{target}", "{npu}"
"""
FEW_TESTS = "suites/ops/test_elementwise.py"


@dataclass(frozen=True)
class SessionEnding:
    """The end of a pytest session.

    Attributes:
        name: what was tested.
        counts: tests by how they ended: "passed", "failed", "skipped".
        log: what pytest printed.
        records: the records of its tests, a line each, or b"".
    """

    name: str
    counts: dict[str, int]
    log: bytes
    records: bytes = b""

    @property
    def well(self) -> bool:
        """Whether tests ran and none failed."""
        return self.counts.get("passed", 0) > 0 and not self.counts.get("failed", 0)

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items()) or "no test ran"
        return f"{self.name}: {counts}"


def operators(target: str, npu: str, *, few: bool) -> SessionEnding:
    """Run the first case of each file of operators, or of one file. Every bit is compared."""
    suffix = f"{npu.split('-')[1].upper()}_BI"
    with tempfile.TemporaryDirectory(prefix="ethos-hil-fvp-check-") as folder:
        runs = Path(folder) / "runs"
        where = (FEW_TESTS if few else "suites/ops", "--suffix", suffix, "--one-in", "1000", "--runs", str(runs))
        ending = _session("operators of the suites", Path(folder), *where, "--target", target, "--npu", npu)
        records = b"".join(path.read_bytes() for path in sorted(runs.rglob("*.jsonl")))
    return SessionEnding(ending.name, ending.counts, ending.log, records)


def contract(target: str, npu: str) -> SessionEnding:
    """Run the tests that every target passes."""
    with tempfile.TemporaryDirectory(prefix="ethos-hil-fvp-check-") as folder:
        file = Path(folder) / "test_fvp.py"
        file.write_text(_CONTRACT.format(target=target, npu=npu))
        return _session("contract of targets", Path(folder), str(file), "--rootdir", folder)


def _session(name: str, folder: Path, *arguments: str) -> SessionEnding:
    report = folder / "report.xml"
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml", str(report), *arguments)
    try:
        done = subprocess.run(
            command,
            cwd=_ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PATIENCE,
            check=False,
            preexec_fn=dies_with(os.getpid()),
        )
        log = done.stdout
    except subprocess.TimeoutExpired as error:
        log = (error.stdout or b"") + f"\nended after {_PATIENCE:g} s".encode()
    return SessionEnding(name, _counts(report), log)


def _counts(report: Path) -> dict[str, int]:
    if not report.is_file():
        return {"failed": 1}
    words = {"failure": "failed", "error": "failed", "skipped": "skipped"}
    ends = [[words[child.tag] for child in test if child.tag in words] for test in ET.parse(report).iter("testcase")]
    return dict(Counter(end[0] if end else "passed" for end in ends))
