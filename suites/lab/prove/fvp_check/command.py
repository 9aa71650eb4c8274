"""`make fvp-check`: for who has an FVP. Runs programs and tests on it, and writes one file to send.

Exit status: 0 everything was verified, 1 something was not, 2 unusable arguments, 3 there is no FVP.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from ethos_hil.base import environment
from ethos_hil.base.console import add_row, console, right, table_of
from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.files import write_whole
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.process import dies_with
from ethos_hil.base.question import Question
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.pack import RunPlan
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE, MODELS, FvpModel, installed_fvp
from ethos_hil.harness.targets.fvp import FvpEvidence, FvpTarget
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.suites.lab.shared import ROOT

if TYPE_CHECKING:
    from ethos_hil.lowering.model.torch_model import TorchModel

PLACE = Path("build/fvp-check.zip")
_OF_SUITES = {npu.family: npu.name for npu in EthosU.usual()}
"""The configurations of the suites."""
_NO_SECRETS = ("root", "user", "runner", "ubuntu")
"""Names of users that tell nothing, and are ordinary words."""


# --- what one FVP does


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


# --- all of them, and the file to send


def main(
    target: Annotated[
        list[str] | None, typer.Option(metavar="TARGET", help="Default: every FVP that is found.")
    ] = None,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=1, help="Of each run.")] = 300.0,
    few: Annotated[bool, typer.Option("--few", help="Two programs, the tests of one file, no contract.")] = False,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to send.")] = PLACE,
) -> None:
    """Examine every FVP on this computer, and write a .zip with all that was found."""
    models = _wanted(target or ())
    with Live() as live:
        programs = list(FEW if few else PROGRAMS)
        results = [examine(it, _OF_SUITES[it.npu.family], programs, timeout, live.stage, few=few) for it in models]
    files = {"report.json": (json.dumps(_report(results), indent=1) + "\n").encode()}
    for result in results:
        files |= {f"{result.soc}-{result.npu}/{name}": data for name, data in result.files.items()}
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, _packed(files))
    kinds = "versions, lists of parameters, command lines, UART bytes, consoles, records, cycles, results of tests"
    sent = f"{out}: {len(files)} files ({kinds}), without your name and the path of your home: please send it"
    stdout = console()
    stdout.print(_table(results))
    for line in (*chain.from_iterable(map(_lines, results)), sent):
        stdout.print(line, soft_wrap=True)
    if not all(examination.well for examination in results):
        raise typer.Exit(1)


def _wanted(targets: Sequence[str]) -> list[FvpModel]:
    """Return the FVPs that are here and asked for."""
    known = {model.soc.name for model in MODELS.values()}
    unknown = [name for name in targets if name not in known]
    if unknown:
        raise UsageError(f"no FVP is called {unknown[0]}", hint=f"there are {', '.join(sorted(known))}")
    chosen = [model for model in MODELS.values() if not targets or model.soc.name in targets]
    here = [model for model in chosen if installed_fvp(model.fvp.executable)]
    if not here:
        raise ToolError(
            f"none of {', '.join(model.fvp.executable for model in chosen)} is on this computer",
            hint=f"set {FVP_PATH_VARIABLE} to the folders that FVPs are in; without one, `ethos-hil fvp-launchers DIR`",
        )
    return here


def _packed(files: dict[str, bytes]) -> bytes:
    """Return a .zip of files. Texts are without the user's name and home."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            text = not name.endswith(".bin")
            archive.writestr(name, without_user(data.decode("utf-8", "replace")) if text else data)
    return whole.getvalue()


def without_user(text: str) -> str:
    """Return a text with words in place of the user's home and name."""
    home = Path.home()
    text = re.sub(rf"{re.escape(str(home))}(?![A-Za-z0-9])", "<home>", text)
    if home.name in _NO_SECRETS:
        return text
    return re.sub(rf"(?<![A-Za-z0-9]){re.escape(home.name)}(?![A-Za-z0-9])", "<user>", text)


def _report(results: Sequence[Examination]) -> dict[str, Any]:
    machine, tree = environment.machine(), environment.work_tree(ROOT)
    return {
        "schema_version": 2,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": environment.versions(),
        "commit": {"commit": tree.commit, "dirty": tree.dirty},
        "machine": {name: machine[name] for name in ("system", "machine", "processor", "cores")},
        "events": RunPlan(1, 1).events(0),
        "fvps": [
            {
                "soc": examination.soc,
                "npu": examination.npu,
                "executable": examination.executable,
                "version": examination.version,
                "trouble": examination.trouble,
                "programs": [vars(ending) for ending in examination.endings],
                "tests": examination.tests,
            }
            for examination in results
        ],
    }


def _table(examinations: Sequence[Examination]) -> Table:
    """Return the cycles beside each other."""
    table = table_of("program", "NPU", "FVP", *right("modelled", "FVP's PMU", "modelled / FVP"), "")
    for examination in examinations:
        for ending in examination.endings:
            ratio = f"{ending.modelled / ending.counted:.3f}" if ending.modelled and ending.counted else ""
            cycles = [f"{value:,}" if value is not None else "" for value in (ending.modelled, ending.counted)]
            add_row(table, ending.program, examination.npu, examination.executable, *cycles, ratio, ending.verdict)
    return table


def _lines(examination: Examination) -> list[str]:
    """Return what there is to say of an FVP besides its cycles."""
    if examination.trouble:
        return [f"{examination.executable}: {examination.trouble}"]
    tests = ", ".join(f"{count} {how}" for how, count in examination.tests.items()) or "none was tried"
    notes = dict.fromkeys(note for ending in examination.endings for note in ending.notes)
    head = f"{examination.executable}, {examination.npu}: {examination.version.splitlines()[0]}"
    return [head, f"  tests: {tests}", *(f"  note: {note}" for note in notes)]
