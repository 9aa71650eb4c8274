"""A MODEL by its name, lowered; and found again without torch as long as nothing that it is made from changes.

To know a model's artifact in the cache, the model has to be built and exported, which takes torch and seconds. So what
it was made from is kept as well (`ethos_hil.lowering.made_from`): the files that its function imported and opened, and
versions. A model that says that it depends on more is built again each time; a note says why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.errors import ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import LoweringOptions
from ethos_hil.base.plain_text import list_of
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.conditions.process import Progress, silent, tell, telling
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.made_from.file_watch import WATCH, loaded_files, of_project
from ethos_hil.lowering.made_from.model_fingerprint import (
    Fingerprint,
    Found,
    changed_file,
    file_of_module,
    find_artifact,
    fingerprint,
    keep_artifact,
    read_at_import,
)
from ethos_hil.lowering.model.quantisation import quantisation_notes
from ethos_hil.lowering.model.torch_model import HostModules, TorchModel, load_model
from ethos_hil.lowering.program.program_file import ProgramFile
from ethos_hil.lowering.upstream.toolchain import toolchain_for
from ethos_hil.lowering.user_code.user_function import MODULE_PREFIX
from ethos_hil.lowering.vela.options import VelaSetup

Needed = Callable[[bool, Mapping[str, int]], bool]
"""Called with whether a model keeps state, and by method how often a run executes each input set by default."""


def never_needed(stateful: bool, repeat: Mapping[str, int]) -> bool:
    """Return that the loaded model is not needed."""
    return False


@dataclass(frozen=True)
class LoweredModel:
    """A model that was lowered, or found.

    Attributes:
        artifact: the artifact.
        notes: sentences about the model, for records.
        quantisation: sentences about the quantisation of each method (`quantisation_notes`).
        repeat: by method, how often a run executes each input set by default.
        text: by method, the output whose values are characters (`Method.text`).
        stateful: whether one of its methods keeps state.
        source: what was loaded; None if the artifact was found without loading anything.
    """

    artifact: Artifact
    notes: tuple[str, ...] = ()
    quantisation: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repeat: Mapping[str, int] = field(default_factory=dict)
    text: Mapping[str, str] = field(default_factory=dict)
    stateful: bool = False
    source: TorchModel | ProgramFile | None = None

    @classmethod
    def of(cls, artifact: Artifact, source: TorchModel | ProgramFile) -> LoweredModel:
        """Return a model that was loaded and lowered."""
        quantisation = {part.name: quantisation_notes(source, part.name, part.scheme) for part in artifact.methods}
        if not isinstance(source, TorchModel):
            return cls(artifact, (), quantisation, source=source)
        repeat = {name: method.repeat for name, method in source.methods.items()}
        text = {name: method.text for name, method in source.methods.items()}
        stateful = any(method.stateful for method in source.methods.values())
        return cls(artifact, source.notes, quantisation, repeat, text, stateful, source)

    @classmethod
    def restored(cls, artifact: Artifact, told: Mapping[str, Any]) -> LoweredModel:
        """Return a model of which `told` was kept, also as JSON; without what was loaded."""
        quantisation = {name: tuple(sentences) for name, sentences in told["quantisation"].items()}
        return cls(artifact, tuple(told["notes"]), quantisation, told["repeat"], told["text"], told["stateful"])

    @property
    def told(self) -> dict[str, Any]:
        """What is said of it beside the artifact, for `restored`."""
        return {
            "notes": self.notes,
            "quantisation": dict(self.quantisation),
            "repeat": dict(self.repeat),
            "text": dict(self.text),
            "stateful": self.stateful,
        }

    @property
    def model(self) -> TorchModel | None:
        """The loaded model; None if it is a program, or was not loaded."""
        return self.source if isinstance(self.source, TorchModel) else None

    def notes_for(self, method: str) -> tuple[str, ...]:
        """Return the sentences for a record of a run of a method."""
        return (*self.notes, *self.quantisation.get(method, ()))


@dataclass(frozen=True)
class ModelChange:
    """What is changed of a model after it is loaded.

    Attributes:
        applied: changes it.
        key: says how; equal keys mean equal changes.
    """

    applied: Callable[[TorchModel | ProgramFile], TorchModel | ProgramFile] = lambda loaded: loaded
    key: tuple[str, ...] = ()


NO_CHANGE = ModelChange()


@dataclass(frozen=True)
class _Origin:
    """The file of a MODEL, and the folder that Python searches first for what it imports."""

    file: Path
    folder: Path

    @classmethod
    def of(cls, text: str) -> _Origin | None:
        """Return the origin of a MODEL; None if it is a program, if its file is not there, or is that of an installed
        package, whose files nothing compares.
        """
        place, _, function = text.rpartition(":")
        if text.lower().endswith(".pt2"):
            path = Path(text).expanduser().absolute()
        elif not place or not function:
            return None
        elif place.endswith(".py") or "/" in place:
            path = Path(place).expanduser().absolute()
        else:
            file = file_of_module(place, Path.cwd())
            return None if file is None else cls(file, Path.cwd())
        resolved = of_project(str(path))
        return cls(resolved, resolved.parent) if resolved is not None and resolved.is_file() else None


def lower_named(
    text: str,
    target: EthosU | TosaSpec,
    *,
    options: LoweringOptions | None = None,
    vela: VelaSetup | None = None,
    whole: bool = False,
    change: ModelChange = NO_CHANGE,
    needed: Needed = never_needed,
    cache: Cache | None = None,
    progress: Progress = silent,
    hosts: Callable[[str, HostModules], None] | None = None,
    etrecord: bool = False,
) -> LoweredModel:
    """Load the model called `text` and lower it, or find its artifact in the cache without loading it.

    Args:
        text: a MODEL as on the command line.
        target, vela, whole, cache, progress, hosts, etrecord: as for `ethos_hil.lowering.lower.lower`.
        options: the same; `trust_model` is as for `load_model`.
        change: what is changed of the model after it is loaded.
        needed: whether the caller needs the loaded model.

    Raises:
        UsageError, CompileError, ToolError: as `load_model` and `lower`.
    """
    cache = cache if cache is not None else Cache()
    options = options or LoweringOptions(text)

    def lower_loaded(loaded: TorchModel | ProgramFile) -> Artifact:
        from ethos_hil.lowering.lower import lower  # late: a model that is found does without

        return lower(
            loaded, target, options=options, vela=vela, whole=whole, cache=cache, progress=progress, hosts=hosts,
            etrecord=etrecord,
        )  # fmt: skip

    origin = None if options.trust_model else _Origin.of(text)  # what a file with code in it opens is not watched
    if origin is None:
        progress("loading the model")
        loaded = change.applied(load_model(text, trust=options.trust_model, ptd=options.ptd))
        return LoweredModel.of(lower_loaded(loaded), loaded)
    name = _identity(text, origin)
    key = (
        *toolchain_for(target, options, vela).key,
        "whole" if whole else "",
        "by name",
        *(("leave", *options.leave) if options.leave else ()),
        *(("etrecord",) if etrecord else ()),
        *change.key,
    )
    today = read_at_import((origin.file,), origin.folder)
    entry = find_artifact(cache, name, key, today)
    if entry is not None and _fresh(entry.made_from):
        known = LoweredModel.restored(entry.artifact.rename(text), entry.told)
        if not needed(known.stateful, known.repeat):
            return known
    progress("loading the model")
    with WATCH.building() as built, telling(progress):
        tell("loading the model")
        loaded = change.applied(load_model(text))
        artifact = lower_loaded(loaded)
    built.passing = {path for path in built.passing if not Path(path).is_relative_to(cache.folder)}
    made_from = fingerprint((origin.file,), built, origin.folder)
    model = LoweredModel.of(artifact, loaded)
    _keep(cache, name, key, Found(artifact, made_from, model.told))
    if not made_from.unknown:
        return model
    why = f"loaded again, as in every run, because what decides it cannot be known: {list_of(made_from.unknown)}"
    return replace(model, notes=(*model.notes, why))


def _identity(text: str, origin: _Origin) -> str:
    """Return what a model is called, with all that decides which files a name in its code means."""
    function = "" if text.lower().endswith(".pt2") else text.rpartition(":")[2]
    return "\0".join([str(origin.file), function, str(Path.cwd()), str(sys.flags.optimize), *sys.path])


def _fresh(made_from: Fingerprint) -> bool:
    """Return whether this process has no other view of the model's files than their text now: none was imported before,
    and perhaps changed, and none was changed since the process started.
    """
    for path, module in loaded_files().items():
        executed_again = module.__name__.startswith(MODULE_PREFIX)
        if str(path) in made_from.files and not executed_again:
            return False
    return changed_file(made_from.files) is None


def _keep(cache: Cache, name: str, key: Any, entry: Found) -> None:
    try:
        keep_artifact(cache, name, key, entry)
    except (OSError, ToolError):
        return  # it is found by its content
