"""One test: a declaration in one profile."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.judge import Evidence
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import CPU_ALONE, DEFAULT_NPU, LoweringOptions, Scheme
from ethos_hil.base.question import Question
from ethos_hil.base.record import Decision
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.declared import declared_digest, is_declared_unchanged
from ethos_hil.harness.image.npu_share import npu_share
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.made_from.file_watch import WATCH
from ethos_hil.lowering.made_from.model_fingerprint import (
    Found,
    file_of_module,
    find_artifact,
    fingerprint,
    keep_artifact,
    read_at_import,
)
from ethos_hil.lowering.upstream.toolchain import toolchain_for
from ethos_hil.lowering.user_code.user_function import check_bytecode
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.suites.declare.case import Case, Defect, Operator
from ethos_hil.suites.declare.model_case import Model
from ethos_hil.suites.declare.profile import Profile

if TYPE_CHECKING:
    from ethos_hil.lowering.model.torch_model import TorchModel

BORDER = ("quantized_decomposed::quantize_per_tensor.out", "quantized_decomposed::dequantize_per_tensor.out")
"""Kernels between the float inputs and outputs of a program and its delegates."""
MOVES = ("aten::view_copy.out", "aten::permute_copy.out", "dim_order_ops::_clone_dim_order.out")
"""Kernels that move values of any type, which the Cortex-M backend leaves as they are."""
_QUANTISING = tuple(
    f"quantized_decomposed.{kind}_per_{what}.default"
    for kind in ("quantize", "dequantize")
    for what in ("tensor", "channel")
)
"""Edge operators that say where in a delegate something is quantised, and how."""
_EDGE = {
    **dict.fromkeys(("conv1d.default", "conv2d.default", "conv3d.default"), "convolution.default"),
    **dict.fromkeys(("conv_transpose1d.default", "conv_transpose2d.input"), "convolution.default"),
    "max_pool2d.default": "max_pool2d_with_indices.default",
}
"""Names of the edge operators that are the only ones that an operator of a model becomes; see `_edge_name`."""


@dataclass(frozen=True)
class Declared(abc.ABC):
    """One test.

    Attributes:
        profile: the profile it is computed in.
        file: the file that declares it.
    """

    profile: Profile
    file: Path

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Its name without the profile, for example "add_broadcast"; part of the test's name."""

    @property
    @abc.abstractmethod
    def scheme(self) -> Scheme:
        """How it is quantised."""

    @abc.abstractmethod
    def build(self) -> TorchModel:
        """Return its module and inputs. Imports torch."""

    @abc.abstractmethod
    def problem(self, artifact: Artifact) -> str | None:
        """Return what is wrong with the device that it was compiled for (NPU or CPU), or None."""

    @property
    def lacking(self) -> Failure | None:
        """The missing package, or None."""
        return None

    def declare(self, evidence: Evidence) -> Evidence:
        """Return the evidence, with the declaration's objections to a verified answer."""
        return evidence

    def defect(self, decision: Decision) -> Defect | None:
        """Return the declared upstream defect that makes a test end so, or None."""
        return None

    @property
    def origins(self) -> tuple[Path, ...]:
        """The files that make the model, themselves and by their imports."""
        return (self.file,)

    def key(self, memory_mode: str | None) -> tuple[str, ...]:
        """Return the properties of its target that decide its artifact."""
        target = self.profile.target
        mode = MemoryMode.chosen(memory_mode, target) if isinstance(target, EthosU) else None
        vela = VelaSetup.default(target, mode) if isinstance(target, EthosU) else None
        return toolchain_for(target, LoweringOptions(self.name, scheme=self.scheme, cpu=self.profile.cpu), vela).key

    def memo_key(self, memory_mode: str | None) -> tuple[str, ...]:
        """Return what its artifact is found again by: its target, and the code of `harness` that makes its module."""
        return (*self.key(memory_mode), declared_digest())

    def lower(self, memory_mode: str | None, cache: Cache, subject: tuple[str, ...] = ()) -> Found:
        """Return its artifact, from the cache if possible, and what the model was made from.

        Args:
            memory_mode: where Vela puts the parts of the program; None for ExecuTorch's choice.
            cache: the cache.
            subject: what lowers it in place of this environment (`--with`).

        Raises:
            UsageError: what ran is not what the sources say; and as `ethos_hil.lowering.lower.lower`.
        """
        from ethos_hil.harness.subjects.process import key_of_subject  # late: few sessions have one

        key = (*self.memo_key(memory_mode), *(key_of_subject(subject) if subject else ()))
        place = f"{self.file}::{self.name}"
        lowering = find_artifact(cache, place, key, read_at_import(self.origins))
        if lowering is not None:
            return lowering
        from ethos_hil.harness.declared.modules import seed
        from ethos_hil.harness.subjects.process import lower_in_subject
        from ethos_hil.lowering.lower import lower

        target = self.profile.target
        mode = MemoryMode.chosen(memory_mode, target) if isinstance(target, EthosU) else None
        with WATCH.building() as built:
            seed(self.name)
            model = self.build()
            if subject:
                spec = target if isinstance(target, TosaSpec) else None
                npu = DEFAULT_NPU if isinstance(target, TosaSpec) else target.name
                named = None if mode is None else mode.name
                asked = Question(
                    model, npu=npu, memory_mode=named, scheme=self.scheme, cpu=self.profile.cpu, subject=subject
                )
                artifact = lower_in_subject(asked, spec).artifact
            else:
                artifact = lower(model, target, memory_mode=mode, scheme=self.scheme, cpu=self.profile.cpu, cache=cache)
        built.passing = {path for path in built.passing if not Path(path).is_relative_to(cache.folder)}
        lowering = Found(artifact, fingerprint(self.origins, built))
        check_bytecode(Path(file) for file in lowering.made_from.files if file.endswith(".py"))
        if is_declared_unchanged():
            keep_artifact(cache, place, key, lowering)
        return lowering


