"""The scan: what is asked, for each NPU and memory mode, compiled by each version, one after the other; and
what changed from one version to the next, in sentences, as a table and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base import environment
from ethos_hil.base.console import plain
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.judge import Evidence
from ethos_hil.base.question import DEFAULT_NPU, Question
from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.campaign.engine import (
    CampaignCrew,
    CrewAnswer,
    Planned,
    digest_of_model,
    digest_of_plan,
    read_more,
    share_of,
    write_plan,
)
from ethos_hil.harness.campaign.merging import ASIDE, CampaignAnswers, RunPlace
from ethos_hil.harness.campaign.run_folder import SCAN, CampaignSubject, Facet
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.scan.compiled_version import MODELLED, CompiledVersion, ScanAnswer, ScanPoint, by_vela
from ethos_hil.harness.scan.environment import VELA, KeptEnvironments, PipFailed, WantedVersions, releases
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.artifact_info import failed_findings
from ethos_hil.harness.verdict.tool_state import tool_state
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.comparison import RowChange, RowDifference, npu_differences
from ethos_hil.results.table import Fit, ResultTable, TableColumn
from ethos_hil.results.text.comparison import row_table

_SHOWN = 5
"""How many problems one line names."""


@dataclass(frozen=True)
class ScanOrder:
    """What to scan.

    Attributes:
        question: the question; its NPU and memory mode are not used.
        over: the versions.
        npus: the NPUs; empty for the default.
        memory_modes: the memory modes; empty for ExecuTorch's default for each NPU.
        environments: where environments are kept; None for the user's cache.
    """

    question: Question
    over: WantedVersions
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    environments: Path | None = None

    def check(self) -> None:
        """Check what needs no environment and no lowering.

        Raises:
            UsageError: the model, an NPU, a mode or an option cannot be used.
        """
        self.question.check()
        if self.question.is_program:
            raise UsageError(
                f"{self.question.label} is compiled already, and has no TOSA to compile again",
                hint="give the model that it was made from",
            )
        for question in self.questions:
            VelaSetup.of(question)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The question for each NPU in each memory mode."""
        npus = dict.fromkeys(self.npus or (DEFAULT_NPU,))
        modes = dict.fromkeys(self.memory_modes or (None,))
        return tuple(self.question.but(npu=npu, memory_mode=mode) for npu in npus for mode in modes)


@dataclass(frozen=True, kw_only=True)
class PlannedVersion(Planned):
    """A question that a version compiles."""

    version: str


def scan(order: ScanOrder, reporter: Reporter, place: RunPlace = ASIDE) -> ScanReport:
    """Compile a question with each version.

    Args:
        order: what to scan.
        reporter: receives the progress.
        place: where answers are kept, and which of them are made here.

    Raises:
        UsageError: what is asked for cannot be, there is no such version, or the model cannot be used.
        CompileError: the model cannot be lowered here.
        ToolError: no version can be installed, or a tool or a folder does not work; or a version has no answer.
    """
    order.check()
    environments = KeptEnvironments(order.environments)
    plan = tuple(
        PlannedVersion(question, question.label, more=f"{VELA} {version}", version=version)
        for version in _versions(order.over, environments, reporter, bool(place.merge))
        for question in order.questions
    )
    with place.opened(_subject(order, plan, place.shard)) as run:
        mine = share_of(plan, place.shard)
        if run.campaign is not None:
            folder = run.campaign.run_folder
            write_plan(folder.path, mine, folder.info.shard)
            compiling = _Compiling(environments, reporter, len(mine))
            CampaignCrew(folder, 1, reporter).ask_here(mine, compiling.answers, is_settled)
        answers = run.answers(mine)
        kept = {digest: more for place_ in run.folders for digest, more in read_more(place_).items()}
    lost = [planned for planned in mine if planned.digest not in answers.by_digest or planned.digest not in kept]
    problems = [*answers.problems, *(f"{it.more} has no answer for {it.name}" for it in lost)]
    if problems:
        raise ToolError(f"the scan is not whole: {'; '.join(problems[:_SHOWN])}", hint="ask again what is missing")
    points = [[planned for planned in mine if planned.question == question] for question in order.questions]
    found = tuple(_point(of_point, answers, kept) for of_point in points if of_point)
    return ScanReport(order.question.label, found, timing_model_id())


def _subject(order: ScanOrder, plan: Sequence[Planned], shard: Shard | None) -> CampaignSubject:
    model = digest_of_model(order.question.label)
    facet = Facet("model", model, "is of another model, or it has changed")
    return CampaignSubject(SCAN, digest_of_plan(plan), tool_state(), shard=str(shard or ""), facets=(facet,))


def is_settled(record: Record) -> bool:
    """Return whether a version would answer the same again: it has a program, or says why it makes none."""
    return record.verdict is Verdict.COMPILED_ONLY or record.kind is FailureKind.COMPILE


