"""Measures the published baselines, and writes their page and their data: `measure baselines`.

Exit status: 0 written, or as committed; 1 `--check` found something else; 2 unusable arguments; 3 a tool is missing, or
a program is not verified.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base import environment
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import write_all
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.bench.bench import make_points
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.harness.campaign.engine import CampaignCrew
from ethos_hil.harness.campaign.place import RunPlace
from ethos_hil.harness.campaign.planned import write_plan
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.results.bench.figures import figures_of
from ethos_hil.suites.lab.measure.baselines.baseline_table import BaselineTable, LeftToCpu, differences
from ethos_hil.suites.lab.measure.baselines.networks import NETWORKS
from ethos_hil.suites.lab.measure.baselines.page import page
from ethos_hil.suites.lab.measure.baselines.plan import is_booted, plan_of, use_zoo
from ethos_hil.suites.lab.measure.baselines.point import BaselinePoint, left_to_cpu
from ethos_hil.suites.lab.options import CORES, Jobs
from ethos_hil.suites.lab.prove.upstream.setting import REPOSITORY

PAGE, JSON = "baselines.md", "data/baselines.json"
RUNS = REPOSITORY / "build/baselines"
_SHOWN = 20


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NETWORK]...", help="With --check: only these.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; say what is not as it is written.")] = False,
    jobs: Jobs = CORES,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with this run, which ended early.")] = None,
    docs: Annotated[Path, typer.Option(metavar="DIR", help="The folder of baselines.md.")] = REPOSITORY / "docs",
) -> None:
    """Lower known networks, compile and time them for every NPU in every memory mode, boot each on one NPU of each
    generation, and write the tables of docs/baselines.md and its data. Minutes; less with the networks in the cache.
    """
    began = time.monotonic()
    unknown = [name for name in names or () if name not in NETWORKS]
    if unknown:
        raise UsageError(f"no network is called {unknown[0]!r}", hint=f"there are {', '.join(NETWORKS)}")
    if names and not check:
        raise UsageError("the page has all networks", hint="leave out their names, or only --check these")
    chosen = list(dict.fromkeys(names or NETWORKS))
    if any(NETWORKS[name].needs_zoo for name in chosen):
        use_zoo()
    text = (docs / PAGE).read_text("utf-8")
    measured = measured_table(chosen, EthosU.names(), jobs, RUNS, resume)
    if check:
        status = _checked(docs, measured, text, whole=not names)
    else:
        contents = {PAGE: page(text, measured), JSON: measured.to_text()}
        write_all({docs / name: content.encode() for name, content in contents.items()})
        sys.stdout.write(f"{len(measured.points)} points: {', '.join(map(str, (docs / name for name in contents)))}\n")
        status = 0
    sys.stdout.write(f"{time.monotonic() - began:.0f} s\n")
    raise typer.Exit(status)


def measured_table(
    networks: Sequence[str], npus: Sequence[str], jobs: int, runs: Path, resume: str | None = None
) -> BaselineTable:
    """Benchmark networks on NPUs, into a run folder.

    Args:
        networks, npus: their names.
        jobs: processes.
        runs: the folder of run folders.
        resume: the run to resume; None for a new one.

    Raises:
        UsageError: there is no such run, or it is of other points.
        ToolError: a point has no record, or is not verified.
    """
    plan = plan_of(networks, npus)
    place = RunPlace(runs, resume, resume is not None)
    with place.opened(plan.subject()) as run, Live() as live:
        assert run.campaign is not None
        write_plan(run.campaign.folder, plan.planned)
        make_points(plan.planned, CampaignCrew(run.campaign.run_folder, jobs, live))
        answers = run.answers(plan.planned)
    sys.stderr.write(f"{run.campaign.folder}\n")
    return table_of(plan.points, answers.records)


def _checked(docs: Path, measured: BaselineTable, text: str, *, whole: bool) -> int:
    """Print what is not as it is written. Return the exit status."""
    kept = BaselineTable.of_text((docs / JSON).read_text("utf-8"))
    lines = [*differences(kept if whole else kept.only(measured.networks), measured)]
    if page(text, kept) != text:
        lines.append(f"{PAGE} is not what its data give")
    for line in lines[:_SHOWN]:
        sys.stdout.write(f"{line}\n")
    if len(lines) > _SHOWN:
        sys.stdout.write(f"... and {len(lines) - _SHOWN:,} more\n")
    sys.stdout.write(f"what is not as it is written: {len(lines):,}\n" if lines else "all is as it is written\n")
    return int(bool(lines))


def table_of(points: Sequence[BenchPoint], records: Iterable[Record]) -> BaselineTable:
    """Return the table of the points of a plan.

    Args:
        points: of the plan.
        records: of its run.

    Raises:
        ToolError: a point has no record, one that was booted is not verified, or one was timed by another model than
            today's: nothing is published then.
    """
    known = {_key(record): record for record in records if record.bench is not None}
    by_key: dict[tuple[str, str, str], BaselinePoint] = {}
    left: dict[tuple[str, str], tuple[LeftToCpu, ...]] = {}
    for point in sorted(points, key=lambda point: is_booted(point.case)):
        record, network = known.get((point.case.name, point.npu, point.memory_mode)), point.case.group
        if record is None:
            raise _unusable(point, "has no record")
        if record.timing_model not in ("", timing_model_id()):
            raise _unusable(point, f"was timed by the model {record.timing_model}, and today's is {timing_model_id()}")
        key = (network, point.npu, point.memory_mode)
        if is_booted(point.case):
            by_key[key] = by_key[key].booted(record)
            if by_key[key].verdict != Verdict.VERIFIED:
                raise _unusable(point, f"is not verified: {by_key[key].reason}")
            continue
        by_key[key] = row = BaselinePoint.of(network, record, figures_of(record), sram_of(record.target.soc))
        if row.cycles is not None:
            left.setdefault((network, row.family), _left(network, row.family, record))
    calls = tuple(call for group in left.values() for call in group)
    return BaselineTable(timing_model_id(), environment.versions(), calls, tuple(by_key.values()))


@cache
def sram_of(soc: str) -> int | None:
    """Return the bytes of SRAM that the firmware has on a system on chip; None where that is not known."""
    return Firmware.read(find_firmware(soc)).sram if soc else None


def _key(record: Record) -> tuple[str, str, str]:
    assert record.bench is not None
    return record.bench.case, record.npu, record.memory_mode


def _left(network: str, family: str, record: Record) -> tuple[LeftToCpu, ...]:
    calls = Counter(left_to_cpu(record))
    return tuple(LeftToCpu(network, family, *call, count) for call, count in calls.items())


def _unusable(point: BenchPoint, problem: str) -> ToolError:
    where = f"{point.case.name} on {point.npu} in {point.memory_mode}"
    return ToolError(f"{where} {problem}", hint=f"ethos-hil run {point.case.model} --npu {point.npu} says more",
                     kind=FailureKind.INTERNAL)  # fmt: skip
