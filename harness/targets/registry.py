"""Targets by name: those of ethos-hil and of other distributions, from the entry point group `ethos_hil.targets`.

It also says which of them can run on this computer; nothing is started for that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import EthosHilError, TargetNotAvailable, ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.plugins import PluginError, PluginGroup
from ethos_hil.harness.targets.plugin import TargetOption, TargetPlugin, TargetSettings

if TYPE_CHECKING:
    from ethos_hil.harness.targets.base import Target
    from ethos_hil.harness.virtual.board import BoardPool

TARGETS = PluginGroup("ethos_hil.targets", TargetPlugin, "target")
_ELSEWHERE = {"labgrid": ("ethos-hil-labgrid", "extra/labgrid")}
"""Targets of distributions of their own in this repository, with the folder of each."""
_REFUSALS = {
    TargetOption.STRICT: "{flag} needs to see into the NPU, which --target {name} does not allow",
    TargetOption.FAST: "{flag} is for FVPs; --target {name} has one speed",
    TargetOption.STRICT_BOARD: "{flag} is for the virtual board; --target {name} forgives what it forgives",
}


def check_name(name: str) -> None:
    """Check that a target of this name, or its family, is registered. Nothing is imported.

    Raises:
        UsageError: there is none; says which there are.
        TargetNotAvailable: it is one of a distribution of ours that is not installed.
    """
    registered = name.partition(":")[0]
    if registered in _ELSEWHERE and registered not in TARGETS.names():
        distribution, folder = _ELSEWHERE[registered]
        raise TargetNotAvailable(
            f"--target {registered} needs {distribution}, which is not installed",
            hint=f"`pip install --no-deps ./{folder}` in a checkout of ethos-hil; docs/farm.md has how",
        )
    TARGETS.require(registered)


def find_plugin(name: str) -> TargetPlugin:
    """Return the plug-in of the target called `name`.

    Raises:
        UsageError: there is none; says which there are.
        ToolError: its plug-in cannot be used, or is not installed; names the distribution.
    """
    check_name(name)
    registered, colon, member = name.partition(":")
    plugin = TARGETS.get(registered)
    if plugin.family is None:
        if colon:
            raise UsageError(f"the target {registered} has no members, such as {member!r}", hint=f"use {registered}")
        return plugin
    if not member:
        names = ", ".join(f"{registered}:{name}" for name in plugin.family.names())
        raise UsageError(f"the target {registered} needs a name behind a colon", hint=f"use one of {names}")
    return plugin.family.member(member)


def name_in_records(name: str) -> str:
    """Return what records call the target that `--target` calls `name`: a board's file has a path there.

    Where that cannot be found out, it is `name`.
    """
    try:
        return _recorded_name(name)
    except EthosHilError:
        return name


@functools.cache
def _recorded_name(name: str) -> str:
    """Return the name, which follows from the text alone: a benchmark asks for it at each of thousands of points."""
    return find_plugin(name).name


def kind_of(name: str) -> str:
    """Return the kind of the target called `name`, or "" where that cannot be found out."""
    try:
        return find_plugin(name).kind
    except EthosHilError:
        return ""


def check_option(plugin: TargetPlugin, option: TargetOption) -> None:
    """Check that a target honours an option.

    Args:
        plugin: the target.
        option: what is asked of it.

    Raises:
        UsageError: it does not; says which targets do.
    """
    if option in plugin.options:
        return
    able = [other.name for other in _usable() if option in other.options]
    other = f"use --target {' or '.join(able)}, or " if able else ""
    raise UsageError(
        _REFUSALS[option].format(flag=option.flag, name=plugin.name), hint=f"{other}leave out {option.flag}"
    )


def check_npu(plugin: TargetPlugin, npu: EthosU) -> None:
    """Check that a target can have an NPU. Nothing is started.

    Raises:
        UsageError: it cannot; says which it can have, and which target can have that one.
    """
    if npu.name in plugin.npus:
        return
    able = sorted((other for other in _usable() if npu.name in other.npus), key=lambda it: it.kind != plugin.kind)
    where = f"use --target {able[0].name}, or " if able else "use "
    raise UsageError(f"the target {plugin.name} cannot have an {npu}", hint=f"{where}one of {', '.join(plugin.npus)}")


def make_target(
    name: str, npu: EthosU, *, pool: BoardPool | None = None, tell: Callable[[str], None] | None = None, **rules: bool
) -> Target:
    """Make the target called `name` with `npu` in it.

    Args:
        name: as registered; `ethos-hil doctor` lists them.
        npu: what it must have.
        pool: where boards wait between runs; a target that cannot use it is made without.
        tell: gets what is being done, before something takes time.
        rules: what is asked of it, by the names of `TargetSettings`.

    Raises:
        UsageError: there is no such target, or it cannot do what is asked; says which can.
        TargetNotAvailable: its simulator, or its board, is missing.
        ToolError: its plug-in cannot be used, or the target is not what its plug-in says.
    """
    plugin = find_plugin(name)
    for option in TargetOption:
        if rules.get(option.setting):
            check_option(plugin, option)
    check_npu(plugin, npu)
    missing = plugin.find(npu)  # now, not after a minute of lowering
    if missing is not None:
        raise missing
    kept = pool if TargetOption.POOL in plugin.options else None
    settings = TargetSettings(**rules, pool=kept, tell=tell)
    try:
        board = plugin.make(npu, settings)
    except EthosHilError:
        raise
    except Exception as error:
        owner = _owner(plugin)
        raise ToolError(
            f"the target {plugin.name!r} of {owner} cannot be made: {type(error).__name__}: {error}",
            hint=f"repair or uninstall {owner}; --debug shows where",
        ) from error
    _check_description(board, plugin, npu)
    return board


def _check_description(board: Target, plugin: TargetPlugin, npu: EthosU) -> None:
    """Raise ToolError where a target contradicts its plug-in or docs/formats.md: no record has words no one knows."""
    from ethos_hil.harness.targets.base import CYCLE_PROVENANCES

    allowed: dict[str, tuple[str, ...]] = {
        "kind": (plugin.kind,),
        "soc": plugin.socs,
        "npu": (npu.name,),
        "cycle_provenance": CYCLE_PROVENANCES,
    }
    for attribute, values in allowed.items():
        value = getattr(board, attribute, None)
        if value not in values:
            owner = _owner(plugin)
            raise ToolError(
                f"the target {plugin.name!r} of {owner} says that its {attribute} is {value!r}, and not "
                f"{' or '.join(values)}",
                hint=f"repair or uninstall {owner}",
            )


def _owner(plugin: TargetPlugin) -> str:
    """Return the distribution of a target, or of the family that it is a member of, for messages."""
    return TARGETS.owner(plugin.name.partition(":")[0])


def _usable() -> list[TargetPlugin]:
    return [plugin for _, plugin in TARGETS.all() if isinstance(plugin, TargetPlugin)]


@dataclass(frozen=True)
class ListedTarget:
    """A registered name, as `ethos-hil doctor` lists it.

    Attributes:
        name: of the target.
        description: as TargetPlugin has it; "" where the plug-in cannot be used.
        npus: as TargetPlugin has them.
        problem: what is missing to run here, or why it cannot be used; None where nothing is.
        hint: what to do about that, or None.
    """

    name: str
    description: str = ""
    npus: tuple[str, ...] = ()
    problem: str | None = None
    hint: str | None = None


def list_targets() -> list[ListedTarget]:
    """Return the registered targets, in alphabetical order. None is started."""
    return [_list(name, plugin) for name, plugin in TARGETS.all()]


def _list(name: str, plugin: TargetPlugin | PluginError) -> ListedTarget:
    if isinstance(plugin, PluginError):
        return ListedTarget(name, problem=plugin.message, hint=plugin.hint)
    try:
        problems = {npu: plugin.find(EthosU.parse(npu)) for npu in plugin.npus}
    except Exception as error:  # of another's code: it must not hide the other targets
        owner = TARGETS.owner(name)
        why = f"the target {name!r} of {owner} does not say what is missing: {type(error).__name__}: {error}"
        return ListedTarget(name, problem=why, hint=f"repair or uninstall {owner}")
    missing = next((problem for problem in problems.values() if problem is not None), None)
    if missing is None:
        return ListedTarget(name, plugin.description, plugin.npus)
    usable = tuple(npu for npu, problem in problems.items() if problem is None)
    only = f"with {families(usable)} only: " if usable else ""
    return ListedTarget(name, plugin.description, plugin.npus, f"{only}{missing.message}", missing.hint)


def families(npus: tuple[str, ...]) -> str:
    """Return names of NPUs in short: "ethos-u55-32, -64, ethos-u65-256"."""
    words: list[str] = []
    before = ""
    for npu in npus:
        family, _, macs = npu.rpartition("-")
        words.append(f"-{macs}" if family == before else npu)
        before = family
    return ", ".join(words)
