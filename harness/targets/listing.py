"""What targets there are, and which of them can run on this computer. Nothing is started."""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.plugins import PluginError
from ethos_hil.harness.targets.plugin import TargetPlugin
from ethos_hil.harness.targets.registry import TARGETS


@dataclass(frozen=True)
class ListedTarget:
    """A registered target.

    Attributes:
        name, kind, description, socs, npus: as TargetPlugin has them.
        options: what it honours (`TargetOption`), in alphabetical order.
        distribution: which one registers it.
        available: those of `npus` that it can run with here.
        missing: what the others need, or None where nothing is missing.
        hint: what to do about that, or None.
    """

    name: str
    kind: str
    description: str
    socs: tuple[str, ...]
    npus: tuple[str, ...]
    options: tuple[str, ...]
    distribution: str
    available: tuple[str, ...]
    missing: str | None
    hint: str | None

    @property
    def status(self) -> str:
        """Return whether the target can run here, in words."""
        if self.missing is None:
            return "available"
        return f"with {families(self.available)} only: {self.missing}" if self.available else self.missing


@dataclass(frozen=True)
class UnusableTarget:
    """A name that is registered and cannot be used: by whom, why, and what to do."""

    name: str
    distributions: tuple[str, ...]
    message: str
    hint: str


def list_targets() -> tuple[list[ListedTarget], list[UnusableTarget]]:
    """Return the registered targets in alphabetical order: first those that can be used, then those that cannot."""
    usable: list[ListedTarget] = []
    unusable: list[UnusableTarget] = []
    for name, found in TARGETS.all():
        owners = TARGETS.distributions(name)
        if isinstance(found, PluginError):
            unusable.append(UnusableTarget(name, owners, found.message, found.hint))
            continue
        try:
            usable.append(_listed(found, owners[0]))
        except Exception as error:  # of another's code: it must not hide the other targets
            message = (
                f"the target {name!r} of {owners[0]} does not say what is missing: {type(error).__name__}: {error}"
            )
            unusable.append(UnusableTarget(name, owners, message, f"repair or uninstall {owners[0]}"))
    return usable, unusable


def _listed(plugin: TargetPlugin, distribution: str) -> ListedTarget:
    problems = {npu: plugin.find(EthosU.parse(npu)) for npu in plugin.npus}
    missing = next((problem for problem in problems.values() if problem is not None), None)
    return ListedTarget(
        name=plugin.name,
        kind=plugin.kind,
        description=plugin.description,
        socs=plugin.socs,
        npus=plugin.npus,
        options=tuple(sorted(plugin.options)),
        distribution=distribution,
        available=tuple(npu for npu, problem in problems.items() if problem is None),
        missing=None if missing is None else missing.message,
        hint=None if missing is None else missing.hint,
    )


def families(npus: tuple[str, ...]) -> str:
    """Return names of NPUs in short: "ethos-u55-32, -64, ethos-u65-256"."""
    words: list[str] = []
    before = ""
    for npu in npus:
        family, _, macs = npu.rpartition("-")
        words.append(f"-{macs}" if family == before else npu)
        before = family
    return ", ".join(words)