@dataclass(frozen=True)
class DeclaredCase(Declared):
    """A case of an operator in a profile."""

    operator: Operator
    case: Case

    @property
    def name(self) -> str:
        return f"{self.operator.name}_{self.case.name}"

    @property
    def scheme(self) -> Scheme:
        return self.case.scheme

    def build(self) -> TorchModel:
        from ethos_hil.suites.trial.build import build

        return build(self.name, self.case, self.file.parent)

    def problem(self, artifact: Artifact) -> str | None:
        if self.profile.cpu == CPU_ALONE:
            return self._problem_of_cpu(artifact)
        from ethos_hil.lowering.formats.tosa import TosaGraph

        graphs = [TosaGraph.parse(delegate.tosa) for delegate in artifact.delegates if delegate.tosa is not None]
        operators = list(dict.fromkeys(operator.op for graph in graphs for operator in graph.operators))
        aten = [name.removeprefix("aten.") for name in artifact.delegated if name not in _QUANTISING]
        reason = self._entry("on_cpu")
        if reason is not None:
            beside: tuple[str, ...] = self._entry("beside") or ()
            if sorted(aten) == sorted(beside):
                return None
            taken = f"{', '.join(aten) or 'nothing'}, and `beside` declares {', '.join(beside) or 'nothing'}"
            return f"declared to be left to the CPU ({reason}), but delegated: {taken}"
        if not operators:
            left = ", ".join(artifact.cpu_ops) or "nothing"
            return f"nothing was delegated; on the CPU: {left} (if that is right, say why in `on_cpu`)"
        wanted = self.operator
        absent = [name for name in wanted.tosa_in(self.profile.name) if name not in operators]
        if absent:
            return f"the delegate has no {', '.join(absent)}, it has {', '.join(operators)}"
        absent = [name for name in wanted.aten_in(self.profile.name) if not {name, _edge_name(name)} & {*aten}]
        if absent:
            text = f"the delegate has no {', '.join(absent)}, it has {', '.join(aten)}"
            return f"{text} (`aten` takes these names; the table of a run has those before operators were decomposed)"
        return self._check_leaves(artifact)

    def _problem_of_cpu(self, artifact: Artifact) -> str | None:
        """Return what is wrong with a program for the CPU alone: what it has in float, or not of the operator's."""
        wanted = [f"cortex_m::{name}.out" for name in self.operator.m55]
        if not set(wanted) & set(artifact.cpu_ops):
            return f"the program calls none of {', '.join(wanted)}, but {', '.join(artifact.cpu_ops) or 'nothing'}"
        declared: Mapping[str, str] = self._entry("leaves") or {}
        floats = [kernel for kernel in dict.fromkeys(artifact.cpu_ops) if not kernel.startswith("cortex_m::")]
        surplus = [kernel for kernel in floats if kernel not in declared and kernel not in MOVES]
        return f"not of the Cortex-M backend, and not declared in `leaves`: {', '.join(surplus)}" if surplus else None

    def _check_leaves(self, artifact: Artifact) -> str | None:
        declared: Mapping[str, str] = self._entry("leaves") or {}
        left = [kernel for kernel in dict.fromkeys(artifact.cpu_ops) if kernel not in BORDER]
        surplus = [kernel for kernel in left if kernel not in declared]
        if surplus:
            return f"left to the CPU, and not declared to be: {', '.join(surplus)}"
        idle = [kernel for kernel in declared if kernel not in left]
        return f"declared to be left to the CPU, and is not: {', '.join(idle)}" if idle else None

    def declare(self, evidence: Evidence) -> Evidence:
        defect: Defect | None = self._entry("defects")
        return dataclasses.replace(
            evidence,
            kernels_declared_missing=self._entry("lacks"),
            defect="" if defect is None else f"{defect.what} ({defect.link})",
        )

    def defect(self, decision: Decision) -> Defect | None:
        failure, defect = decision.failure, self._entry("defects")
        declared = failure is not None and defect is not None and defect.tells(failure)
        return defect if decision.verdict == Verdict.FAILED and declared else None

    def _entry(self, name: str) -> Any:
        own, of_all = getattr(self.case, name), getattr(self.operator, name)
        return own.get(self.profile.name, of_all.get(self.profile.name))


