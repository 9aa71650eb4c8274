"""What each treatment of a defect of Vela finds in a TOSA program, and what it leaves alone.

No Vela here: whether it has the defects is tested in suites/lab/prove/random_models/tests/test_repairs.py. What is
rewritten must compute the same.
"""

from __future__ import annotations

import numpy as np
import pytest

from ethos_hil.base.npu.family import Family
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.formats.tosa_draft import TosaDraft
from ethos_hil.lowering.repairs.defect import Treatment
from ethos_hil.lowering.repairs.fused_shape import cut
from ethos_hil.lowering.repairs.mend import DEFECTS
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Build, draw, reference
from ethos_hil.lowering.tests.treated_programs import CASES

TREATMENTS: dict[str, Treatment] = {treat.__name__: treat for defect in DEFECTS for treat, _ in defect.treatments}


SHAPES: tuple[tuple[int, ...], ...] = (
    (6,), (4, 6, 16), (1, 4, 6, 16), (2, 4, 6, 16), (2, 4, 1, 16), (48, 1, 1, 16), (2, 1, 6, 1), (2, 3, 4, 5, 6),
    (2, 3, 1, 5, 6), (1, 1, 4, 1, 6),
)  # fmt: skip


def test_an_elementwise_operator_is_computed_in_four_dimensions(recorded: Recorded) -> None:
    """Those of regor's ReshapeElementwise."""
    recorded.check("\n".join(f"{shape}: {cut(shape)}" for shape in SHAPES))


def test_each_treatment_has_programs_that_it_finds_and_programs_that_it_leaves_alone() -> None:
    assert {treat for treat, _, _, _, ops in CASES if ops} == TREATMENTS.keys()
    assert {treat for treat, _, _, _, ops in CASES if not ops} == TREATMENTS.keys()


@pytest.mark.parametrize(
    ("treat", "family", "build", "ops"),
    [pytest.param(TREATMENTS[treat], *rest, id=f"{treat}: {what}") for treat, what, *rest in CASES],
)
def test_what_meets_a_defect_is_found_and_what_is_rewritten_computes_the_same(
    treat: Treatment, family: Family, build: Build, ops: list[str]
) -> None:
    rng = np.random.default_rng(0)
    graph = Graph()
    result = build(graph, rng)
    tosa = graph.output(*([result] if isinstance(result, Value) else result)).serialize()
    draft = TosaDraft(tosa)
    (block,) = draft.blocks
    assert [operator.op for operator in treat(block, family)] == ops
    rewritten = draft.finish()
    finds_only = treat in [defect.refuse for defect in DEFECTS]
    assert (rewritten != tosa) == (bool(ops) and not finds_only)
    if rewritten != tosa:
        for kind in ("random", "extreme"):
            inputs = [draw(value, kind, rng, None) for value in graph.inputs]
            assert reference(rewritten, inputs) == reference(tosa, inputs)
        again = TosaDraft(rewritten)
        (block,) = again.blocks
        assert treat(block, family) == [], "it does not meet the defect any more"
