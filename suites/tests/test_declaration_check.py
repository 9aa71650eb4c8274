"""A declaration that names what nothing looks up is refused when it is made, with one line that says what to write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.suites.declare.case import Operator, call, case, f32, layer
from ethos_hil.suites.declare.model_case import Model
from ethos_hil.suites.plugin.pytest_items import line_of
from ethos_hil.suites.tests.session import SAMPLE

PLUS = case("it", call("add"), f32(1, 4), f32(1, 4))
WRONG: dict[str, tuple[Callable[[], Any], str, str]] = {
    "profile": (
        lambda: case("it", call("add"), f32(1), on_cpu={"U55": "why"}),
        "case it: on_cpu names 'U55', which is not a profile", "did you mean U55_BI?",
    ),
    "profile of an operator": (
        lambda: Operator("add", ("add.Tensor",), (PLUS,), lacks={"U85": ("aten::x.out",)}),
        "operator add: lacks names 'U85', which is not a profile", "did you mean U85_BI?",
    ),
    "no mapping": (
        lambda: case("it", call("add"), f32(1), on_cpu="why"),  # type: ignore[arg-type]
        "case it: on_cpu is a str", "a dictionary with an entry for each profile",
    ),
    "reason": (
        lambda: case("it", call("add"), f32(1), on_cpu={"U55_BI": 1}),  # type: ignore[dict-item]
        "case it: on_cpu['U55_BI'] is 1, a int", "give a str",
    ),
    "input": (
        lambda: case("it", call("add"), (1, 4)),  # type: ignore[arg-type]
        "case it: input 0 is (1, 4), a tuple", "give a Input",
    ),
    "forward": (
        lambda: case("it", "add", f32(1)),  # type: ignore[arg-type]
        "case it: 'add' is not what computes something", "layer() or call()",
    ),
    "text for a tuple": (
        lambda: Operator("add", "add.Tensor", (PLUS,)),  # type: ignore[arg-type]
        "operator add: aten is 'add.Tensor', a str", "give a tuple",
    ),
    "factory": (
        lambda: Model("net", lambda: None),  # type: ignore[arg-type]
        "names no function", 'give text, "package.module:function"',
    ),
    "kernels of a model": (
        lambda: Model("net", "nets:net", on_cpu={"U55_BI": "why"}),  # type: ignore[dict-item]
        "model net: on_cpu['U55_BI'] is 'why', a str", "give a Mapping",
    ),
    "profiles of a model": (
        lambda: Model("net", "nets:net", profiles=("U55",)),
        "model net: profiles names 'U55', which is not a profile", "did you mean U55_BI?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_would_be_ignored_or_fail_later_is_refused(name: str) -> None:
    make, message, hint = WRONG[name]
    with pytest.raises(UsageError) as raised:
        make()
    assert message in raised.value.message
    assert hint in str(raised.value.hint)


@pytest.mark.parametrize(
    ("forward", "message", "hint"),
    [
        (layer("Relu"), "torch.nn has no 'Relu'", "did you mean ReLU?"),
        (call("nn.functional.rellu"), "torch.nn.functional has no 'rellu'", "did you mean r"),
        (call("no.thing.at_all"), "torch.no.thing has no 'at_all'", "spelt as torch has it"),
    ],
)
def test_a_name_that_torch_has_not_is_told_with_the_nearest(forward: Any, message: str, hint: str) -> None:
    from pathlib import Path

    from ethos_hil.suites.trial.build import build

    with pytest.raises(UsageError) as raised:
        build("it", case("it", forward, f32(1, 4)), Path())
    assert raised.value.message == message
    assert hint in str(raised.value.hint)


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