def _point(
    planned: Sequence[PlannedVersion], answers: CampaignAnswers, kept: Mapping[str, Mapping[str, Any]]
) -> PointScan:
    """Return the answers of all versions to one question."""
    first = answers.by_digest[planned[0].digest]
    compiled = (from_json(CompiledVersion, kept[it.digest]["compiled"]) for it in planned)
    return PointScan(first.npu, first.memory_mode, first.system_config, tuple(compiled), first.notes)


def _versions(
    wanted: WantedVersions, environments: KeptEnvironments, reporter: Reporter, known: bool
) -> tuple[str, ...]:
    """Return the versions; those that are `known` to exist need no index where they are named in full."""
    named = wanted.named
    if named is not None and (known or all(environments.find(VELA, version) for version in named)):
        return named  # no index is asked where there is nothing to install
    reporter.stage(f"Listing the releases of {VELA}")
    return wanted.resolve(releases(VELA))


def _lower(question: Question, reporter: Reporter) -> ScanPoint:
    what = f"Lowering {question.label} for {question.npu}"
    reporter.stage(what)
    artifact = lower_question(question, progress=lambda stage: reporter.stage(f"{what}: {stage}")).artifact
    artifact = artifact.of(question.method)
    if not artifact.delegates:
        raise UsageError(f"nothing of {question.label} is on the NPU", hint="`ethos-hil lower` says why")
    return ScanPoint(question, artifact, VelaSetup.of(question))


@dataclass(frozen=True)
class _Compiling:
    """Compiles with one version after the other.

    Attributes:
        environments: where versions are installed.
        reporter: receives the progress.
        count: how many questions are planned; some may be answered already.
    """

    environments: KeptEnvironments
    reporter: Reporter
    count: int

    def answers(self, plan: Sequence[PlannedVersion]) -> Iterator[tuple[PlannedVersion, CrewAnswer]]:
        """Yield what the versions made. The model is lowered once for all of them."""
        asked = dict.fromkeys(planned.question for planned in plan)
        points = {question: _lower(question, self.reporter) for question in asked}
        versions: dict[str, list[PlannedVersion]] = {}
        for planned in plan:
            versions.setdefault(planned.version, []).append(planned)
        failures = 0
        for number, (version, of_version) in enumerate(versions.items()):
            mine = [points[planned.question] for planned in of_version]
            try:
                installed = self.environments.get(VELA, version, self.reporter)
            except PipFailed as error:
                failures += len(mine)
                if failures == self.count:
                    raise ToolError(
                        f"no version of {VELA} can be installed; the last, {version}: {error}",
                        hint="check the network, `pip config list`, and that there are wheels for this Python",
                    ) from error
                compiled = [CompiledVersion(version, f"pip cannot install it: {error}")] * len(mine)
                kind = FailureKind.NOT_AVAILABLE
            else:
                self.reporter.stage(f"Compiling with {VELA} {version}")
                self.reporter.step(number, len(versions))
                compiled = by_vela(installed, mine)
                kind = FailureKind.COMPILE
            for planned, point, result in zip(of_version, mine, compiled, strict=True):
                yield planned, CrewAnswer(_record(point, result, kind), {"compiled": asdict(result)})


def _record(point: ScanPoint, compiled: CompiledVersion, kind: FailureKind) -> Record:
    """Return the record of a version: only compiled, also where the functional NPU executed it. Nothing is booted."""
    setup = point.setup
    error = EthosHilError(compiled.reason, kind=kind)
    cycles = () if compiled.cycles is None else (Metric("npu_cycles", compiled.cycles, "cycles", MODELLED),)
    findings = failed_findings(point.question, error).with_facts(
        npu=str(setup.npu),
        memory_mode=setup.mode.name,
        system_config=setup.system.name,
        target=TargetInfo("none", "none", ""),
        versions={**environment.versions(), **compiled.packages},
        metrics=cycles,
        ops=compiled.ops,
        notes=point.artifact.notes,
        timing_model=timing_model_id(),
    )
    return findings.record if compiled.reason else replace(findings, evidence=Evidence(compile_only=True)).record


