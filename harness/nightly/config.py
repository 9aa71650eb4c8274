"""What a nightly's TOML file says. `nightly.schema.json` beside this file describes it; docs/nightly.md explains it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.checked_toml import read_checked
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.options import DEFAULT_NPU, DEFAULT_TARGET
from ethos_hil.harness.boards.family import locate
from ethos_hil.results.places import DEFAULT_ROOT
from ethos_hil.results.report.reproduce import NO_LINKS, Links

if TYPE_CHECKING:
    from ethos_hil.harness.bench.order import BenchOrder

SCHEMA = "nightly.schema.json"
SEE = "docs/nightly.md has an example"
_LIMITS = ("min_sqnr", "min_npu_share")
"""Keys of `[run]` that a `[[model]]` may have itself."""


@dataclass(frozen=True)
class SuiteEntry:
    """A `[[suite]]`: tests of pytest. Empty: as pytest and the suites have it by default."""

    paths: tuple[str, ...]
    targets: tuple[str, ...]
    suffixes: tuple[str, ...] = ()
    expression: str = ""
    markers: str = ""
    one_in: int = 1
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    may_be_empty: bool = False


@dataclass(frozen=True)
class ModelEntry:
    """A `[[model]]`, with all places where it runs. The limits are those of `[run]` where it has none of its own."""

    model: str
    targets: tuple[str, ...]
    npus: tuple[str, ...] = (DEFAULT_NPU,)
    memory_modes: tuple[str, ...] = ()
    profile: bool = False
    inputs: str = ""
    min_sqnr: float | None = None
    min_npu_share: float | str | None = None


@dataclass(frozen=True)
class SubjectEntry:
    """A `[[subject]]`: what lowers all that the file asks for, once more."""

    name: str
    uses: tuple[str, ...] = ()


HERE = SubjectEntry("")
"""This environment, where a file names no subject."""


@dataclass(frozen=True)
class ExportEntry:
    """An `[[export]]`: a format for a whole run, and its file."""

    to: str
    file: Path


@dataclass(frozen=True)
class NightlyConfig:
    """What a nightly's file says; paths are absolute, but for those in entries of suites, models and sweeps.

    Attributes:
        path: the file.
        suites, models, sweeps: what runs.
        jobs: processes.
        known_model: MODEL that is verified first on each target, or "".
        timeout: seconds of a model's run on a target.
        into: the folder of run folders.
        against: what the night is compared with, or "".
        policy: what the gate allows, or None for its default.
        history: the folder of the history, or None.
        report: the HTML file, or None.
        exports: other files.
        quarantine: the file of tests that may fail for a while, or None.
        audit_one_in: one of so many tests runs twice; 0 for none.
        links: the addresses of commits and of jobs of the CI.
        subjects: what lowers; each suite, model and sweep runs once for each.
    """

    path: Path
    suites: tuple[SuiteEntry, ...]
    models: tuple[ModelEntry, ...]
    jobs: int
    known_model: str
    timeout: float
    into: Path
    against: str
    policy: Path | None
    history: Path | None
    report: Path | None
    exports: tuple[ExportEntry, ...]
    quarantine: Path | None
    audit_one_in: int
    sweeps: tuple[BenchOrder, ...] = ()
    links: Links = NO_LINKS
    subjects: tuple[SubjectEntry, ...] = (HERE,)

    @property
    def folder(self) -> Path:
        """The folder that paths in it start from, and that its tests run in: that of the file."""
        return self.path.parent


def read_config(path: Path) -> NightlyConfig:
    """Read a nightly's file.

    Raises:
        UsageError: it cannot be used; the message names the place.
    """
    path = path.absolute()
    data = read_checked(path, resources.files(__package__).joinpath(SCHEMA), SEE).data
    run: Mapping[str, Any] = data.get("run", {})
    suites = tuple(SuiteEntry(**entry) for entry in _entries(data, "suite", path.parent))
    limits = {name: run[name] for name in _LIMITS if name in run}
    models = tuple(ModelEntry(**{**limits, **entry}) for entry in _entries(data, "model", path.parent))
    timeout = run.get("timeout", 120.0)
    sweeps = tuple(_sweep(entry, path.parent, timeout) for entry in _entries(data, "sweep", path.parent))
    if not suites and not models and not sweeps:
        raise UsageError(
            f"{path} has nothing to run", hint="add a [[suite]], a [[model]] or a [[sweep]]; docs/nightly.md has them"
        )
    compare: Mapping[str, str] = data.get("compare", {})

    def file(table: str, key: str) -> Path | None:
        name = data.get(table, {}).get(key)
        return None if name is None else path.parent / name

    return NightlyConfig(
        path=path,
        suites=suites,
        models=models,
        jobs=run.get("jobs", os.cpu_count() or 1),
        known_model=run.get("known_model", ""),
        timeout=timeout,
        into=path.parent / run.get("into", DEFAULT_ROOT),
        against=compare.get("against", ""),
        policy=file("compare", "policy"),
        history=file("history", "folder"),
        report=file("report", "file"),
        exports=tuple(ExportEntry(entry["to"], path.parent / entry["file"]) for entry in data.get("export", ())),
        quarantine=file("quarantine", "file"),
        audit_one_in=data.get("audit", {}).get("one_in", 0),
        sweeps=sweeps,
        links=Links(**data.get("links", {})),
        subjects=tuple(_subject(entry, path.parent) for entry in data.get("subject", ())) or (HERE,),
    )


def _subject(table: Mapping[str, Any], folder: Path) -> SubjectEntry:
    """Return a `[[subject]]`; a path starts from the file's folder."""
    from ethos_hil.harness.subjects.subject import LoweringSubject

    subject = LoweringSubject.parse(tuple(table.get("with", ())))
    uses = () if subject is None else subject.moved(folder).uses
    return SubjectEntry(table["name"], uses)


def _sweep(table: Mapping[str, Any], folder: Path, timeout: float) -> BenchOrder:
    """Return a `[[sweep]]`: points of a benchmark. Empty: as the grid has it; without a grid, the default one."""
    from ethos_hil.harness.bench.order import BenchOrder
    from ethos_hil.harness.bench.points import PointSettings

    values = {name: value for name, value in table.items() if name not in ("grid", "boot")}
    grid = folder / table["grid"] if table.get("grid") else None
    return BenchOrder(**values, grid=grid, settings=PointSettings(boot=table.get("boot"), timeout=timeout))


def _entries(data: Mapping[str, Any], table: str, folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the tables of a name, with their targets."""
    targets = data.get("run", {}).get("targets", (DEFAULT_TARGET,))
    for entry in data.get(table, ()):
        asked = entry.get("targets", targets)
        yield _tuples({**entry, "targets": tuple(locate(target, folder) for target in asked)})


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}
