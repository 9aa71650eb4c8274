"""How a target is registered: its name, its NPUs, the options it honours, and how it is found and made."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.options import OPTIONS

if TYPE_CHECKING:
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.harness.targets.base import Target
    from ethos_hil.harness.virtual.board import BoardPool

KINDS = ("virtual", "fvp", "board")


class TargetOption(enum.StrEnum):
    """What a user can ask of a target apart from an NPU, and what the target then has to do."""

    STRICT = "strict"
    """`--strict-waits`: a run whose command stream lacks a wait ends in a TargetError of kind "hazard"."""
    FAST = "fast"
    """`--fast`: the NPU leaves out its timing, to be faster. The target has no Capability.NPU_CYCLES then."""
    STRICT_BOARD = "strict-board"
    """`--strict-board`: the board forgives nothing that a real part may not forgive (docs/targets.md). What a program
    does against one of its rules ends in a TargetError of kind "board-rule"."""
    POOL = "pool"
    """A BoardPool is used for Capability.STAYS_UP. It only saves time, so other targets ignore it."""

    @property
    def setting(self) -> str:
        """Its name in `TargetSettings`, and among the fields of a question but for the pool."""
        return self.value.replace("-", "_")

    @property
    def flag(self) -> str:
        """What a user writes on the command line; "" for the pool."""
        return OPTIONS[self.setting].flag(self.setting) if self.setting in OPTIONS else ""


@dataclass(frozen=True)
class TargetSettings:
    """What a user asks of a target. A target never gets a setting that its plug-in does not honour.

    Attributes:
        strict: see TargetOption.STRICT.
        fast: see TargetOption.FAST.
        strict_board: see TargetOption.STRICT_BOARD.
        pool: see TargetOption.POOL.
        tell: gets what is being done while the target is made, before something takes time; or None.
    """

    strict: bool = False
    fast: bool = False
    strict_board: bool = False
    pool: BoardPool | None = None
    tell: Callable[[str], None] | None = None


def lacking(look: Callable[[], object]) -> ToolError | None:
    """Return the error that a look for a program on this computer ends in, or None: for `TargetPlugin.find`."""
    try:
        look()
    except ToolError as error:
        return error
    return None


@dataclass(frozen=True)
class TargetFamily:
    """Targets of one kind that files describe: `--target FAMILY:MEMBER`.

    Attributes:
        member: returns the plug-in of a member, by what follows the colon. Raises UsageError where there is none.
        names: returns the members that are known.
    """

    member: Callable[[str], TargetPlugin]
    names: Callable[[], tuple[str, ...]]


def needs_member(npu: EthosU, settings: TargetSettings) -> Target:
    """Refuse to make a family: `TargetPlugin.make` of one. Users name a member, and `find_plugin` says so first."""
    raise UsageError("a family is not a target", hint="name a member behind a colon")


@dataclass(frozen=True)
class TargetPlugin:
    """A target that users name with `--target`. A distribution registers it under the entry points `ethos_hil.targets`.

    Attributes:
        name: what `--target` takes and records have; of a family's member, what records have.
        kind: one of KINDS.
        description: one line for `ethos-hil doctor`.
        socs: names of the systems on chip it can be (harness/socs).
        npus: names of the NPUs it can have, e.g. "ethos-u55-128".
        make: makes the target with one of `npus`. It may ask a program for its version. It may raise
            TargetNotAvailable.
        find: returns what this computer lacks to run with an NPU, or None. It starts nothing.
        options: the options it honours.
        family: its members, where it stands for a family. Then the rest is of no use but for lists.
    """

    name: str
    kind: str
    description: str
    socs: tuple[str, ...]
    npus: tuple[str, ...]
    make: Callable[[EthosU, TargetSettings], Target]
    find: Callable[[EthosU], ToolError | None]
    options: frozenset[TargetOption] = frozenset()
    family: TargetFamily | None = None

    def __post_init__(self) -> None:
        """Check the kind. Raises ValueError when records have no such kind."""
        if self.kind not in KINDS:
            raise ValueError(f"the target {self.name!r} is of kind {self.kind!r}; there are {', '.join(KINDS)}")
