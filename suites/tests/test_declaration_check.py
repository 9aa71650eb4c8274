"""A declaration that names what nothing looks up is refused when it is made, with one line that says what to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.suites.declare.case import Operator, call, case, f32, layer
from ethos_hil.suites.declare.model_case import Model
from ethos_hil.suites.plugin.pytest_items import line_of
from ethos_hil.suites.tests.session import SAMPLE
from ethos_hil.suites.trial.build import build

PLUS = case("it", call("add"), f32(1, 4), f32(1, 4))
WRONG: dict[str, Callable[[], Any]] = {
    "profile": lambda: case("it", call("add"), f32(1), on_cpu={"U55": "why"}),
    "profile of an operator": lambda: Operator("add", ("add.Tensor",), (PLUS,), lacks={"U85": ("aten::x.out",)}),
    "no mapping": lambda: case("it", call("add"), f32(1), on_cpu="why"),  # type: ignore[arg-type]
    "reason": lambda: case("it", call("add"), f32(1), on_cpu={"U55_BI": 1}),  # type: ignore[dict-item]
    "input": lambda: case("it", call("add"), (1, 4)),  # type: ignore[arg-type]
    "forward": lambda: case("it", "add", f32(1)),  # type: ignore[arg-type]
    "text for a tuple": lambda: Operator("add", "add.Tensor", (PLUS,)),  # type: ignore[arg-type]
    "factory": lambda: Model("net", print),  # type: ignore[arg-type]
    "kernels of a model": lambda: Model("net", "nets:net", on_cpu={"U55_BI": "why"}),  # type: ignore[dict-item]
    "profiles of a model": lambda: Model("net", "nets:net", profiles=("U55",)),
    "layer that torch has not": lambda: build("it", case("it", layer("Relu"), f32(1, 4)), Path()),
    "function that torch has not": lambda: build("it", case("it", call("nn.functional.rellu"), f32(1, 4)), Path()),
    "module that torch has not": lambda: build("it", case("it", call("no.thing.at_all"), f32(1, 4)), Path()),
}


def test_what_would_be_ignored_or_fail_later_is_refused(recorded: Recorded) -> None:
    answers = {}
    for name, make in WRONG.items():
        with pytest.raises(UsageError) as raised:
            make()
        answers[name] = f"{raised.value.message} ({raised.value.hint})"
    recorded.check(answers)


# Lines of declarations.


def line_with(text: str) -> int:
    (number,) = [number for number, line in enumerate(SAMPLE.read_text().splitlines(), start=1) if text in line]
    return number


def test_a_case_is_found_inside_its_operator() -> None:
    assert line_of(SAMPLE, "plus", "itself") == line_with('case("itself"')
    assert line_of(SAMPLE, "wrong", "operator") == line_with('case("operator"')


def test_a_case_whose_name_is_computed_has_its_operators_line(tmp_path: Path) -> None:
    file = tmp_path / "test_a.py"
    file.write_text('\nplus = Operator("plus", cases=tuple(case(f"n{n}", f) for n in range(3)))\n')
    assert line_of(file, "plus", "n1") == 2
    assert line_of(file, "minus", "n1") is None
