"""The table of docs/kernels.md: which operators the firmware computes on the CPU, and how tests compare each of them.

The operators are read from the firmware's table (firmware/runtime/operators.cc), the files from its headers, and types
and comparison from the rows of firmware/tests/kernel_calls.py and the cases of firmware/tests/test_cortex_m.py.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ethos_hil.lowering.testing.cortex_m_cases import EACH

ROOT = Path(__file__).resolve().parents[1]
RUNTIME = ROOT / "firmware" / "runtime"
TESTS = ROOT / "firmware" / "tests"
TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")

_ENTRY = re.compile(r'^ *\{"(?P<name>\S+)", "(?P<overload>\w*)", (?P<kernel>[\w<>]+)\},$', re.MULTILINE)


@dataclass
class KernelRow:
    """An operator of the firmware.

    Attributes:
        operator: its name in a program, "aten::add.out".
        file: the stem of the header in firmware/runtime/kernels that declares its kernel.
        types: the types of tensors that tests give it.
        exact: whether cases compare all bits.
        bounded: whether cases compare within a bound.
    """

    operator: str
    file: str
    types: set[str] = field(default_factory=set)
    exact: bool = False
    bounded: bool = False

    def cells(self, elsewhere: str) -> Iterable[str]:
        yield f"`{self.operator}`"
        yield f"`{self.file}`"
        named = tuple(name for name in TYPES if name in self.types)
        yield {TYPES: "all", TYPES[1:]: "numbers"}.get(named, ", ".join(named))
        compared = [word for word, is_so in (("bits", self.exact), ("bound", self.bounded)) if is_so]
        yield " or ".join(compared) or elsewhere


def operators() -> dict[str, str]:
    """The operators in the firmware's table, and the name of each one's kernel ("elementwise<ADD>")."""
    entries = _ENTRY.finditer((RUNTIME / "operators.cc").read_text("utf-8"))
    return {f"{entry['name']}.{entry['overload']}".rstrip("."): entry["kernel"] for entry in entries}


def rows() -> list[KernelRow]:
    """A row for each operator, in the order of the firmware's table."""
    headers = {path.stem: path.read_text("utf-8") for path in sorted((RUNTIME / "kernels").glob("*.h"))}
    by_name = {name: KernelRow(name, _declared_in(kernel, headers)) for name, kernel in operators().items()}
    for case in _cases():
        row = by_name[case.operator]
        row.types |= {str(value.dtype).removeprefix("torch.") for value in case.inputs if hasattr(value, "dtype")}
        row.exact |= case.bound is None
        row.bounded |= case.bound is not None
    return list(by_name.values())


def markdown() -> str:
    """The table."""
    elsewhere = _test_module("test_kernels").ELSEWHERE
    lines = ["| operator | file | types in its tests | compared |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row.cells(elsewhere.get(row.operator, '')))} |" for row in rows()]
    return "\n".join(lines) + "\n"


def _declared_in(kernel: str, headers: dict[str, str]) -> str:
    """The header with the kernel, or with the Operation that an element-wise one is made of."""
    name = kernel.removeprefix("elementwise<").rstrip(">")
    declaration = re.compile(rf"^(void {name}\(|extern const Operation {name};)", re.MULTILINE)
    return next(stem for stem, text in headers.items() if declaration.search(text))


def _test_module(name: str) -> ModuleType:
    if str(TESTS) not in sys.path:
        sys.path.insert(0, str(TESTS))
    return importlib.import_module(name)


def _cases() -> Iterable[Any]:
    for group in _test_module("kernel_calls").GROUPS.values():
        for row in group:
            yield from row()
    yield from _test_module("test_cortex_m").cases(EACH)
