"""Programs that make Vela schedule: cascades in rolling buffers, weights in slices, control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ethos_hil.lowering.testing.programs.pieces import added, depthwise_layer, layer, per_channel, weights
from ethos_hil.lowering.testing.tosa_graph import Array, Graph, Value
from ethos_hil.lowering.testing.tosa_program import Build, ProgramCatalogue, Rng

SCHEDULES = ProgramCatalogue()
# Vela cascades, in rolling buffers, what else would not fit; for size, as long as it can.
SIZES: dict[str, tuple[str, ...]] = {
    "": (),
    ", for size": ("--optimise=Size",),
    ", arena of 100 KB": ("--arena-cache-size=100000",),
    ", arena of 30 KB": ("--arena-cache-size=30000",),
}


@SCHEDULES.program("conv, pool, residual in bricks")
def _(graph: Graph, rng: Rng) -> Value:
    source, pad = graph.input((1, 12, 12, 8)), (1, 1, 1, 1)
    sums = graph.conv(source, weights(rng, 24, 3, 3, 8), rng.integers(-99, 99, 24), pad=pad)
    first = graph.rescale(sums, per_channel(rng, 24, 0.01))
    sums = graph.depthwise(first, weights(rng, 3, 3, 24, 1), rng.integers(-99, 99, 24), pad=pad)
    second = graph.rescale(sums, per_channel(rng, 24, 0.01))
    wide = [graph.rescale(value, 2.0**20 * s, dtype="int32") for value, s in ((first, 1.0), (second, 0.5))]
    return graph.max_pool(graph.rescale(graph.binary("ADD", *wide), 0.7 / 2**20), (2, 2), (2, 2))


def cascade(size: int, depths: Sequence[int], *, strides: Sequence[int] = ()) -> Build:
    """Convolutions in a row, every other one depthwise."""

    def build(graph: Graph, rng: Rng) -> Value:
        value = graph.input((1, size, size, depths[0]))
        for index, depth in enumerate(depths[1:]):
            stride = strides[index] if index < len(strides) else 1
            if depth == value.shape[3]:
                value = depthwise_layer(graph, rng, value, 3, stride)
            else:
                value = layer(graph, rng, value, depth, 3 if index % 3 == 0 else 1, stride)
        return value

    return build


def with_pools(graph: Graph, rng: Rng) -> Value:
    value = layer(graph, rng, graph.input((1, 50, 46, 4)), 20)
    value = graph.max_pool(value, (3, 3), (1, 1), (1, 1, 1, 1))
    value = layer(graph, rng, value, 12)
    return graph.average_pool(value, (2, 2), (2, 2))


def with_residual(graph: Graph, rng: Rng) -> Value:
    source = layer(graph, rng, graph.input((1, 40, 40, 3)), 16)
    inner = layer(graph, rng, depthwise_layer(graph, rng, layer(graph, rng, source, 64, 1)), 16, 1)
    return layer(graph, rng, added(graph, source, inner), 24, 3, 2)


def with_resize(graph: Graph, rng: Rng) -> Value:
    small = layer(graph, rng, graph.input((1, 20, 18, 3)), 24)
    return layer(graph, rng, graph.resize(small, "NEAREST", (4, 2, 4, 2), (-1, -1), (1, 1)), 12)


for name, build in {
    "cascade of two": cascade(40, (4, 24, 8)),
    "cascade of inverted residuals": cascade(48, (8, 48, 48, 8, 40, 40, 8)),
    "cascade with strides": cascade(49, (3, 16, 16, 24, 24, 12), strides=(2, 1, 1, 2)),
    "cascade of large maps": cascade(96, (3, 32, 32, 16), strides=(2,)),
    "cascade with pools": with_pools,
    "cascade with residual": with_residual,
    "cascade with resize": with_resize,
}.items():
    for suffix, flags in SIZES.items():
        SCHEDULES.add(f"{name}{suffix}", build, flags=flags, kinds=("random", "extremes"))


@SCHEDULES.program("weights in slices, twice", flags=("--arena-cache-size=60000",))
def _(graph: Graph, rng: Rng) -> Value:
    return layer(graph, rng, layer(graph, rng, graph.input((1, 8, 8, 48)), 160), 96)


def in_a_row(graph: Graph, rng: Rng) -> Value:
    value = graph.input((1, 1, 1, 250))
    for out in (310, 120, 64, 10):
        value = layer(graph, rng, value, out, 1, zero=-5)
    return value


def two_inputs(graph: Graph, rng: Rng) -> tuple[Value, Value, Value]:
    first, second = graph.input((1, 9, 8, 6)), graph.input((1, 9, 8, 10))
    left, right = layer(graph, rng, first, 10), layer(graph, rng, second, 10, 1)
    total = added(graph, left, right)
    return total, graph.max_pool(left, (3, 3)), graph.concat([right, second], 3)


def of_convolutions(graph: Graph, rng: Rng) -> Value:
    source, condition = graph.input((1, 8, 8, 8)), graph.input((1,), "bool")
    pooled = partial(graph.max_pool, kernel=(3, 3), pad=(1, 1, 1, 1))
    return graph.cond_if(condition, lambda value: layer(graph, rng, value, 8), pooled, [source])


SCHEDULES.add_all({
    "fully connected in a row": in_a_row,
    "two inputs, three outputs": two_inputs,
    "branch of convs": of_convolutions,
})  # fmt: skip


def _add_or_sub(graph: Graph, condition: Value) -> Value:
    words = [graph.input((1, 4, 5, 6), "int32") for _ in range(2)]
    return graph.cond_if(condition, partial(graph.binary, "ADD"), partial(graph.binary, "SUB"), words)


def branches(value: bool) -> Callable[[Rng], list[Array]]:
    """An input set in which the condition is that."""
    return lambda rng: [np.array([value]), *(rng.integers(-999, 999, (1, 4, 5, 6)).astype(np.int32) for _ in range(2))]


both_ways = [branches(True), branches(False)]
SCHEDULES.add("branch", lambda g, r: _add_or_sub(g, g.input((1,), "bool")), given=both_ways, kinds=())


@SCHEDULES.program("branch on a comparison", (-3, 3), (-3, 3), (-999, 999), (-999, 999))
def _(graph: Graph, rng: Rng) -> Value:
    return _add_or_sub(graph, graph.binary("GREATER", graph.input((1,), "int32"), graph.input((1,), "int32")))


@SCHEDULES.program("loop", (0, 4), (-999, 999))
def _(graph: Graph, rng: Rng) -> tuple[Value, ...]:
    def step(count: Value, value: Value) -> tuple[Value, Value]:
        more = graph.const(np.arange(4).reshape(1, 4), "int32")
        return graph.binary("ADD", count, graph.const([1], "int32")), graph.binary("ADD", value, more)

    arguments = [graph.input((1,), "int32"), graph.input((1, 4), "int32")]
    return graph.while_loop(lambda n, _: graph.binary("GREATER", graph.const([5], "int32"), n), step, arguments)
