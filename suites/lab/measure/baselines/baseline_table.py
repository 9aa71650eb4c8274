"""The published baselines as data: what docs/data keeps, and what the page is made of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ethos_hil.suites.lab.measure.baselines.point import BaselinePoint

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class LeftToCpu:
    """Calls of one operator of a network that a generation of NPUs leaves to the CPU for one reason.

    Attributes:
        network, family: the two; the family as "U55".
        operator: ExecuTorch's name of the kernel.
        reason: why it is not on the NPU.
        calls: how many there are.
    """

    network: str
    family: str
    operator: str
    reason: str
    calls: int


@dataclass(frozen=True)
class BaselineTable:
    """All points, and what they were made with.

    Attributes:
        timing_model: id of the model of time.
        versions: of the packages that decide a number.
        left: what is left to the CPU.
        points: in the order of networks, NPUs and memory modes.
    """

    timing_model: str
    versions: Mapping[str, str]
    left: tuple[LeftToCpu, ...]
    points: tuple[BaselinePoint, ...]

    def of_network(self, name: str) -> tuple[BaselinePoint, ...]:
        """Return the points of a network."""
        return tuple(point for point in self.points if point.network == name)

    @property
    def networks(self) -> tuple[str, ...]:
        """The names of the networks, in order."""
        return tuple(dict.fromkeys(point.network for point in self.points))

    def only(self, networks: Sequence[str]) -> BaselineTable:
        """Return the table of some of its networks."""
        kept = tuple(entry for entry in self.left if entry.network in networks)
        return replace(self, left=kept, points=tuple(point for point in self.points if point.network in networks))

    def to_text(self) -> str:
        """Return it as JSON with a line for each point, so that a change of one is a line of a diff."""
        head = {
            "schema_version": SCHEMA_VERSION,
            "timing_model": self.timing_model,
            "versions": dict(self.versions),
            "left_to_cpu": [asdict(entry) for entry in self.left],
        }
        lines = ",\n".join(f"  {json.dumps(point.to_json())}" for point in self.points)
        return f'{json.dumps(head, indent=1)[:-2]},\n "points": [\n{lines}\n ]\n}}\n'

    @classmethod
    def of_text(cls, text: str) -> BaselineTable:
        """Return the table that `to_text` returned as text."""
        data: dict[str, Any] = json.loads(text)
        return cls(
            data["timing_model"],
            data["versions"],
            tuple(LeftToCpu(**entry) for entry in data["left_to_cpu"]),
            tuple(BaselinePoint.of_json(point) for point in data["points"]),
        )


def differences(committed: BaselineTable, measured: BaselineTable) -> Sequence[str]:
    """Return a line for each point that is not the same, and for the rest if it is not."""
    lines = []
    if committed.timing_model != measured.timing_model:
        lines.append(f"timing model {committed.timing_model} -> {measured.timing_model}")
    before, now = ({point.key: point.to_json() for point in table.points} for table in (committed, measured))
    for key in dict.fromkeys((*before, *now)):
        old, new = before.get(key, {}), now.get(key, {})
        changed = [
            f"{name} {old.get(name)} -> {new.get(name)}" for name in {**old, **new} if old.get(name) != new.get(name)
        ]
        if changed:
            lines.append(f"{' '.join(key)}: {', '.join(changed)}")
    if dict(committed.versions) != dict(measured.versions):
        lines.append(f"versions {dict(committed.versions)} -> {dict(measured.versions)}")
    if committed.left != measured.left:
        lines.append("what is left to the CPU")
    return lines
