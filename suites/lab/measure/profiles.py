"""Profiles by prefixes of many networks, against what the model of time gives each operation.

A row may have other cycles than the model's where a transfer outlasts the kernel beside it; everything else is wrong.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.suites.lab.crew import Crew
from ethos_hil.suites.lab.options import CORES, Jobs, JsonFile
from ethos_hil.suites.lab.shared import npus_of, run_jobs, show, write_json

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool
    from ethos_hil.lowering.model.torch_model import TorchModel

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
MODELS = tuple(
    f"suites/models/{name}"
    for name in (
        "digits.py:digits", "mobilenetv2.py:mobilenet_v2", "transformer.py:transformer_encoder",
        "mlperf_tiny.py:ds_cnn",
    )
)  # fmt: skip
LIMIT_SECONDS = 600.0
"""For one network on one NPU. MobileNetV2 takes half a minute, most take seconds."""


@dataclass(frozen=True)
class Moved:
    """Rows that follow one another, whose cycles are the same together and not one by one.

    Attributes:
        rows: their ids.
        shares, prefixes: the cycles of each.
        merged: whether the stream cannot be cut between them. Otherwise a transfer outlasts the kernel beside it: a
            prefix ends with the transfer, the model gives its end to the row that runs then.
    """

    rows: tuple[str, ...]
    shares: tuple[int, ...]
    prefixes: tuple[int, ...]
    merged: bool


@dataclass(frozen=True)
class ProfileTrial:
    """The end of a trial.

    Attributes:
        network: its name.
        npu: the NPU.
        rows: operations on the NPU.
        cycles: of the NPU in one inference.
        moved: rows that are not equal one by one.
        problem: what is wrong, or "".
        refused: why the network does not run on this NPU, or "".
    """

    network: str
    npu: str
    rows: int = 0
    cycles: int = 0
    moved: tuple[Moved, ...] = ()
    problem: str = ""
    refused: str = ""


def compared(network: str, shares: Record, prefixes: Record) -> ProfileTrial:
    """Compare the two profiles of a network."""
    rows, cut = ([op for op in record.ops if op.id != JOB] for record in (shares, prefixes))
    total = sum(op.cycles or 0 for op in rows)
    problem = next(_problems(shares, prefixes), "")
    moved: list[Moved] = []
    if not problem:
        for piece in _moved(rows, cut):
            if piece is None or (not piece.merged and _moves_back(piece)):
                problem = f"cycles are with an earlier row than the model's: {piece}"
                break
            moved.append(piece)
    return ProfileTrial(network, shares.npu, len(rows), total, tuple(moved), problem)


def _problems(shares: Record, prefixes: Record) -> Iterator[str]:
    for method, record in (("shares", shares), ("prefix", prefixes)):
        if record.verdict is not Verdict.VERIFIED:
            yield f"{method}: {record.verdict}: {record.failure.message if record.failure else ''}"
        metric = record.metric("npu_cycles")
        total = sum(op.cycles or 0 for op in record.ops)
        if metric is None or total != metric.value:
            yield f"{method}: rows sum to {total}, the NPU counted {metric.value if metric else 'nothing'}"
        if {op.method for op in record.ops} - {method}:
            yield f"{method}: rows are found by {sorted({op.method for op in record.ops})}"
    totals = [sum(op.cycles or 0 for op in record.ops) for record in (shares, prefixes)]
    if totals[0] != totals[1]:
        yield f"shares sum to {totals[0]}, prefixes to {totals[1]}"
    if any(op.cycles for op in prefixes.ops if op.id == JOB):
        yield "a job has a cost, and the model has none"
    ids = [[op.id for op in record.ops if op.id != JOB] for record in (shares, prefixes)]
    if ids[0] != ids[1]:
        yield "the two profiles have different rows"


def _moved(rows: Sequence[Op], cut: Sequence[Op]) -> Iterator[Moved | None]:
    """Yield the shortest pieces of the program that are equal in their sums and not row by row; None for a last one
    whose sums differ.
    """
    piece: list[tuple[Op, Op]] = []
    for row, part in zip(rows, cut, strict=True):
        piece.append((row, part))
        if part.cycles is not None and sum((a.cycles or 0) - (b.cycles or 0) for a, b in piece) == 0:
            if len(piece) > 1:
                yield Moved(
                    tuple(a.id for a, _ in piece),
                    tuple(a.cycles or 0 for a, _ in piece),
                    tuple(b.cycles or 0 for _, b in piece),
                    any(b.merged_with for _, b in piece),
                )
            piece = []
    if piece:
        yield None


def _moves_back(moved: Moved) -> bool:
    """Return whether a prefix, at the end of any row, has fewer cycles than the model has given out until then."""
    ahead = 0
    for share, prefix in zip(moved.shares, moved.prefixes, strict=True):
        ahead += prefix - share
        if ahead < 0:
            return True
    return False


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


def main(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]...", help=f"Models. Default: {', '.join(MODELS)}.")
    ] = None,
    count: Annotated[int, typer.Option(min=0, help="Random networks beside them.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="The first one's seed; the others follow.")] = 0,
    npu: Annotated[
        list[str] | None, typer.Option(help=f"NPU; may be repeated. Default: one of each family, {', '.join(NPUS)}.")
    ] = None,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
) -> None:
    """Profile networks on virtual boards by prefixes, and compare each row with the model of time, each output with the
    reference, and all sums.
    """
    npus = npus_of(npu, NPUS)
    networks: list[str | int] = [*(models or MODELS), *range(seed, seed + count)]
    what = f"Profiling {len(networks)} networks on {len(npus)} NPUs"
    trials = run_jobs(Crew(jobs, LIMIT_SECONDS), [ProfileJob(network, npus) for network in networks], what)
    write_json(json_file, [asdict(trial) for trial in trials])
    refused = [f"refused: {done.network} on {done.npu}: {done.refused}" for done in trials if done.refused]
    wrong = [f"problem: {done.network} on {done.npu}: {done.problem}" for done in trials if done.problem]
    show(summary(trials), *refused, *wrong)
    if wrong:
        raise typer.Exit(1)


def summary(trials: Sequence[ProfileTrial]) -> Table:
    """Return a table of what was found on each NPU."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("NPU")
    for name in ("networks", "refused", "wrong", "rows", "equal", "merged", "moved", "cycles moved"):
        table.add_column(name, justify="right")
    for name in dict.fromkeys(done.npu for done in trials):
        mine = [done for done in trials if done.npu == name]
        rows = sum(done.rows for done in mine)
        pieces = [piece for done in mine for piece in done.moved]
        merged = sum(len(piece.rows) for piece in pieces if piece.merged)
        moved = sum(len(piece.rows) for piece in pieces if not piece.merged)
        cycles = sum(
            abs(share - prefix)
            for piece in pieces
            if not piece.merged
            for share, prefix in zip(piece.shares, piece.prefixes, strict=True)
        )  # each cycle that moved is counted where it was and where it is
        total = sum(done.cycles for done in mine)
        counts = (len(mine), sum(bool(done.refused) for done in mine), sum(bool(done.problem) for done in mine),
                  rows, rows - merged - moved, merged, moved)  # fmt: skip
        table.add_row(name, *(f"{count:,}" for count in counts), f"{cycles / 2 / total:.3%}" if total else "")
    return table
