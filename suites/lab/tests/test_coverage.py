"""The tables of tested operators say what the declarations say, and leave nothing unexplained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ethos_hil.suites.declare.case import Operator
from ethos_hil.suites.lab import coverage
from ethos_hil.suites.lab.coverage import Upstream

pytestmark = pytest.mark.product

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def upstream() -> Upstream:
    return Upstream.read()


@pytest.fixture(scope="module")
def operators() -> Sequence[Operator]:
    return coverage.declared()


def test_every_operator_is_tested_or_has_a_reason(upstream: Upstream, operators: Sequence[Operator]) -> None:
    rows = coverage.aten_rows(upstream, operators)
    assert [row.name for row in rows if bool(row.tested) == bool(row.reason)] == []
    # A name that is mistyped would be found by no row.
    aten = {name for operator in operators for profile in ("MI", "BI") for name in operator.aten_in(profile)}
    assert aten <= upstream.fp | upstream.int


def test_every_defect_is_described_somewhere(operators: Sequence[Operator]) -> None:
    """In an issue or a change of upstream's, or in a section of a document of this repository."""
    links = [(name, defect.link) for name, about in coverage._about(operators) for defect in about.defects.values()]
    assert len({link for _, link in links}) >= 3
    for name, link in links:
        if re.fullmatch(r"https://github\.com/pytorch/executorch/(issues|pull)/\d+", link):
            continue
        path, _, section = link.partition("#")
        headings = re.findall(r"^#+ (.+)$", (ROOT / path).read_text("utf-8"), re.MULTILINE)
        assert section in [heading.lower().replace(" ", "-") for heading in headings], name


def test_every_profile_that_is_left_to_the_cpu_has_a_reason(operators: Sequence[Operator]) -> None:
    for name, about in coverage._about(operators):
        reasons = [*about.on_cpu.values(), *(why for kernels in about.leaves.values() for why in kernels.values())]
        assert all(reasons), name


def test_an_operator_that_nobody_tests_is_found(upstream: Upstream, operators: Sequence[Operator]) -> None:
    """One that a newer wheel supports, say, or whose declaration is lost."""
    newer = Upstream(upstream.fp | {"brand_new.default"}, upstream.int)
    others = [operator for operator in operators if operator.name != "cumsum"]
    for lists, declared, name in ((newer, operators, "brand_new.default"), (upstream, others, "cumsum.default")):
        rows = coverage.aten_rows(lists, declared)
        assert [row.name for row in rows if not row.tested and not row.reason] == [name]