@dataclass(frozen=True)
class DeclaredModel(Declared):
    """A model in a profile."""

    model: Model

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def scheme(self) -> Scheme:
        return self.model.scheme

    @property
    def lacking(self) -> Failure | None:
        return missing_packages(self.model.requires)

    @property
    def origins(self) -> tuple[Path, ...]:
        module = self.model.factory.rpartition(":")[0]
        if module.endswith(".py"):
            return (self.file, Path(module).absolute())
        file = file_of_module(module, Path.cwd())
        return (self.file,) if file is None else (self.file, file)

    def build(self) -> TorchModel:
        from ethos_hil.lowering.model.torch_model import ProgramFile, load_model

        loaded = load_model(self.model.factory)
        if isinstance(loaded, ProgramFile):
            raise UsageError(
                f"{self.name} is declared as {loaded.label}, a compiled program", hint="declare a function"
            )
        return loaded

    def problem(self, artifact: Artifact) -> str | None:
        declared = self.model.on_cpu.get(self.profile.name, {})
        left = dict.fromkeys(kernel for kernel in artifact.cpu_ops if kernel not in BORDER)
        undeclared = [kernel for kernel in left if kernel not in declared]
        if undeclared:
            return f"left to the CPU, and not declared to be: {', '.join(undeclared)}"
        for kernel, reason in declared.items():
            if kernel not in left:
                return f"{kernel} is declared to be left to the CPU ({reason}), and is not: correct the declaration"
        wanted = self.model.delegates.get(self.profile.name, 1)
        if len(artifact.delegates) != wanted:
            return f"delegates in the program: {len(artifact.delegates)}, declared: {wanted}; correct `delegates`"
        scratch = max((delegate.blob.scratch_size for delegate in artifact.delegates if delegate.vela), default=0)
        if self.model.scratch is not None and scratch > self.model.scratch:
            return f"the program needs {scratch:,} bytes of working memory, {self.model.scratch:,} are declared"
        share = npu_share(artifact) if artifact.npu is not None else None
        if share is not None and share.value < (self.model.min_npu_share or 0.0):
            return f"{share.text}; `min_npu_share` is {self.model.min_npu_share}"
        return None


def _edge_name(name: str) -> str:
    """Return what an operator is called in the edge dialect, where it becomes one operator: of "conv2d.default", as in
    the table of a run, "convolution.default", and of "permute.default" "permute_copy.default".
    """
    operator, dot, overload = name.partition(".")
    return _EDGE.get(name, f"{operator}_copy{dot}{overload}")


def missing_packages(packages: Iterable[str]) -> Failure | None:
    """Return a failure that names the `packages` that are not installed, or None. Nothing is imported."""
    names = [name for name in packages if find_spec(name) is None]
    if not names:
        return None
    return Failure(FailureKind.CAPABILITY, f"not installed: {', '.join(names)}", "pip install 'ethos-hil[models]'")
