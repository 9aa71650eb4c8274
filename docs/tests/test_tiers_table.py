"""The table of docs/testing.md counts what there is."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiers_table
from blocks import ROOT
from tiers_table import TIERS, functions, tier


def test_every_test_is_in_the_table_and_guards_are_counted() -> None:
    shown = tiers_table.markdown()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines()]
    numbers = {row[0]: [int(cell.replace(",", "")) for cell in row[1:]] for row in cells[2:]}
    whole = numbers.pop("all")
    assert whole == [sum(column) for column in zip(*numbers.values(), strict=True)]
    assert all(numbers[room][0] > 20 for room in numbers if room not in ("laboratory", "labgrid"))
    assert whole[-1] > 140
    assert numbers["laboratory"][TIERS.index("lab")] > 100


@pytest.mark.parametrize(
    ("file", "name", "where"),
    [
        ("harness/tests/test_wheel.py", "test_only_its_own_name_can_be_imported", "environment"),
        ("harness/tests/test_setup.py", "test_a_file_with_another_hash_is_refused", "environment"),
        ("harness/tests/test_setup.py", "test_a_line_without_a_pin_is_found", "make test"),
        ("harness/tests/test_setup.py", "test_an_environment_that_was_not_finished_is_made_anew", "proof"),
        ("suites/lab/tests/test_lab.py", "test_a_terminal_shows_a_failed_part_in_red", "lab"),
    ],
)
def test_a_test_is_in_the_tier_of_its_markers(file: str, name: str, where: str) -> None:
    assert dict(functions(ROOT / file))[name] == where


def test_a_test_of_the_laboratory_that_guards_the_product_is_part_of_make_test() -> None:
    path = Path(ROOT / "suites/lab/prove/conformance/tests/test_conformance.py")
    assert tier(path, ["product", "slow"]) == "make test"
    assert tier(path, ["slow"]) == "lab"


def test_guards_of_the_product_stay_in_make_test() -> None:
    """Two larger ones of the suites are proofs: each has a smaller one of the same kind beside it, which is not."""
    places = [
        (where, name)
        for room in tiers_table.ROOMS
        if room != "laboratory"
        for path in tiers_table.files(room)
        for name, where in functions(path)
        if tiers_table.GUARD.search(name) and where in ("proof", "lab")
    ]
    assert places == [("proof", "test_a_compiler_that_returns_zeros_is_red")]
