"""Planned questions: what a campaign asks, known before anything runs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.files import digest_of_file
from ethos_hil.base.question import Question
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.targets.registry import name_in_records
from ethos_hil.results.selection import Selected, Selection


@dataclass(frozen=True)
class Planned:
    """A question that a campaign asks.

    Attributes:
        question: the question.
        name: what its part calls it, and its record.
        part: the part of the plan that asks it; "" where a plan has only one.
        more: what else tells it from the others: a version, the items of a data set.
    """

    question: Question
    name: str
    part: str = ""
    more: str = ""

    @cached_property
    def digest(self) -> str:
        """What tells it from every other question; the record of its answer has it."""
        identity = json.dumps([self.part, self.name, self.more, self.question.digest])
        return hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:16]

    @property
    def selected(self) -> Selected:
        """It, as a run folder keeps it."""
        return Selected(
            self.name, npu=self.question.npu, target=name_in_records(self.question.target), planned=self.digest
        )


P = TypeVar("P", bound=Planned)


def selections(plan: Iterable[Planned], shard: str = "") -> tuple[Selection, ...]:
    """Return what each part of a plan chooses."""
    by_part: dict[str, list[Selected]] = {}
    for planned in plan:
        by_part.setdefault(planned.part, []).append(planned.selected)
    return tuple(Selection(part, tests=tuple(chosen), shard=shard) for part, chosen in by_part.items())


def write_plan(folder: Path, plan: Iterable[Planned], shard: str = "") -> None:
    """Keep a plan in a run folder, before any of it is asked: what then has no record is missing.

    Raises:
        OSError: it cannot be written.
        BadSelection: what is there is damaged.
    """
    for selection in selections(plan, shard):
        selection.write(folder)


def share_of(plan: Iterable[P], shard: Shard | None) -> tuple[P, ...]:
    """Return the part of a plan that a shard asks: what has one name, and one `more`, is asked by one machine."""
    return tuple(
        planned for planned in plan if shard is None or shard.takes(*filter(None, (planned.name, planned.more)))
    )


def digest_of_model(model: str) -> str:
    """Return the digest of the file of a MODEL, or of a suite's test; "" for a module, or where there is none."""
    path = Path(model.partition("::")[0] if "::" in model else model.rpartition(":")[0] or model).expanduser()
    if not model or not path.is_file():
        return ""
    return digest_of_file(path)


def digest_of_plan(plan: Iterable[Planned]) -> str:
    """Return what tells a plan from every other one: its questions, in their order."""
    return hashlib.sha256(" ".join(planned.digest for planned in plan).encode()).hexdigest()
