"""A place of a farm: how it is chosen, what its coordinator says of it, and where its board is once it is borrowed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ethos_hil.base.errors import TargetNotAvailable, UsageError
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.harness.boards.board import Board, Loading, Power, Server
from ethos_hil.harness.gdb.dialect import ServerDialect

FAMILY = "labgrid"
BOARD_TAG = "board"
"""The tag of a place that names its board in the catalogue."""
_SEE = "docs/farm.md has how"
_FORM = f"{FAMILY}:PLACE, {FAMILY}:PLACE1+PLACE2, or {FAMILY}:board=NAME for any that is free"
_TAG_VALUE = re.compile(r"([a-z][a-z0-9_]+)=([A-Za-z0-9._-]+)")
_SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class PlaceChoice:
    """Which places of a farm may be used: those with these names, or all that have these tags."""

    names: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> PlaceChoice:
        """Return the choice that stands behind "labgrid:".

        Raises:
            UsageError: it is not a choice of places.
        """
        parts = text.split("+")
        tags = [_TAG_VALUE.fullmatch(part) for part in parts]
        if not all(parts):
            raise UsageError(f"{FAMILY}:{text} names no place between two +, or none at all", hint=f"write {_FORM}")
        if "=" not in text:
            return cls(names=tuple(dict.fromkeys(parts)))
        if None in tags:
            wrong = parts[tags.index(None)]
            raise UsageError(
                f"{FAMILY}:{text}: {wrong!r} is not a tag=value as labgrid has them", hint=f"write {_FORM}"
            )
        return cls(tags=tuple((tag[1], tag[2]) for tag in tags if tag is not None))

    def __str__(self) -> str:
        """Return what `parse` takes."""
        return "+".join(self.names or (f"{key}={value}" for key, value in self.tags))

    def among(self, known: Sequence[KnownPlace], coordinator: str) -> tuple[KnownPlace, ...]:
        """Return the places that are meant.

        Raises:
            UsageError: one of the names is unknown.
            TargetNotAvailable: no place has these tags.
        """
        if self.tags:
            places = tuple(place for place in known if dict(self.tags).items() <= place.tags.items())
            if not places:
                raise TargetNotAvailable(
                    f"no place at {coordinator} has the tags {self}",
                    hint=f"`labgrid-client -p PLACE set-tags {' '.join(str(self).split('+'))}` gives them; {_SEE}",
                )
            return places
        by_name = {name: place for place in known for name in (*place.aliases, place.name)}
        for name in self.names:
            if name not in by_name:
                suggestion = did_you_mean(name, by_name)
                there = ", ".join(place.name for place in known) or "none"
                raise UsageError(
                    f"no place at {coordinator} is called {name!r}", hint=f"{suggestion}places: {there}; {_SEE}"
                )
        return tuple(dict.fromkeys(by_name[name] for name in self.names))


@dataclass(frozen=True, eq=False)
class KnownPlace:
    """A place as its coordinator lists it.

    Attributes:
        name, aliases: what it is called.
        tags: what is said of it.
    """

    name: str
    aliases: tuple[str, ...]
    tags: Mapping[str, str]

    @property
    def board(self) -> str:
        """Return the name of its board.

        Raises:
            TargetNotAvailable: it does not say.
        """
        try:
            return self.tags[BOARD_TAG]
        except KeyError:
            raise TargetNotAvailable(
                f"the place {self.name} does not say which board it has: it has no tag {BOARD_TAG!r}",
                hint=f"`labgrid-client -p {self.name} set-tags {BOARD_TAG}=NAME`, with a name that `ethos-hil boards` "
                "lists",
            ) from None


@dataclass(frozen=True)
class BorrowedPlace:
    """A place that this process has for itself.

    Attributes:
        name: what it is called.
        owner: under which name labgrid knows that.
        serial: URL of its serial line, for pyserial.
        gdb: "host:port" of its gdb server; None where it has none.
        dialect: of that one, where the place says it; "" is as the board's file says.
        has_power: whether labgrid can switch it.
    """

    name: str
    owner: str
    serial: str
    gdb: str | None
    dialect: str
    has_power: bool

    def board(self, described: Board, power_cycle: tuple[str, ...]) -> Board:
        """Return the board that is here.

        What its file says of a port, a probe and a switch is of another bench, and does not count.

        Args:
            described: as the catalogue has it.
            power_cycle: the command that switches the place off and on.

        Raises:
            TargetNotAvailable: the place states a dialect that is unknown.
        """
        settle = described.power.settle if described.power is not None else _SETTLE_SECONDS
        return dataclasses.replace(
            described,
            link=dataclasses.replace(described.link, url=self.serial),
            loading=self._loading(described.loading),
            power=Power(cycle=power_cycle, settle=settle) if self.has_power else None,
        )

    def _loading(self, described: Loading) -> Loading:
        if self.gdb is None:
            return Loading(Server.NONE)
        try:
            dialect = ServerDialect(self.dialect) if self.dialect else described.dialect
        except ValueError:
            raise TargetNotAvailable(
                f"the GdbServer of the place {self.name} has the dialect {self.dialect!r}",
                hint=f"one of {', '.join(dialect.value for dialect in ServerDialect)}, in its exporter's file",
            ) from None
        return Loading(Server.RUNNING, dialect=dialect, address=self.gdb, timeout=described.timeout)
