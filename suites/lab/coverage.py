"""docs/operators.md: which of the operators that upstream can express in TOSA are tested, and where.

The table is made from declarations, so it takes seconds. Every test that runs asserts its declaration: an operator that
is declared to be delegated must be in a delegate, as an operator of ExecuTorch's edge dialect and of TOSA.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.suffix import CPU_SUFFIX
from ethos_hil.lowering.upstream.names.operators import is_overload, unwrap
from ethos_hil.suites.declare.case import PROFILES, Case, Operator
from ethos_hil.suites.lab.shared import markdown_table

_OPERATORS = Path(__file__).resolve().parents[1] / "ops"

_BORDER = "in every quantised program, around each of its operators"
_DECOMPOSED = "never gets there: ExecuTorch replaces it by {} before it delegates"

UNTESTED: Mapping[str, str] = MappingProxyType(
    {
        "add.Scalar": _DECOMPOSED.format("`add.Tensor`"),
        "conv_transpose2d.input": _DECOMPOSED.format("`convolution`"),
        "div.Scalar": _DECOMPOSED.format("`div.Tensor`"),
        "floor_divide.default": _DECOMPOSED.format("`div.Tensor_mode`"),
        "getitem": "computes nothing: it is one of several results",
        "glu.default": _DECOMPOSED.format("`sigmoid` and `mul.Tensor`"),
        "masked_fill.Scalar": _DECOMPOSED.format("`where.self`"),
        "max_pool2d.default": _DECOMPOSED.format("`max_pool2d_with_indices`"),
        "mul.Scalar": _DECOMPOSED.format("`mul.Tensor`"),
        "quantized_decomposed.dequantize_per_channel.default": _BORDER,
        "quantized_decomposed.dequantize_per_tensor.default": _BORDER,
        "quantized_decomposed.quantize_per_channel.default": _BORDER,
        "quantized_decomposed.quantize_per_tensor.default": _BORDER,
        "scalar_tensor.default": "never gets there: export makes a constant of it",
        "split_copy.Tensor": _DECOMPOSED.format("`split_with_sizes_copy`"),
        "sub.Scalar": _DECOMPOSED.format("`sub.Tensor`"),
        "var.dim": _DECOMPOSED.format("`var.correction`"),
    }
)
"""Why no test has it delegated, by aten's name: of operators in upstream's lists."""


@dataclass(frozen=True)
class Upstream:
    """The operators that upstream can express in TOSA, by aten's names ("add.Tensor"): floats (FP), quantised (INT)."""

    fp: frozenset[str]
    int: frozenset[str]

    @classmethod
    def read(cls) -> Upstream:
        """Read the installed ExecuTorch: its two lists, and the operators that have a check of their own."""
        from executorch.backends.arm.operator_support import tosa_profile_supported_op_lists as lists
        from executorch.backends.arm.operator_support.tosa_supported_operators import (
            get_registered_tosa_support_checks,
        )
        from executorch.backends.arm.tosa import TosaSpecification

        def names(listed: Iterable[object], spec: str) -> frozenset[str]:
            checks = get_registered_tosa_support_checks(TosaSpecification.create_from_string(spec))
            return frozenset(map(_name, [*listed, *(target for check in checks for target in check.targets)]))

        return cls(
            names(lists.TOSA_PRO_FP_SupportList, "TOSA-1.0+FP"), names(lists.TOSA_PRO_INT_SupportList, "TOSA-1.0+INT")
        )


def _name(target: object) -> str:
    own = unwrap(target)
    return (str(own) if is_overload(own) else str(getattr(own, "__name__", own))).removeprefix("aten.")


def declared() -> tuple[Operator, ...]:
    """Return all operators of suites/ops, in the order of their files."""
    modules = (
        importlib.import_module(f"ethos_hil.suites.ops.{path.stem}") for path in sorted(_OPERATORS.glob("test_*.py"))
    )
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Operator))


@dataclass(frozen=True)
class CoverageRow:
    """An operator and where it is tested.

    Attributes:
        name: aten's.
        listed: profiles in which upstream says it can be delegated.
        counts: cases that assert that it is, by profile.
        left: profiles in which all of its cases assert that it is left to the CPU.
        tests: names of the declared operators that have such cases.
        reason: why there is none.
    """

    name: str
    listed: tuple[str, ...]
    counts: Mapping[str, int]
    left: tuple[str, ...]
    tests: tuple[str, ...]
    reason: str

    @property
    def tested(self) -> bool:
        """Whether any test asserts that it is delegated."""
        return any(self.counts.values())

    def cells(self) -> Iterator[str]:
        yield f"`{self.name}`"
        for profile in PROFILES:
            count = self.counts[profile]
            yield str(count) if count else "CPU" if profile in self.left else "-" if profile in self.listed else ""
        yield ", ".join(self.tests) or self.reason


