"""Several boards of a kind as one target: a run takes the first that is free and well.

A suite over boards of unequal speed needs no plan for it: each worker takes a board for one test, so a fast board gets
more of them. What fails on one board for a reason of the board is run on another one, and the board is left alone for a
while.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import EthosHilError, TargetNotAvailable, UsageError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.quarantine import INFRASTRUCTURE, quarantined
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.outcome import Outcome, Progress
from ethos_hil.harness.targets.base import Target
from ethos_hil.harness.targets.capability import Capability

_POLL_SECONDS = 0.1
"""Between two looks whether a board is free."""


class BoardGroup(Target):
    """Boards with one system on chip and one NPU."""

    kind = "board"

    def __init__(self, name: str, members: Sequence[BoardTarget]) -> None:
        """Make the target.

        Args:
            name: what `--target` says.
            members: at least one.

        Raises:
            UsageError: they are not of a kind.
        """
        kinds = {(member.soc, member.npu, member.cycle_provenance) for member in members}
        if len(kinds) != 1:
            text = "; ".join(f"{member.name}: {member.soc}, {member.cycle_provenance}" for member in members)
            raise UsageError(
                f"the boards of {name} are not of a kind: {text}", hint="name boards with one system on chip"
            )
        self.name = name
        self._members = tuple(members)
        first = members[0]
        self.soc, self.npu, self.cycle_provenance, self.cpu_unit = (
            first.soc,
            first.npu,
            first.cycle_provenance,
            first.cpu_unit,
        )

    def capabilities(self) -> frozenset[Capability]:
        """Return what all of them can do."""
        return frozenset.intersection(*(member.capabilities() for member in self._members))

    def _load(self, image: Image) -> None:
        for member in self._members:
            member.load(image)
            member.reset()

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        deadline = Deadline(timeout)
        failed: dict[str, EthosHilError] = {}
        while not deadline.passed:
            for member in self._in_order():
                if member.name in failed:
                    continue
                try:
                    outcome = self._run_on(member, image, deadline, progress)
                except EthosHilError as error:
                    if error.kind is FailureKind.LEASED:
                        continue
                    if error.kind not in INFRASTRUCTURE:
                        raise
                    failed[member.name] = error
                    self._tell(f"{member.name}: {error.message}; another board is used")
                    continue
                return dataclasses.replace(outcome, notes=(*outcome.notes, *_story(member.name, failed)))
            if len(failed) == len(self._members):
                raise _all_failed(self.name, failed)
            time.sleep(min(_POLL_SECONDS, deadline.remaining))
        raise TargetNotAvailable(
            f"no board of {self.name} was free within {timeout:g} s", kind=FailureKind.LEASED,
            hint="name more boards, start fewer workers, or wait longer (--timeout)",
        )  # fmt: skip

    def _run_on(self, member: BoardTarget, image: Image, deadline: Deadline, progress: Progress | None) -> Outcome:
        member.listen(self._tell)
        member.patience = 0.0
        member.load(image)
        return member.run(timeout=deadline.remaining, progress=progress)

    def _reset(self) -> None:
        for member in self._members:
            member.reset()

    def _in_order(self) -> list[BoardTarget]:
        """Return the boards to try, those that are in quarantine last."""
        return sorted(self._members, key=lambda member: quarantined(member.board) is not None)


def _story(name: str, failed: dict[str, EthosHilError]) -> list[str]:
    """Return what was unusual, for the record."""
    return [f"it ran on {name}", *(f"{other} failed: {error.message}" for other, error in failed.items())]


def _all_failed(name: str, failed: dict[str, EthosHilError]) -> EthosHilError:
    *_, last = failed.values()
    if len(failed) == 1:
        return last
    text = "; ".join(f"{each}: {error.message}" for each, error in failed.items())
    return last.replace(message=f"every board of {name} failed: {text}")
