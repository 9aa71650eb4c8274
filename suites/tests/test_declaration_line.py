"""Lines of declarations."""

from __future__ import annotations

from pathlib import Path

from ethos_hil.suites.plugin.pytest_items import line_of
from ethos_hil.suites.tests.session import SAMPLE


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
