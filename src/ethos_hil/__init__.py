"""Run PyTorch models on Arm Ethos-U NPUs, and know whether the answer is right.

    import ethos_hil

    result = ethos_hil.run(module, inputs, npu="ethos-u55-256")
    result.verdict, result.outputs, result.cycles, result.ops

docs/api.md shows the rest. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ethos_hil.base.errors import CompileError as CompileError
    from ethos_hil.base.errors import EthosHilError as EthosHilError
    from ethos_hil.base.errors import OracleError as OracleError
    from ethos_hil.base.errors import TargetError as TargetError
    from ethos_hil.base.errors import TargetNotAvailable as TargetNotAvailable
    from ethos_hil.base.errors import ToolError as ToolError
    from ethos_hil.base.errors import UsageError as UsageError
    from ethos_hil.base.question import Question as Question
    from ethos_hil.base.record import Record as Record
    from ethos_hil.base.verdict import FailureKind as FailureKind
    from ethos_hil.base.verdict import Verdict as Verdict
    from ethos_hil.harness.api import OpenTarget as OpenTarget
    from ethos_hil.harness.api import evaluate as evaluate
    from ethos_hil.harness.api import lower as lower
    from ethos_hil.harness.api import preflight as preflight
    from ethos_hil.harness.api import profile as profile
    from ethos_hil.harness.api import run as run
    from ethos_hil.harness.api import target as target
    from ethos_hil.harness.show.result import NotVerified as NotVerified
    from ethos_hil.harness.show.result import Result as Result
    from ethos_hil.lowering.artifact import Artifact as Artifact
    from ethos_hil.results.comparison import Incomparable as Incomparable
    from ethos_hil.results.comparison import ProfileComparison as ProfileComparison
    from ethos_hil.results.comparison import compare as compare
    from ethos_hil.results.gate.change import RunComparison as RunComparison
    from ethos_hil.results.gate.gate import gate as gate
    from ethos_hil.results.history import BadHistory as BadHistory
    from ethos_hil.results.history import History as History

_HOMES = {
    "harness.api": ("OpenTarget", "evaluate", "lower", "preflight", "profile", "run", "target"),
    "harness.show.result": ("NotVerified", "Result"),
    "lowering.artifact": ("Artifact",),
    "base.errors": (
        "CompileError",
        "EthosHilError",
        "OracleError",
        "TargetError",
        "TargetNotAvailable",
        "ToolError",
        "UsageError",
    ),
    "results.comparison": ("Incomparable", "ProfileComparison", "compare"),
    "results.gate.change": ("RunComparison",),
    "results.gate.gate": ("gate",),
    "results.history": ("BadHistory", "History"),
    "base.question": ("Question",),
    "base.record": ("Record",),
    "base.verdict": ("FailureKind", "Verdict"),
}
_MODULES = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ethos_hil' has no attribute {name!r}")
    value = getattr(import_module(f"ethos_hil.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
