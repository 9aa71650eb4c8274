"""Each repair makes a program exact that Vela compiles wrongly, and leaves what it computes as it was.

A program that cannot be repaired is refused. Which of the two it is follows from the treatment: a repair that is lost
is a refusal. The programs are those that lowering/tests/treated_programs.py has without Vela, and a few beside them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault
from ethos_hil.harness.testing.compiled_graph import compile_graph, modes_of
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.mend import DEFECTS, treat, treat_program
from ethos_hil.lowering.testing.programs.pieces import requantized, weights
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import KINDS, Build, Rng, draw, reference
from ethos_hil.lowering.tests import treated_programs
from ethos_hil.lowering.tests.treated_programs import small, table
from ethos_hil.lowering.vela.compiler import VelaRefusal, flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.lab.prove.conformance.check import differences

pytestmark = pytest.mark.product

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
WITHOUT_U85, U85 = NPUS[:2], NPUS[2:]
TREATED: dict[str, VelaDefect] = {found.__name__: defect for defect in DEFECTS for found, _ in defect.treatments}
"""What each treatment is of."""
PROGRAMS = {(found, what): build for found, what, _, build, _ in treated_programs.CASES}


def dense_layers_of_a_sequence(graph: Graph, rng: Rng) -> Value:
    source = graph.input((32, 1, 1, 64))
    hidden = table(graph, rng, small(graph, graph.conv(source, weights(rng, 48, 1, 1, 64), rng.integers(-99, 99, 48))))
    return small(graph, graph.conv(hidden, weights(rng, 64, 1, 1, 48), rng.integers(-99, 99, 64)))


def padded_table(graph: Graph, rng: Rng) -> Value:
    looked_up = table(graph, rng, graph.transpose(graph.input((1, 6, 10, 4)), (0, 2, 3, 1)))
    return graph.pad(looked_up, (0, 0, 0, 0, 0, 2, 0, 0), 5)


def padded_row(graph: Graph, rng: Rng) -> Value:
    sums = graph.conv(graph.input((1, 3, 7, 14)), weights(rng, 8, 3, 3, 14), rng.integers(-99, 99, 8), pad=(0, 0, 0, 0))
    row = graph.transpose(requantized(graph, rng, sums, 0.01, "int8"), (0, 3, 1, 2))
    return graph.pad(table(graph, rng, row), (0, 0, 0, 0, 2, 0, 1, 2), 5)


def rows_and_columns_that_are_added(graph: Graph, rng: Rng) -> list[Value]:
    parts = []
    for depth, pads in ((3, (0, 1, 0, 1)), (7, (1, 0, 1, -1)), (7, (0, 0, 0, 0))):
        kernels, bias = weights(rng, 4, 3, 3, depth), rng.integers(-9999, 9999, 4)
        sums = graph.transpose_conv(graph.input((1, 4, 6, depth)), kernels, bias, out_pad=pads, stride=(2, 2))
        parts.append(small(graph, sums))
    return parts


def joined_constant(dtype: str, shape: Sequence[int], order: Sequence[int], *, output: bool = False) -> Build:
    """A constant that is transposed and joined to an input; perhaps it is an output, too."""

    def build(graph: Graph, rng: Rng) -> Sequence[Value]:
        constant = graph.transpose(graph.const(rng.integers(-128, 128, shape), dtype), order)
        joined = graph.concat([graph.input(constant.shape, dtype), constant], 0)
        return [joined, constant] if output else [joined]

    return build


def resized(scale: tuple[int, int, int, int], offset: tuple[int, int], border: tuple[int, int]) -> Build:
    return lambda graph, _: graph.resize(graph.input((1, 5, 6, 8)), "NEAREST", scale, offset, border)


def joined_average(graph: Graph, _: Rng) -> Value:
    average = graph.average_pool(graph.input((1, 9, 9, 8)), kernel=(3, 3), stride=(4, 4), pad=(1, 1, 1, 1))
    return graph.concat([graph.input((1, 2, 3, 8)), average], 1)


def second_of_six_dimensions(graph: Graph, _: Rng) -> Value:
    second = graph.slice(graph.input((3, 1, 2, 4, 5, 6)), (1, 0, 0, 0, 0, 0), (1, 1, 2, 4, 5, 6))
    return graph.clamp(graph.reshape(second, (1, 2, 4, 5, 6)), -50, 77)


CASES: list[tuple[str, str | Build, Sequence[str]]] = [
    ("keep_outputs", "a rotation and another", NPUS),
    ("keep_outputs", "a rotation and back", NPUS),
    ("fold_activations", "sums in others", NPUS),
    ("fold_activations", "a clamp of sums in others", NPUS),
    ("fold_activations", dense_layers_of_a_sequence, NPUS),
    ("fold_activations", "a reshaped convolution", NPUS),
    ("keep_minima", "a minimum that is reshaped", WITHOUT_U85),
    ("keep_minima", "of int16", WITHOUT_U85),
    ("keep_slices", "a batch of a padded convolution", NPUS),
    ("keep_slices", "a dilation of 3 along one axis", NPUS),
    ("keep_slices", "a stride of 4 along one axis", U85),
    ("keep_slices", "a window of three axes", U85),
    ("keep_slices", "a window of two of three axes", U85),
    ("keep_slices", "a reduction in another type", NPUS),
    ("keep_slices", "the first factor", WITHOUT_U85),
    ("keep_slices", "the first of five dimensions is dropped", U85),
    ("keep_slices", second_of_six_dimensions, U85),
    ("find_slices", "a reduction of int32", U85),
    ("keep_reductions", "a part of a map", NPUS),
    ("keep_reductions", "a part in another shape", WITHOUT_U85),
    ("free_padded", padded_table, WITHOUT_U85),
    ("free_padded", padded_row, U85),
    ("free_tables", "a table", ("ethos-u55-64",)),
    ("widen_crops", "one position", NPUS),
    ("part_biases", "three biases, one of them twice", NPUS),
    ("part_biases", "depthwise", NPUS),
    ("part_biases", rows_and_columns_that_are_added, WITHOUT_U85),
    ("fold_transposes", joined_constant("int8", (1, 14, 3, 4), (0, 2, 3, 1)), NPUS[:1]),
    ("fold_transposes", joined_constant("int16", (2, 5, 3, 4), (3, 2, 0, 1), output=True), (NPUS[0], NPUS[2])),
    ("repeat_elements", resized((4, 2, 8, 2), (-1, -3), (1, 3)), WITHOUT_U85),
    ("find_uneven", resized((2, 1, 4, 1), (0, 0), (0, 0)), WITHOUT_U85),
    ("split_averages", "a batch", U85),
    ("split_averages", "a large stride along one axis", U85),
    ("split_averages", joined_average, U85),
    ("bend_scales", "two powers", WITHOUT_U85),
    ("bend_scales", "two whole numbers", WITHOUT_U85),
    ("fold_weights", "a scale for each channel", NPUS),
    ("fold_weights", "depthwise", NPUS),
    ("fold_weights", "transposed", NPUS),
    *(("keep_saturation", what, U85) for what in ("int16", "int8", "in another shape")),
    ("keep_maxima", "of int16, in another shape", WITHOUT_U85),
    ("keep_maxima", "of windows", WITHOUT_U85),
    ("find_input_weights", "a scale for each channel", U85),
    ("reduce_rows", "each row", NPUS),
    ("reduce_rows", "the least of each row", U85),
    ("reduce_rows", "the place of the largest of each row", U85),
    ("part_tables", "two tables and a sum", U85),
    ("part_tables", "a clamp behind the sum in between", U85),
    ("part_tables", "a reshape between them", U85),
    ("part_tables", "as many sums as a chain holds", U85),
    ("part_sums", "int16 and int32", WITHOUT_U85),
    ("part_sums", "depthwise", WITHOUT_U85),
    ("part_sums", "three, of which two are the same", WITHOUT_U85),
    ("part_activations", "convolutions of one channel", U85),
    ("part_activations", "clamps", U85),
    ("part_activations", "a sum of the last axis", U85),
    ("part_activations", "a sum of the last axis with a zero point", U85),
]
"""A treatment, a program that meets its defect, and the NPUs for which Vela then compiles it wrongly."""


def test_each_treatment_has_a_program() -> None:
    assert {found for found, _, _ in CASES} == TREATED.keys()


def problems(tosa: bytes, npu: str, expected: Sequence[tuple[list[np.ndarray], list[np.ndarray]]]) -> str:
    """Compile a program and run it; the first thing that is wrong, or ""."""
    try:
        compiled = compile_graph(tosa, npu, mode=modes_of(npu)[0])
    except VelaRefusal as refusal:
        return str(refusal)
    for inputs, outputs in expected:
        try:
            results, _ = compiled.run(inputs)
        except Fault as fault:
            return str(fault)
        for problem in differences(results, outputs):
            return problem
    return ""


@pytest.mark.parametrize(
    ("found", "program", "npu"),
    [(found, program, npu) for found, program, npus in CASES for npu in npus],
    ids=lambda parameter: getattr(parameter, "__name__", parameter),
)
def test_a_defect_is_met_found_and_repaired(found: str, program: str | Build, npu: str) -> None:
    build = PROGRAMS[found, program] if isinstance(program, str) else program
    rng = np.random.default_rng(0)
    graph = Graph()
    result = build(graph, rng)
    tosa = graph.output(*([result] if isinstance(result, Value) else result)).serialize()
    expected = []
    for kind in KINDS:
        inputs = [draw(value, kind, rng, None) for value in graph.inputs]
        raw = reference(tosa, inputs)
        expected.append((inputs, [np.frombuffer(data, np.uint8) for data in raw]))
    assert problems(tosa, npu, expected), "Vela no longer has the defect"

    name = EthosU.parse(npu)
    arguments = flags(name, MemoryMode.default(name))
    try:
        rewritten, met = treat(run_vela(tosa, arguments), name.family)
    except VelaRefusal:
        rewritten, met = treat_program(tosa, name.family)
    defect = TREATED[found]
    repaired = defect.refuse is None or defect.refuse.__name__ != found
    assert defect in {finding.defect for finding in met}
    assert all(finding.repaired for finding in met) == repaired
    if not repaired:
        return
    for inputs, outputs in expected:
        assert reference(rewritten, inputs) == [output.tobytes() for output in outputs]
    assert problems(rewritten, npu, expected) == ""
