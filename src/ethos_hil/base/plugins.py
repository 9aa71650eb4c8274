"""Plug-ins: objects that installed distributions name in their metadata. They are imported when they are asked for.

A distribution registers one under an entry point group, in its pyproject.toml:

    [project.entry-points."ethos_hil.targets"]
    my-board = "my_package.my_board:PLUGIN"

ethos-hil registers its own in the same way. A name that two distributions register is an error, so that no one replaces
a plug-in of another by accident.
"""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.plain_text import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
GROUPS = ("ethos_hil.targets", "ethos_hil.exporters", "ethos_hil.run_exporters", "ethos_hil.socs")
"""All groups of plug-ins."""


class PluginError(ToolError):
    """A plug-in cannot be used. The message names its distribution."""


@dataclass(frozen=True)
class PluginGroup(Generic[T]):
    """The plug-ins of one kind.

    Attributes:
        group: the entry point group.
        kind: the class of each plug-in. It has an attribute `name`.
        noun: the word for one of them in messages.
    """

    group: str
    kind: type[T]
    noun: str

    def names(self) -> tuple[str, ...]:
        """Return all registered names in alphabetical order. Nothing is imported."""
        return tuple(sorted(self._entries()))

    def require(self, name: str) -> None:
        """Check that a distribution registers `name`. Nothing is imported.

        Raises:
            UsageError: none does; lists the known names.
        """
        names = self.names()
        if name in names:
            return
        if not names:
            hint = f"install ethos-hil again: its metadata names no {self.noun}s"
        else:
            suggestion = did_you_mean(name, names)
            hint = f"{suggestion}{self.noun}s: {', '.join(names)}"
        raise UsageError(f"no {self.noun} is called {name!r}", hint=hint)

    def distributions(self, name: str) -> tuple[str, ...]:
        """Return the distributions that register `name`."""
        return tuple(_distribution(entry) for entry in self._entries().get(name, ()))

    def owner(self, name: str) -> str:
        """Return the distributions that register `name`, for messages."""
        return " and ".join(self.distributions(name))

    def get(self, name: str) -> T:
        """Return the plug-in called `name`.

        Raises:
            UsageError: there is none.
            PluginError: two distributions register it, or it cannot be imported, or is not what it should be.
        """
        self.require(name)
        entries = self._entries()[name]
        if len(entries) > 1:
            raise PluginError(
                f"the {self.noun} {name!r} is registered by {self.owner(name)}", hint="uninstall all of them but one"
            )
        (entry,) = entries
        try:
            plugin: object = entry.load()
        except (Exception, SystemExit) as error:
            raise self._unusable(name, f"cannot be imported: {type(error).__name__}: {error}") from error
        if not isinstance(plugin, self.kind):
            made = type(plugin).__name__
            raise self._unusable(name, f"is not of the type {self.kind.__name__}: {entry.value} is a {made}")
        called: object = getattr(plugin, "name", None)
        if called != name:
            raise self._unusable(name, f"calls itself {called!r}")
        return plugin

    def _unusable(self, name: str, why: str) -> PluginError:
        owner = self.owner(name)  # asked only here: it parses the metadata of the distribution
        return PluginError(f"the {self.noun} {name!r} of {owner} {why}", hint=f"repair or uninstall {owner}")

    def all(self) -> Iterator[tuple[str, T | PluginError]]:
        """Yield every name with its plug-in, or with the error of one that cannot be used."""
        for name in self.names():
            try:
                yield name, self.get(name)
            except PluginError as error:
                yield name, error

    def _entries(self) -> dict[str, tuple[EntryPoint, ...]]:
        return _find_entries(self.group, tuple(sys.path))


def owners(error: BaseException) -> tuple[str, ...]:
    """Return the distributions whose plug-ins an error has passed through. ethos-hil is never among them.

    A plug-in's package is the one that its entry point names: "my_package" of "my_package.my_board:PLUGIN".
    """
    packages: dict[str, str] = {}
    for group in GROUPS:
        for entries in _find_entries(group, tuple(sys.path)).values():
            packages |= {entry.module.partition(".")[0]: _distribution(entry) for entry in entries}
    frames = traceback.walk_tb(error.__traceback__)
    passed = (str(frame.f_globals.get("__name__", "")).partition(".")[0] for frame, _ in frames)
    return tuple(dict.fromkeys(packages[name] for name in passed if name in packages and name != "ethos_hil"))


def _distribution(entry: EntryPoint) -> str:
    distribution: Any = entry.dist
    return "an unnamed distribution" if distribution is None else str(distribution.name)


@functools.lru_cache(maxsize=8)
def _find_entries(group: str, path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points by name. A suite asks for every test."""
    entries: dict[str, tuple[EntryPoint, ...]] = {}
    for entry in _installed(path).select(group=group):
        entries[entry.name] = (*entries.get(entry.name, ()), entry)
    return entries


@functools.lru_cache(maxsize=2)
def _installed(_path: tuple[str, ...]) -> Any:
    """Return all entry points. A search of all distributions takes 15 ms."""
    from importlib.metadata import entry_points  # late: it takes 30 ms, and --help needs none

    return entry_points()