QUANTITIES = {
    "tosa_sha256": "TOSA",
    "stream_sha256": "command stream",
    "weights_sha256": "encoded weights",
    "operations": "operations",
    "transfers": "DMA transfers",
    "cycles": "modelled cycles",
    "vela_cycles": "cycles in Vela's own estimate",
    "stream_bytes": "bytes of command stream",
    "weights_bytes": "bytes of encoded weights",
    "arena_bytes": "bytes of arena",
    "fast_bytes": "bytes of fast memory",
    "answer": "answer",
}
"""What may change, as `CompiledVersion` calls it and in words; earlier ones are causes of later ones."""
_DIGESTS = {
    "tosa_sha256": "another TOSA",
    "stream_sha256": "another command stream",
    "weights_sha256": "other encoded weights",
}
_TOLD = ("cycles", "operations", "transfers", "weights_bytes", "arena_bytes", "fast_bytes")
"""The quantities in a sentence about another command stream."""
assert set(QUANTITIES) <= {field.name for field in fields(CompiledVersion)}
SCHEMA_VERSION = 3
_DIGITS = 8
_COLUMNS = {
    "tosa_sha256": "TOSA",
    "stream_sha256": "stream",
    "weights_sha256": "weights",
    "operations": "operations",
    "transfers": "DMA",
    "cycles": "cycles (modelled)",
    "vela_cycles": "Vela's estimate",
    "weights_bytes": "weights, bytes",
    "arena_bytes": "arena, bytes",
}
"""What is shown of each version."""
_CHANGED = "bold yellow"
_STYLES = {ScanAnswer.EQUAL: "green", ScanAnswer.WRONG: "red", ScanAnswer.UNKNOWN: ""}


@dataclass(frozen=True)
class QuantityChange:
    """A quantity of `QUANTITIES`, before and now."""

    name: str
    old: int | str | None
    new: int | str | None

    def __str__(self) -> str:
        """Return `114,675 -> 93,926 modelled cycles`; of a digest only that it is another one."""
        what = QUANTITIES[self.name]
        if self.name in _DIGESTS:
            return _DIGESTS[self.name]
        return f"{_number(self.old)} -> {_number(self.new)} {what}"


@dataclass(frozen=True)
class VersionChange:
    """What a version changed.

    Attributes:
        version: the version.
        before: the one before it that compiled.
        quantities: what is another one, in the order of `QUANTITIES`.
        rows: the operations whose cycles differ, the largest difference first.
    """

    version: str
    before: str
    quantities: tuple[QuantityChange, ...]
    rows: tuple[RowDifference, ...]

    def of(self, name: str) -> QuantityChange | None:
        """Return the change of a quantity, or None if it stayed."""
        return next((quantity for quantity in self.quantities if quantity.name == name), None)


def changes(versions: Sequence[CompiledVersion]) -> tuple[VersionChange, ...]:
    """Return the changes from each version that compiled to the next one that did, oldest first."""
    compiled = [version for version in versions if not version.reason]
    steps = []
    for before, after in pairwise(compiled):
        quantities = tuple(
            QuantityChange(name, getattr(before, name), getattr(after, name))
            for name in QUANTITIES
            if getattr(before, name) != getattr(after, name)
        )
        if quantities:
            rows = [row for row in npu_differences(before.ops, after.ops) if row.change is not RowChange.UNCHANGED]
            rows.sort(key=lambda row: -abs(row.delta))
            steps.append(VersionChange(after.version, before.version, quantities, tuple(rows)))
    return tuple(steps)


def findings(versions: Sequence[CompiledVersion], changes: Sequence[VersionChange]) -> tuple[str, ...]:
    """Return a sentence for each thing that a user has to know, the most important one first."""
    return (
        *_streams(versions, changes),
        *(
            f"{VELA} {version.version} gives a wrong answer: {version.said}"
            for version in versions
            if version.answer is ScanAnswer.WRONG and not version.reason
        ),
        *(f"{VELA} {version.version} makes no program: {version.reason}" for version in versions if version.reason),
    )


def _streams(versions: Sequence[CompiledVersion], changes: Sequence[VersionChange]) -> Iterator[str]:
    compiled = [version for version in versions if not version.reason]
    if not compiled:
        yield f"no version of {VELA} makes a program"
        return
    streams = [change for change in changes if change.of("stream_sha256") is not None]
    if len(compiled) == 1:
        yield f"only {VELA} {compiled[0].version} makes a program, so nothing can have changed"
    elif not streams:
        many = "both versions" if len(compiled) == 2 else f"all {len(compiled)} versions"
        yield f"{many} of {VELA} make the same command stream: {_number(compiled[0].cycles)} modelled cycles"
    for number, change in enumerate(streams):
        facts = [str(quantity) for name in _TOLD if (quantity := change.of(name)) is not None]
        at = next(at for at, version in enumerate(compiled) if version.version == change.version)
        if change.of("cycles") is None:
            facts.insert(0, f"{_number(compiled[at].cycles)} modelled cycles as before")
        if change.of("tosa_sha256") is not None:
            facts.append("it compiles another TOSA")
        verb = "changed again" if number else "changed"
        first = "is the first at which the command stream" if not number else "is where it"
        old = next(
            (other.version for other in compiled[: at - 1] if other.stream_sha256 == compiled[at].stream_sha256), ""
        )
        back = f", to that of {old}" if old else ""
        yield f"{VELA} {change.version} {first} {verb}{back}: {'; '.join(facts)}"
    for change in changes:
        if change in streams:
            continue
        text = "; ".join(str(quantity) for quantity in change.quantities)
        yield f"{VELA} {change.version} leaves the command stream as it was in {change.before}: {text}"


