"""The process that lowers in another environment, from the outside. It is kept warm between models."""

from __future__ import annotations

import importlib.util
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import ethos_hil
from ethos_hil.base import errors
from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.question import Question
from ethos_hil.base.typed_json import from_json
from ethos_hil.harness.subjects.subject import FLAG, LoweringSubject
from ethos_hil.lowering.artifact import arrays, packed
from ethos_hil.lowering.cache.contents import cache_folder
from ethos_hil.lowering.cache.environments import KeptEnvironments
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.conditions.process import Progress, silent
from ethos_hil.lowering.formats.tosa import unknown_parts
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.made_from.named_model import LoweredModel, Needed, never_needed
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.lowering.native.worker import NativeCrash, NativeTool, ToolRaised
from ethos_hil.lowering.upstream.layer_errors import LayerError

SECONDS = 6 * 3600
"""CPU time that one lowering may take. A language model of 135 million weights takes a fifth of an hour."""
_FIELDS = ("on_cpu", "leave", "int16", "notes", "repeat", "text", "changed", "steady")
"""The fields of a method that are plain data."""
_ERRORS = {name: cls for name, cls in vars(errors).items() if isinstance(cls, type) and issubclass(cls, EthosHilError)}


def key_of_subject(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return what a subject is known by: all that is installed there, and how it is found.

    Raises:
        UsageError, ToolError: as for `lower_in_subject`.
    """
    subject = LoweringSubject.parse(given)
    return () if subject is None else (*given, *(f"{k}={v}" for k, v in SubjectProcess.of(subject, silent).all.items()))


def lower_in_subject(
    question: Question,
    spec: TosaSpec | None,
    *,
    needed: Needed = never_needed,
    progress: Progress = silent,
    whole: bool = False,
) -> LoweredModel:
    """Lower a question's model as its subject does.

    Args:
        question: what is asked; its subject is not empty.
        spec, needed, progress, whole: as for `ethos_hil.harness.ask.lower_question.lower_question`.

    Raises:
        UsageError, CompileError, ToolError: as for `lower_question`; or the subject cannot be used.
    """
    subject = LoweringSubject.parse(question.subject)
    assert subject is not None, "the question has none"
    process = SubjectProcess.of(subject, progress)
    methods, blocks, root = ({}, [], None) if isinstance(question.model, str) else _exported(question)
    told = process.ask(
        "lower",
        progress,
        blocks,
        question=question.but(subject=()).to_json(),
        tosa="" if spec is None else str(spec),
        whole=whole,
        methods=methods,
        label=question.label,
        root="" if root is None else str(root),
    )
    artifact = Cache().get(told["key"])
    if artifact is None:
        raise ToolError(f"{subject.name} lowered {question.label}, and it is not in the cache", hint="ask once more")
    lowered = LoweredModel.restored(artifact.rename(question.label), told)
    source: Any = None if isinstance(question.model, str) else question.model
    if isinstance(question.model, str) and needed(lowered.stateful, lowered.repeat):
        source = load_model(question.model, trust=question.trust_model)  # PyTorch's answers are our own PyTorch's
    notes = (*lowered.notes, f"lowered by {subject.name}: {process.versions}")
    programs = [delegate.tosa for delegate in artifact.delegates if delegate.tosa is not None]
    unknown = dict.fromkeys(part for tosa in programs for part in unknown_parts(tosa))
    if unknown:
        made_with = artifact.versions.get("tosa-tools", "")
        notes = (*notes, f"the reference is that of tosa-tools {made_with}: here {', '.join(unknown)} is not known")
    return replace(lowered, notes=notes, source=source)


class SubjectProcess:
    """The process of a subject. It is started when it is asked first, and again after a crash."""

    def __init__(self, subject: LoweringSubject, tell: Callable[[str], None]) -> None:
        """Make the process of a subject; environments that are not kept are installed.

        Raises:
            UsageError, ToolError: as for `LoweringSubject.path`.
        """
        self._subject = subject
        python = subject.interpreter()
        path = () if python is not None else subject.path(KeptEnvironments(), tell)
        # An ethos-hil that is installed there is another one.
        self._tool = NativeTool(
            _ANSWERING, subject.name, "", path=path, version=subject.name, memory=None, python=python,
            first={"ethos_hil": str(Path(ethos_hil.__file__).parents[1])}, last=dict(_lent()),
        )  # fmt: skip
        told = self.ask("hello", tell)
        self.all: Mapping[str, str] = told["versions"]
        self.versions = ", ".join(f"{name} {number}" for name, number in told["versions"].items() if name in _SHOWN)

    @classmethod
    def of(cls, subject: LoweringSubject, tell: Callable[[str], None]) -> SubjectProcess:
        """Return the process of a subject; the same each time."""
        key = (subject, os.getpid())
        if key not in _processes:
            _processes[key] = cls(subject, tell)
        return _processes[key]

    @staticmethod
    def end(subject: LoweringSubject | None) -> None:
        """End the process of a subject if there is one: it has PyTorch in its memory."""
        process = _processes.pop((subject, os.getpid()), None)
        if process is not None:
            process._tool.stop()

    def ask(
        self, what: str, tell: Callable[[str], None], blocks: list[bytes] | None = None, **header: Any
    ) -> dict[str, Any]:
        """Ask the process, and return its answer.

        Raises:
            EthosHilError: what it raised; ToolError where it cannot be started, or ended.
        """
        asked = {"ask": what, "cwd": str(Path.cwd()), "cache": str(cache_folder()), **header}
        try:
            answer = self._tool.call(asked, blocks or (), seconds=SECONDS, tell=tell)
        except NativeCrash as crash:
            raise ToolError(
                f"{self._subject.name} {crash}", hint=f"does {FLAG} name an environment that works?"
            ) from None
        except ToolRaised as error:
            raise ToolError(
                f"{self._subject.name} cannot lower: {error}",
                hint="it needs Python 3.11 or newer with torch, executorch[ethos-u] and what ethos-hil lowers with",
            ) from error
        if "error" in answer.header:
            raise _raised(answer.header["error"])
        return {**answer.header, "blocks": answer.blocks}


_LENT = ("attr", "attrs", "cattrs", "filelock", "packaging", "platformdirs", "typing_extensions")
"""Packages of Python alone that lowering needs, and ExecuTorch may not have brought."""


def _lent() -> Iterator[tuple[str, str]]:
    for name in _LENT:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            file = Path(spec.origin)
            yield name, str(file.parents[1] if file.name == "__init__.py" else file.parent)


class SubjectModules:
    """The modules of a method as a subject has them: it answers inputs in its own PyTorch."""

    def __init__(self, question: Question, method: str) -> None:
        """Take the modules of a question's method. A model in memory is not handed over again."""
        subject = LoweringSubject.parse(question.subject)
        if subject is None or not isinstance(question.model, str):
            raise UsageError(f"{question.label} is a model in memory", hint=f"name its file, or leave out {FLAG}")
        self._process = SubjectProcess.of(subject, silent)
        self._asked: dict[str, Any] = {"question": question.but(subject=()).to_json(), "method": method}

    @cached_property
    def layers(self) -> SubjectLayers | None:
        """What compares the two modules layer by layer; None where there are not both."""
        told = self._process.ask("layers", silent, step="begin", **self._asked)
        return SubjectLayers(self._process, self._asked) if told["are"] else None

    def answers(self, inputs: Sequence[np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
        """As `ethos_hil.lowering.model.torch_model.HostModules.answers`."""
        told = self._process.ask("answers", silent, [packed(inputs)], **self._asked)
        return {name: arrays(block) for name, block in zip(told["answers"], told["blocks"], strict=True)}


@dataclass(frozen=True)
class SubjectLayers:
    """The layers of a method as a subject has them (`ethos_hil.lowering.upstream.layer_errors.LayerErrors`)."""

    process: SubjectProcess
    asked: Mapping[str, Any]

    def add(self, inputs: Sequence[np.ndarray]) -> None:
        """Count the errors for one input set."""
        self.process.ask("layers", silent, [packed(inputs)], step="add", **self.asked)

    def worst_first(self) -> list[LayerError]:
        """Return the layers that lose anything, the one that loses most first."""
        told = self.process.ask("layers", silent, step="end", **self.asked)
        return [from_json(LayerError, layer) for layer in told["layers"]]


_ANSWERING = "ethos_hil.harness.ask.elsewhere"
"""The module that answers in the process."""
_SHOWN = ("python", "torch", "executorch", "ethos-u-vela")
_processes: dict[Any, SubjectProcess] = {}


def _raised(told: Mapping[str, Any]) -> EthosHilError:
    """Return the error that the process raised, or the nearest kind of error that every process knows."""
    cls = next(_ERRORS[name] for name in told["classes"] if name in _ERRORS)
    kind = type(cls.kind)(told["kind"])
    return cls(told["message"], hint=told["hint"], kind=kind)


def _exported(question: Question) -> tuple[dict[str, Any], list[bytes], Path | None]:
    """Return a model in memory as data: by method its plain fields; a .pt2 and the inputs of each; the folder of its
    files.
    """
    import torch

    from ethos_hil.lowering.upstream.export import export

    model = question.model
    if not isinstance(model, TorchModel):
        raise UsageError(f"{question.label} is compiled already", hint=f"leave out {FLAG}")
    methods, blocks = {}, []
    for name, method in model.methods.items():
        if method.quantizer is not None:
            raise UsageError("a quantizer in memory cannot be handed to another process", hint="name its file")
        file = io.BytesIO()
        torch.export.save(export(method.fresh, method.example_inputs), file)
        calibrations = method.calibration_inputs
        tensors = [tensor.detach().cpu() for inputs in (method.example_inputs, *calibrations) for tensor in inputs]
        blocks += [file.getvalue(), packed([tensor.numpy() for tensor in tensors])]
        fields = {field: getattr(method, field) for field in _FIELDS}
        methods[name] = {
            "inputs": len(method.example_inputs), "calibrations": len(calibrations), "fields": fields,
            "strides": [tensor.stride() for tensor in tensors],
        }  # fmt: skip
    return methods, blocks, model.sources.root