def delegates(operator: Operator, case: Case, profile: str) -> bool:
    """Return whether the case asserts that its operator is delegated in the profile."""
    return profile in case.profiles and not any(profile in owner.on_cpu for owner in (case, operator))


def _row(name: str, listed: tuple[str, ...], operators: Sequence[Operator]) -> CoverageRow:
    def wanted(operator: Operator, profile: str) -> bool:
        return name in operator.aten_in(profile)

    counts, left = {}, []
    for profile in PROFILES:
        here = [(operator, case) for operator in operators if wanted(operator, profile) for case in operator.cases]
        counts[profile] = sum(delegates(operator, case, profile) for operator, case in here)
        if here and not counts[profile]:
            left.append(profile)
    tests = [
        operator.name
        for operator in operators
        if any(wanted(operator, p) and delegates(operator, case, p) for p in PROFILES for case in operator.cases)
    ]
    return CoverageRow(name, listed, counts, tuple(left), tuple(tests), UNTESTED.get(name, ""))


def aten_rows(upstream: Upstream, operators: Sequence[Operator]) -> tuple[CoverageRow, ...]:
    """Return a row for each operator of upstream's lists."""
    return tuple(
        _row(name, (*PROFILES[: name in upstream.fp], *PROFILES[1:] * (name in upstream.int)), operators)
        for name in sorted(upstream.fp | upstream.int, key=lambda name: name.lstrip("_").lower())
    )


def markdown(upstream: Upstream, operators: Sequence[Operator]) -> dict[str, str]:
    """Return the tables of docs/operators.md.

    Returns:
        Markdown by name: "counts", "aten", "cpu" (what is left to it), "defects".
    """
    cases = [case for operator in operators for case in operator.cases]
    tests = sum(len(case.profiles) for case in cases)
    aten = aten_rows(upstream, operators)
    counts = (
        f"{len(operators)} operators in {len(cases)} cases, {tests} tests. Of the operators that ExecuTorch's Arm",
        f"backend lists as expressible in TOSA they cover {sum(row.tested for row in aten)} of {len(aten)}.",
    )
    return {
        "counts": "\n".join(counts) + "\n",
        "aten": _table(aten),
        "cpu": markdown_table(("what", "why", "tests"), _left(operators)),
        "defects": markdown_table(("test", "profiles", "what goes wrong today", "failure"), _defects(operators)),
    }


def _table(rows: Iterable[CoverageRow]) -> str:
    head = ("operator", *PROFILES, "tests, or why there is none")
    return markdown_table(head, (tuple(row.cells()) for row in rows), right=PROFILES)


def _about(operators: Sequence[Operator]) -> Iterator[tuple[str, Operator | Case]]:
    """Yield the declarations that say where an operator is computed: operators, and cases by their full names."""
    for operator in operators:
        yield operator.name, operator
        yield from ((f"{operator.name}_{case.name}", case) for case in operator.cases)


def _left(operators: Sequence[Operator]) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of the table of operators that are left to the CPU, wholly or in part, by reason."""
    who: dict[tuple[str, str], dict[str, list[str]]] = {}
    for name, about in _about(operators):
        for profile, reason in about.on_cpu.items():
            who.setdefault(("all of it", reason), {}).setdefault(name, []).append(profile)
        for profile, kernels in about.leaves.items():
            for kernel, reason in kernels.items():
                who.setdefault((f"`{kernel}`", reason), {}).setdefault(name, []).append(profile)
    for (what, reason), names in who.items():
        by_profiles: dict[str, list[str]] = {}
        for name, profiles in names.items():
            by_profiles.setdefault(", ".join(sorted(profiles, key=(*PROFILES, CPU_SUFFIX).index)), []).append(name)
        tests = "; ".join(f"{profiles}: {', '.join(sharing)}" for profiles, sharing in by_profiles.items())
        yield what, reason, tests


def _defects(operators: Sequence[Operator]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows of the table of upstream's known defects. Links are relative to docs/."""
    for name, about in _about(operators):
        grouped: dict[tuple[str, str, str], list[str]] = {}
        for profile, defect in about.defects.items():
            grouped.setdefault((defect.what, defect.link, defect.kind), []).append(profile)
        for (what, link, kind), profiles in grouped.items():
            link = link.removeprefix("docs/")
            yield name, ", ".join(profiles), f"{what} ([source]({link}))", kind