def _number(value: int | str | None) -> str:
    return "no" if value is None else f"{value:,}" if isinstance(value, int) else value


@dataclass(frozen=True)
class PointScan:
    """The versions for one NPU in one memory mode.

    Attributes:
        npu, memory_mode, system_config: what they compile for.
        versions: what each of them made, the oldest first.
        notes: sentences about the lowering that they start from.
    """

    npu: str
    memory_mode: str
    system_config: str
    versions: tuple[CompiledVersion, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def changes(self) -> tuple[VersionChange, ...]:
        """What changed from version to version."""
        return changes(self.versions)

    @property
    def findings(self) -> tuple[str, ...]:
        """What a user has to know."""
        return findings(self.versions, self.changes)


@dataclass(frozen=True)
class ScanReport:
    """All that was scanned.

    Attributes:
        model: the user's name of the question.
        points: each NPU in each memory mode, in the order in which they were asked for.
        timing_model: id of the model that modelled cycles come from.
    """

    model: str
    points: tuple[PointScan, ...]
    timing_model: str


def document(report: ScanReport) -> dict[str, Any]:
    """Return the JSON of a scan; docs/scan.md describes it."""
    return {
        "schema_version": SCHEMA_VERSION,
        "model": report.model,
        "provenance": MODELLED,
        "timing_model": report.timing_model,
        "package": VELA,
        "points": [_document_of(point) for point in report.points],
    }


def _document_of(point: PointScan) -> dict[str, Any]:
    return {
        "npu": point.npu,
        "memory_mode": point.memory_mode,
        "system_config": point.system_config,
        "findings": list(point.findings),
        "notes": list(point.notes),
        "versions": [
            {**asdict(version), "packages": dict(version.packages), "seconds": round(version.seconds, 3)}
            for version in point.versions
        ],
        "changes": [
            {
                "version": change.version,
                "before": change.before,
                "quantities": {it.name: {"old": it.old, "new": it.new} for it in change.quantities},
                "rows": [asdict(row) for row in change.rows],
            }
            for change in point.changes
        ],
    }


def text(report: ScanReport, *, top: int) -> RenderableType:
    """Return the text of a scan.

    Args:
        report: the scan.
        top: the most rows to show of each change.
    """
    return Group(*(part for point in report.points for part in _text_of(point, top)))


def _text_of(point: PointScan, top: int) -> Iterator[RenderableType]:
    yield Text.assemble((VELA, "bold"), plain(f" on {point.npu}, {point.memory_mode}, {point.system_config}"))
    for number, line in enumerate(point.findings):
        yield Text(style="bold" if not number else "").append_text(plain(line))
    yield ""
    yield _version_table(point)
    for change in point.changes:
        if change.rows:
            yield ""
            yield plain(f"{VELA} {change.before} -> {change.version}, operations that changed")
            yield row_table(change.rows, "cycles (modelled)", top)
    for version in point.versions:
        for note in version.notes if version.notes != point.notes else ():
            yield plain(f"note: {version.version}: {note}")
    for note in point.notes:
        yield plain(f"note: {note}")
    yield ""


def _version_table(point: PointScan) -> Table:
    changed = {change.version: change for change in point.changes}

    def column(name: str, title: str) -> TableColumn[CompiledVersion]:
        fit = Fit.WHOLE if name.endswith("sha256") else Fit.NUMBER
        return TableColumn(title, lambda version: _cell(version, name, changed.get(version.version)), fit=fit)

    columns = (*_FIRST_COLUMNS, *(column(name, title) for name, title in _COLUMNS.items()))
    table = ResultTable(columns, point.versions).to_text()
    table.caption = "a value in colour, or with a *, is not that of the version before"
    return table


def _answer(version: CompiledVersion) -> Text:
    if version.reason:
        return Text("no program", style="red")
    return Text(version.answer, style=_STYLES[version.answer])


_FIRST_COLUMNS: tuple[TableColumn[CompiledVersion], ...] = (
    TableColumn("version", lambda version: version.version, fit=Fit.WHOLE),
    TableColumn("answer", _answer, fit=Fit.WHOLE),
)


def _cell(version: CompiledVersion, name: str, change: VersionChange | None) -> Text | str:
    if version.reason:
        return ""
    value = getattr(version, name)
    text = value[:_DIGITS] if isinstance(value, str) else "none" if value is None else f"{value:,}"
    moved = change is not None and change.of(name) is not None
    return Text(f"{text}*" if moved else text, style=_CHANGED if moved else "")
