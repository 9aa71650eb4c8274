"""The table of tested operators is up to date, and leaves nothing unexplained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ethos_hil.suites.declare.case import PROFILES, Operator
from ethos_hil.suites.lab import coverage
from ethos_hil.suites.lab.coverage import Upstream


@pytest.fixture(scope="module")
def upstream() -> Upstream:
    return Upstream.read()


@pytest.fixture(scope="module")
def operators() -> Sequence[Operator]:
    return coverage.declared()


def test_the_table_is_up_to_date(upstream: Upstream, operators: Sequence[Operator]) -> None:
    assert coverage.PATH.read_text("utf-8") == coverage.render(upstream, operators), (
        "run python -m ethos_hil.suites.lab.coverage"
    )


def test_every_operator_is_tested_or_has_a_reason(upstream: Upstream, operators: Sequence[Operator]) -> None:
    rows = (*coverage.aten_rows(upstream, operators), *coverage.tosa_rows(operators))
    assert [row.name for row in rows if not row.tested and not row.reason] == []
    assert [row.name for row in rows if row.tested and row.reason] == []


def test_reasons_are_of_operators_there_are(upstream: Upstream) -> None:
    assert coverage.ATEN_UNTESTED.keys() <= upstream.fp | upstream.int
    assert coverage.TOSA_UNTESTED.keys() <= set(coverage.tosa_operators())


def test_what_is_declared_is_in_upstreams_lists(upstream: Upstream, operators: Sequence[Operator]) -> None:
    """A name that is mistyped would be found by no row."""
    aten = {name for operator in operators for profile in ("MI", "BI") for name in operator.aten_in(profile)}
    assert aten <= upstream.fp | upstream.int
    tosa = {name for operator in operators for profile in ("MI", "BI") for name in operator.tosa_in(profile)}
    assert tosa <= set(coverage.tosa_operators())


def test_every_defect_is_described_somewhere(operators: Sequence[Operator]) -> None:
    """In an issue or a change of upstream's, or in a section of a document of this repository."""
    found = [(name, defect.link) for name, about in coverage._about(operators) for defect in about.defects.values()]
    assert len({link for _, link in found}) >= 5
    for name, link in found:
        if re.fullmatch(r"https://github\.com/pytorch/executorch/(issues|pull)/\d+", link):
            continue
        path, _, section = link.partition("#")
        headings = re.findall(r"^#+ (.+)$", (coverage.PATH.parent.parent / path).read_text("utf-8"), re.MULTILINE)
        assert section in [heading.lower().replace(" ", "-") for heading in headings], name


def test_every_profile_that_is_left_to_the_cpu_has_a_reason(operators: Sequence[Operator]) -> None:
    for name, about in coverage._about(operators):
        reasons = [*about.on_cpu.values(), *(why for kernels in about.leaves.values() for why in kernels.values())]
        assert all(reasons), name
        profiles = {*about.on_cpu, *about.leaves, *about.beside, *about.lacks, *about.defects}
        assert profiles <= set(PROFILES), name


def test_an_operator_that_nobody_tests_is_found(upstream: Upstream, operators: Sequence[Operator]) -> None:
    """One that a newer wheel supports, say."""
    newer = Upstream(upstream.fp | {"brand_new.default"}, upstream.int)
    rows = [row for row in coverage.aten_rows(newer, operators) if not row.tested and not row.reason]
    assert [row.name for row in rows] == ["brand_new.default"]
    others = [operator for operator in operators if operator.name != "cumsum"]
    rows = [row for row in coverage.aten_rows(upstream, others) if not row.tested and not row.reason]
    assert [row.name for row in rows] == ["cumsum.default"]


def test_there_are_as_many_as_were_asked_for(operators: Sequence[Operator]) -> None:
    assert len(operators) >= 60
    assert sum(len(operator.cases) for operator in operators) >= 250


def test_the_table_changes_with_the_declarations(upstream: Upstream, operators: Sequence[Operator]) -> None:
    whole = coverage.render(upstream, operators)
    (add,) = [operator for operator in operators if operator.name == "add"]
    others = [operator for operator in operators if operator is not add]
    assert coverage.render(upstream, others) != whole
    assert coverage.render(upstream, [*others, replace(add, on_cpu={"MI": "a reason of its own"})]) != whole
    rows = {row.name: row for row in coverage.aten_rows(upstream, [replace(add, on_cpu={"MI": "why"})])}
    assert rows["add.Tensor"].left == ("MI",)
    assert rows["add.Tensor"].counts["BI"] == len(add.cases)
    assert not rows["sub.Tensor"].tested
