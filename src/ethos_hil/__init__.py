"""Run PyTorch models on Arm Ethos-U NPUs, and know whether the answer is right.

    import ethos_hil

    result = ethos_hil.run(module, inputs, npu="ethos-u55-256")
    result.verdict, result.outputs, result.cycles, result.ops

docs/api.md shows the rest. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "harness.api": ("OpenTarget", "evaluate", "lower", "preflight", "profile", "run", "target"),
    "harness.verdict.result": ("NotVerified", "Result"),
    "lowering.artifact": ("Artifact",),
    "lowering.made_from.file_watch": ("depends_on",),
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


def home_of(name: str) -> str:
    """Return the module that a name of this package is from."""
    return f"ethos_hil.{_MODULES[name]}"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ethos_hil' has no attribute {name!r}")
    value = getattr(import_module(home_of(name)), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
