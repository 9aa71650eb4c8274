"""A benchmark as a source of the campaign engine: its points, planned; the job that makes them; what a run is of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ethos_hil.base import judge
from ethos_hil.base.dataclasses import asdict, dataclass
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.files import read_text
from ethos_hil.base.judge import OF_THIS_PLACE, is_refusal
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Record
from ethos_hil.harness.bench.points import BenchPoint, PointSettings, part_of, refuse
from ethos_hil.harness.campaign.engine import CampaignCrew, CrewAnswer, PlannedJob
from ethos_hil.harness.campaign.planned import Planned, digest_of_model, digest_of_plan
from ethos_hil.harness.campaign.run_folder import BENCH, CampaignSubject, Facet
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.verdict.tool_state import tool_state

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool


@dataclass(frozen=True, kw_only=True)
class PlannedPoint(Planned):
    """A point that a campaign makes.

    Attributes:
        point: the point.
        settings: of the benchmark.
    """

    point: BenchPoint
    settings: PointSettings


@dataclass(frozen=True)
class PointsJob(PlannedJob[PlannedPoint]):
    """Points of one case that share a TOSA program."""

    def answers(self, pool: BoardPool) -> Iterator[CrewAnswer]:
        """Make the points."""
        from ethos_hil.harness.bench.case_work import CaseWork

        first = self.planned[0]
        work = CaseWork(first.point.case, first.settings, pool)
        return map(CrewAnswer, work.records([planned.point for planned in self.planned]))

    def refuse(self, planned: PlannedPoint, error: EthosHilError) -> CrewAnswer:
        """Return the answer of a point that ended in an error."""
        return CrewAnswer(refuse(planned.point, planned.settings, error).record)


@dataclass(frozen=True)
class BenchPlan:
    """What to make.

    Attributes:
        points: in the order of the grid.
        settings: what holds for all of them.
        prefix: how the names of the parts of a nightly begin that the points are; "" outside a nightly.
    """

    points: tuple[BenchPoint, ...]
    settings: PointSettings
    prefix: str = ""

    @cached_property
    def planned(self) -> tuple[PlannedPoint, ...]:
        """The points as the engine asks them."""
        return tuple(
            PlannedPoint(
                self.settings.question(point),
                point.case.name,
                part_of(self.prefix, point),
                point=point,
                settings=self.settings,
            )
            for point in self.points
        )

    def subject(self, shard: Shard | None = None) -> CampaignSubject:
        """Return what tells a run of this plan, with the tools of today, from another."""
        cases = {point.case.name: point.case for point in self.points}
        ini, grid = self.settings.vela_ini, self.settings.grid
        facets = (
            Facet("grid", grid, f"is of another grid than {grid}"),
            Facet(
                "cases",
                _digest([(asdict(case), digest_of_model(case.model)) for case in cases.values()]),
                f"has other cases of the grid {grid}, or they have changed",
            ),
            Facet(
                "points",
                _digest([point.key for point in self.points]),
                "has other NPUs, memory modes, systems or targets",
            ),
            Facet(
                "settings",
                _digest({**asdict(self.settings), "vela_ini": "" if ini is None else read_text(ini)}),
                "boots, repeats or configures Vela otherwise",
            ),
        )
        return CampaignSubject(BENCH, digest_of_plan(self.planned), tool_state(), shard=str(shard or ""), facets=facets)


def make_points(planned: Sequence[PlannedPoint], crew: CampaignCrew) -> None:
    """Make the points that a run folder has no settled record of. Each leaves one, whatever happens to it.

    Raises:
        OSError: a record cannot be written.
    """
    grid = planned[0].settings.grid if planned else ""
    crew.ask(planned, _jobs, is_settled, f"Benchmarking {grid}: {len(planned):,} points")


def is_settled(record: Record) -> bool:
    """Return whether a point's record is an answer that asking again would not change: its answers are right, it was
    only compiled and timed, or it was refused for a reason of its own. A failure, an answer that nothing vouches for,
    and a tool that was missing may end otherwise next time.
    """
    refused = is_refusal(record) and record.kind not in OF_THIS_PLACE
    return refused or judge.is_settled(record, compile_only=True)


def _jobs(planned: Sequence[PlannedPoint], attempt: int) -> Iterator[PointsJob]:
    """Yield jobs of points that share a TOSA program."""
    for _, group in groupby(planned, key=lambda it: (it.name, EthosU.parse(it.point.npu).family.tosa)):
        yield PointsJob(tuple(group), attempt)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()
