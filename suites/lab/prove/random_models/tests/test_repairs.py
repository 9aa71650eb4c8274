"""Each repair makes a program exact that Vela compiles wrongly, and leaves what it computes as it was.

A program that cannot be repaired is refused. Each case says which of the two it is: a repair that is lost is a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault
from ethos_hil.harness.testing.compiled_graph import compile_graph, modes_of
from ethos_hil.lowering.repairs.mend import DEFECTS, treat
from ethos_hil.lowering.testing.programs.pieces import added, layer, per_channel, requantized, spread, weights
from ethos_hil.lowering.testing.tosa_graph import Graph, Value, multiplier_shift
from ethos_hil.lowering.testing.tosa_program import KINDS, Rng, draw, reference
from ethos_hil.lowering.vela.compiler import flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.lab.prove.conformance.check import differences

pytestmark = pytest.mark.product

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
WITHOUT_U85 = NPUS[:2]
Build = Callable[[Graph, Rng], Value | Sequence[Value]]
CASES: list[tuple[str, Build, Sequence[str], bool]] = []


def case(defect: str, npus: Sequence[str] = NPUS, *, repaired: bool = True) -> Callable[[Build], Build]:
    """Add a program that meets a defect on some NPUs, and is repaired or refused."""

    def add(build: Build) -> Build:
        CASES.append((defect, build, npus, repaired))
        return build

    return add


def table(graph: Graph, rng: Rng, source: Value) -> Value:
    return graph.table(source, rng.integers(-128, 128, 256))


def convolution(graph: Graph, rng: Rng, source: Value, out: int, kernel: int = 1, pad: int = 0) -> Value:
    depth = source.shape[3]
    sums = graph.conv(
        source, weights(rng, out, kernel, kernel, depth), rng.integers(-99, 99, out), pad=(pad, pad, pad, pad)
    )
    return requantized(graph, rng, sums, spread(depth * kernel * kernel), "int8")


def to_first(graph: Graph, source: Value) -> Value:
    return graph.transpose(source, (0, 3, 1, 2))


def to_last(graph: Graph, source: Value) -> Value:
    return graph.transpose(source, (0, 2, 3, 1))


@case("vela-dropped-output")
def chain_of_outputs(graph: Graph, rng: Rng) -> list[Value]:
    first = to_first(graph, layer(graph, rng, graph.input((1, 8, 8, 4)), 6, 3))
    second = to_first(graph, layer(graph, rng, to_last(graph, first), 5, 3))
    return [first, second, to_first(graph, layer(graph, rng, to_last(graph, second), 5, 3))]


@case("vela-dropped-output")
def output_that_is_permuted_again(graph: Graph, rng: Rng) -> list[Value]:
    first = to_first(graph, layer(graph, rng, graph.input((1, 8, 8, 4)), 6, 3))
    return [first, graph.transpose(first, (0, 1, 3, 2))]


@case("vela-dropped-output")
def reshaped_output(graph: Graph, rng: Rng) -> list[Value]:
    first = graph.reshape(layer(graph, rng, graph.input((1, 8, 8, 4)), 6, 3), (8, 8, 6))
    return [first, graph.transpose(first, (0, 2, 1))]


@case("vela-dropped-output")
def output_with_the_channels_last(graph: Graph, rng: Rng) -> list[Value]:
    first = layer(graph, rng, graph.input((1, 8, 8, 4)), 6, 3)
    return [first, to_last(graph, to_first(graph, first))]


@case("vela-dropped-output")
def view_of_the_input(graph: Graph, rng: Rng) -> list[Value]:
    source = graph.input((1, 8, 8, 4), "int16")
    view = to_first(graph, source)
    return [view, view, to_last(graph, view)]


@case("vela-fused-shape")
def dense_layers_of_a_sequence(graph: Graph, rng: Rng) -> Value:
    hidden = table(graph, rng, convolution(graph, rng, graph.input((32, 1, 1, 64)), 48))
    return convolution(graph, rng, hidden, 64)


@case("vela-fused-shape")
def clamp_in_five_dimensions(graph: Graph, rng: Rng) -> Value:
    image = convolution(graph, rng, graph.input((1, 4, 6, 20)), 16, 3)
    return graph.clamp(graph.reshape(image, (1, 2, 4, 2, 8)), -50, 77)


@case("vela-fused-shape")
def table_of_a_reshaped_sum(graph: Graph, rng: Rng) -> Value:
    total = added(graph, graph.input((2, 4, 6, 16)), graph.input((2, 4, 6, 16)))
    return table(graph, rng, graph.reshape(total, (48, 1, 1, 16)))


@case("vela-reduce-min", WITHOUT_U85)
def minimum_of_a_matrix(graph: Graph, rng: Rng) -> Value:
    return graph.reshape(graph.reduce("MIN", graph.input((4, 6)), 1), (1, 4))


@case("vela-reduce-min", WITHOUT_U85)
def activated_minimum(graph: Graph, rng: Rng) -> Value:
    least = graph.reduce("MIN", graph.input((2, 4, 6, 16)), 2)
    return table(graph, rng, graph.reshape(least, (2, 4, 1, 2, 8)))


@case("vela-sliced-input")
def padded_convolution_of_a_slice(graph: Graph, rng: Rng) -> Value:
    part = graph.slice(graph.input((2, 8, 8, 8)), (0, 0, 0, 4), (2, 8, 8, 4))
    return convolution(graph, rng, part, 5, 3, 1)


@case("vela-sliced-input")
def sum_of_a_slice(graph: Graph, rng: Rng) -> Value:
    wide = graph.rescale(graph.slice(graph.input((1, 4, 6, 16)), (0, 0, 0, 4), (1, 4, 6, 12)), 1.0, dtype="int32")
    return graph.rescale(graph.reduce("SUM", wide, 3), 0.06, dtype="int8")


@case("vela-sliced-input", WITHOUT_U85)
def product_of_a_slice(graph: Graph, rng: Rng) -> Value:
    return graph.matmul(graph.slice(graph.input((24, 17, 3)), (8, 0, 0), (8, 17, 3)), graph.input((8, 3, 17)))


@case("vela-sliced-input", NPUS[2:])
def query_of_a_batch(graph: Graph, rng: Rng) -> Value:
    query = graph.slice(graph.input((3, 2, 4, 5, 6)), (0, 0, 0, 0, 0), (1, 2, 4, 5, 6))
    return table(graph, rng, graph.reshape(query, (2, 4, 5, 6)))


@case("vela-sliced-input", NPUS[2:])
def second_of_six_dimensions(graph: Graph, rng: Rng) -> Value:
    second = graph.slice(graph.input((3, 1, 2, 4, 5, 6)), (1, 0, 0, 0, 0, 0), (1, 1, 2, 4, 5, 6))
    return graph.clamp(graph.reshape(second, (1, 2, 4, 5, 6)), -50, 77)


@case("vela-reduced-part")
def maximum_and_map(graph: Graph, rng: Rng) -> Value:
    return graph.concat([graph.reduce("MAX", graph.input((1, 4, 6, 16)), 3), graph.input((1, 3, 6, 1))], 1)


@case("vela-padded-transposition", WITHOUT_U85)
def padded_table(graph: Graph, rng: Rng) -> Value:
    looked_up = table(graph, rng, to_last(graph, graph.input((1, 6, 10, 4))))
    return graph.pad(looked_up, (0, 0, 0, 0, 0, 2, 0, 0), 5)


@case("vela-padded-transposition", NPUS[2:])
def padded_table_of_one_row(graph: Graph, rng: Rng) -> Value:
    row = convolution(graph, rng, graph.input((1, 3, 7, 14)), 8, 3)
    return graph.pad(table(graph, rng, to_first(graph, row)), (0, 0, 0, 0, 2, 0, 1, 2), 5)


@case("vela-table-beyond-shram", ("ethos-u55-64",))
def table_of_a_transposed_map(graph: Graph, rng: Rng) -> Value:
    return table(graph, rng, to_last(graph, graph.input((1, 6, 10, 4))))


@case("vela-cropped-transpose-conv")
def one_position_of_a_transposed_convolution(graph: Graph, rng: Rng) -> Value:
    kernels = weights(rng, 8, 3, 3, 9)
    sums = graph.transpose_conv(
        graph.input((1, 2, 2, 9)), kernels, rng.integers(-99, 99, 8), out_pad=(-2, -2, -2, -2), stride=(2, 2)
    )
    return requantized(graph, rng, sums, 0.01, "int8")


@case("vela-shared-bias")
def convolutions_of_one_form(graph: Graph, rng: Rng) -> Value:
    """Three biases, and a fourth convolution whose scales are others."""
    source, kernels, scales = graph.input((1, 6, 8, 5)), weights(rng, 8, 3, 3, 5), per_channel(rng, 8, 0.01)
    parts = []
    for number in range(4):
        pad, stride, dilation = ((1, 0, 2, 1), (1, 2), (2, 1))
        sums = graph.conv(source, kernels, rng.integers(-999, 999, 8), pad=pad, stride=stride, dilation=dilation)
        parts.append(graph.rescale(sums, scales if number < 3 else 0.02, dtype="int8"))
    return graph.concat(parts, 3)


@case("vela-shared-bias")
def depthwise_convolutions_of_one_form(graph: Graph, rng: Rng) -> list[Value]:
    source, kernels = graph.input((1, 6, 7, 5), "int16"), weights(rng, 3, 2, 5, 1)
    sums = [graph.depthwise(source, kernels, rng.integers(-9999, 9999, 5)) for _ in range(2)]
    return [graph.rescale(total, [multiplier_shift(0.01, 15)], dtype="int16") for total in sums]


@case("vela-shared-bias", WITHOUT_U85)
def rows_and_columns_that_are_added(graph: Graph, rng: Rng) -> list[Value]:
    parts = []
    for depth, pads in ((3, (0, 1, 0, 1)), (7, (1, 0, 1, -1)), (7, (0, 0, 0, 0))):
        kernels, bias = weights(rng, 4, 3, 3, depth), rng.integers(-9999, 9999, 4)
        sums = graph.transpose_conv(graph.input((1, 4, 6, depth)), kernels, bias, out_pad=pads, stride=(2, 2))
        parts.append(requantized(graph, rng, sums, 0.01, "int8"))
    return parts


@case("vela-constant-result", ("ethos-u55-128",))
def channels_last_of_a_constant(graph: Graph, rng: Rng) -> Value:
    constant = graph.transpose(graph.const(rng.integers(-128, 128, (1, 14, 3, 4)), "int8"), (0, 2, 3, 1))
    return graph.concat([graph.input((1, 3, 4, 14)), constant], 0)


@case("vela-constant-result", ("ethos-u55-128", "ethos-u85-256"))
def constant_that_is_an_output(graph: Graph, rng: Rng) -> list[Value]:
    constant = graph.transpose(graph.const(rng.integers(-128, 128, (2, 5, 3, 4)), "int16"), (3, 2, 0, 1))
    return [graph.concat([graph.input((4, 3, 2, 5), "int16"), constant], 0), constant]


@case("vela-uneven-resize", WITHOUT_U85)
def two_rows_four_columns(graph: Graph, rng: Rng) -> Value:
    return graph.resize(graph.input((1, 5, 6, 8)), "NEAREST", (4, 2, 8, 2), (-1, -3), (1, 3))


@case("vela-uneven-resize", WITHOUT_U85, repaired=False)
def two_rows_four_columns_from_corners(graph: Graph, rng: Rng) -> Value:
    return graph.resize(graph.input((1, 5, 6, 8)), "NEAREST", (2, 1, 4, 1), (0, 0), (0, 0))


@case("vela-batched-average", NPUS[2:])
def average_of_two_samples(graph: Graph, rng: Rng) -> Value:
    return graph.average_pool(graph.input((2, 9, 9, 20)), kernel=(3, 3), stride=(4, 4), pad=(1, 1, 1, 1))


@case("vela-batched-average", NPUS[2:])
def average_of_three_activated_maps(graph: Graph, rng: Rng) -> Value:
    source = table(graph, rng, graph.input((3, 9, 7, 5)))
    return table(graph, rng, graph.average_pool(source, kernel=(5, 3), stride=(4, 2), pad=(2, 2, 1, 1)))


@case("vela-batched-average", NPUS[2:])
def average_that_is_concatenated(graph: Graph, rng: Rng) -> Value:
    average = graph.average_pool(graph.input((1, 9, 9, 8)), kernel=(3, 3), stride=(4, 4), pad=(1, 1, 1, 1))
    return graph.concat([graph.input((1, 2, 3, 8)), average], 1)


@case("vela-shifted-operands", WITHOUT_U85, repaired=False)
def sum_of_shifted_operands(graph: Graph, rng: Rng) -> Value:
    values = [graph.input((1, 4, 6, 16), "int16") for _ in range(2)]
    wide = [graph.rescale(value, factor, dtype="int32") for value, factor in zip(values, (2048.0, 1024.0), strict=True)]
    return graph.rescale(graph.binary("ADD", *wide), 0.7 / 4096, dtype="int16")


@case("vela-input-weights", NPUS[2:], repaired=False)
def weights_from_an_input(graph: Graph, rng: Rng) -> Value:
    sums = graph.conv(graph.input((1, 6, 6, 8)), graph.input((5, 1, 1, 8)), rng.integers(-99, 99, 5))
    return requantized(graph, rng, sums, 0.01, "int8")


def test_each_defect_has_a_program() -> None:
    assert {defect for defect, _, _, _ in CASES} == {defect.id for defect in DEFECTS}


def problems(tosa: bytes, npu: str, expected: Sequence[tuple[list[np.ndarray], list[np.ndarray]]]) -> str:
    """Compile a program and run it; the first thing that is wrong, or ""."""
    compiled = compile_graph(tosa, npu, mode=modes_of(npu)[0])
    for inputs, outputs in expected:
        try:
            results, _ = compiled.run(inputs)
        except Fault as fault:
            return str(fault)
        for problem in differences(results, outputs):
            return problem
    return ""


@pytest.mark.parametrize(
    ("defect", "build", "npu", "repaired"),
    [(defect, build, npu, repaired) for defect, build, npus, repaired in CASES for npu in npus],
    ids=lambda parameter: "" if isinstance(parameter, bool) else getattr(parameter, "__name__", parameter),
)
def test_a_defect_is_met_found_and_repaired(defect: str, build: Build, npu: str, repaired: bool) -> None:
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
    rewritten, met = treat(run_vela(tosa, arguments), name.family)
    assert defect in {finding.defect.id for finding in met}
    assert all(finding.repaired for finding in met) == repaired
    if not repaired:
        return
    for inputs, outputs in expected:
        assert reference(rewritten, inputs) == [output.tobytes() for output in outputs]
    assert problems(rewritten, npu, expected) == ""
