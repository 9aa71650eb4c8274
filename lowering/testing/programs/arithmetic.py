"""Programs of operations on two inputs: elementwise ones in 8, 16 and 32 bits, broadcast both ways, with constants and
in chains; comparisons, selection, bits and truth values; matrix products.
"""

from __future__ import annotations

import numpy as np

from ethos_hil.lowering.testing.programs.pieces import added, single, widened
from ethos_hil.lowering.testing.tosa_graph import Array, Graph, Value
from ethos_hil.lowering.testing.tosa_program import Build, Limits, ProgramCatalogue, Rng

ARITHMETIC = ProgramCatalogue()
Shape = tuple[int, ...]
Scales = tuple[float, float, float]
SHAPE = (1, 5, 6, 7)
USUAL = (0.31, 0.5, 0.91)
FULL = (-(2**31), 2**31 - 1)


def arithmetic(
    op: str, first: Shape = SHAPE, second: Shape = SHAPE, scales: Scales = USUAL, dtype: str = "int8"
) -> Build:
    """ADD, SUB or MUL as ExecuTorch emits them: both inputs to int32, the operation, and back."""

    def build(graph: Graph, rng: Rng) -> Value:
        narrow, values = dtype == "int8", [graph.input(shape, dtype) for shape in (first, second)]
        shift = 0 if op == "MUL" else 20 if narrow else 12
        zeros = (-37, 14, -28) if narrow else (0, 0, 0)
        factors = [scale * 2.0**shift if shift else 1.0 for scale in scales]
        sides = zip(values, factors, zeros, strict=False)
        wide = [graph.rescale(value, factor, zero_in=zero, dtype="int32") for value, factor, zero in sides]
        result = graph.binary(op, *wide)
        back = scales[2] / 2.0**shift if shift else 0.0123 if narrow else 0.0000321
        return graph.rescale(result, back, zero_out=zeros[2], dtype=dtype)

    return build


def pairs(rng: Rng) -> list[Array]:
    """All pairs of int8."""
    values = np.arange(-128, 128, dtype=np.int8)
    return [array.reshape(1, 256, 256, 1).copy() for array in np.meshgrid(values, values)]


OTHER = (0.5, 0.43, 0.51)
BOTH = (0.3, 0.43, 0.91)
ARITHMETIC.add_all({
    "add": arithmetic("ADD"),
    "add, second input scaled": arithmetic("ADD", scales=OTHER),
    "add, both inputs scaled": arithmetic("ADD", scales=BOTH),
    "add of a row": arithmetic("ADD", second=(1, 1, 6, 7)),
    "add of a column": arithmetic("ADD", second=(1, 5, 1, 7)),
    "add of channels": arithmetic("ADD", second=(1, 1, 1, 7)),
    "add of positions": arithmetic("ADD", second=(1, 5, 6, 1)),
    "add of one": arithmetic("ADD", second=(1, 1, 1, 1)),
    "add to one": arithmetic("ADD", first=(1, 1, 1, 1)),
    "add to one, other scale": arithmetic("ADD", first=(1, 1, 1, 1), scales=OTHER),
    "add of row and column": arithmetic("ADD", first=(1, 1, 6, 7), second=(1, 5, 1, 7)),
    "add with batch": arithmetic("ADD", first=(3, 5, 6, 7), second=(3, 5, 6, 7)),
    "add of a batch of one": arithmetic("ADD", first=(3, 5, 6, 7)),
    "add int16": arithmetic("ADD", dtype="int16"),
    "add int16, second input scaled": arithmetic("ADD", scales=OTHER, dtype="int16"),
    "add int16, both inputs scaled": arithmetic("ADD", scales=BOTH, dtype="int16"),
    "add int16, scales differ by two": arithmetic("ADD", scales=(0.5, 0.25, 0.7), dtype="int16"),
    "sub int16, scales differ by two": arithmetic("SUB", scales=(0.5, 1.0, 0.7), dtype="int16"),
    "add int16 of channels": arithmetic("ADD", second=(1, 1, 1, 7), dtype="int16"),
    "sub": arithmetic("SUB"),
    "sub, second input scaled": arithmetic("SUB", scales=OTHER),
    "sub, both inputs scaled": arithmetic("SUB", scales=BOTH),
    "sub from channels": arithmetic("SUB", first=(1, 1, 1, 7)),
    "sub from channels, other scale": arithmetic("SUB", first=(1, 1, 1, 7), scales=OTHER),
    "sub from one": arithmetic("SUB", first=(1, 1, 1, 1)),
    "sub of one": arithmetic("SUB", second=(1, 1, 1, 1)),
    "sub int16": arithmetic("SUB", dtype="int16"),
    "sub int16 from channels, other scale": arithmetic("SUB", first=(1, 1, 1, 7), scales=OTHER, dtype="int16"),
    "mul": arithmetic("MUL"),
    "mul by channels": arithmetic("MUL", second=(1, 1, 1, 7)),
    "mul by positions": arithmetic("MUL", second=(1, 5, 6, 1)),
    "mul by one": arithmetic("MUL", second=(1, 1, 1, 1)),
    "mul of one": arithmetic("MUL", first=(1, 1, 1, 1)),
    "mul with batch": arithmetic("MUL", first=(2, 5, 6, 7), second=(2, 5, 6, 7)),
    "mul int16": arithmetic("MUL", dtype="int16"),
    "mul int16 by channels": arithmetic("MUL", second=(1, 1, 1, 7), dtype="int16"),
})  # fmt: skip

WHOLE = (1, 256, 256, 1)
for operation in ("ADD", "SUB", "MUL"):
    every = arithmetic(operation, WHOLE, WHOLE, BOTH)
    ARITHMETIC.add(f"{operation.lower()}, all pairs", every, given=[pairs], kinds=())
# unit scales and halves: every other sum is half-way
ARITHMETIC.add("add, ties", arithmetic("ADD", WHOLE, WHOLE, (1.0, 1.0, 0.5)), given=[pairs], kinds=())
ARITHMETIC.add("sub, ties", arithmetic("SUB", WHOLE, WHOLE, (1.0, 0.5, 0.25)), given=[pairs], kinds=())


def constant(op: str, reverse: bool, shape: Shape) -> Build:
    """An operation of an input and an int8 constant (not all zero), either first."""

    def build(graph: Graph, rng: Rng) -> Value:
        values = [graph.input((1, 5, 6, 7)), graph.const(rng.integers(1, 128, shape), "int8")]
        if reverse:
            values.reverse()
        if op == "MUL":
            wide = [graph.rescale(value, 1.0, zero_in=3, dtype="int32") for value in values]
        else:
            scales = zip(values, (0.3, 0.6), (-5, 9), strict=True)
            wide = [widened(graph, value, scale, zero) for value, scale, zero in scales]
        return graph.rescale(graph.binary(op, *wide), 0.02 if op == "MUL" else 0.8 / 2**20, zero_out=4)

    return build


for operation in ("ADD", "SUB", "MUL"):
    ARITHMETIC.add(f"{operation.lower()} of a constant scalar", constant(operation, False, (1, 1, 1, 1)))
    ARITHMETIC.add(f"{operation.lower()} of constant channels", constant(operation, False, (1, 1, 1, 7)))
ARITHMETIC.add("sub from a constant scalar", constant("SUB", True, (1, 1, 1, 1)))
ARITHMETIC.add("sub from a constant map", constant("SUB", True, SHAPE))


def words(op: str, first: Shape = SHAPE, second: Shape = SHAPE, dtype: str = "int32", **options: int) -> Build:
    """An operation on two inputs as they are."""
    return lambda graph, rng: graph.binary(op, graph.input(first, dtype), graph.input(second, dtype), **options)


HALF, SMALL = (-(2**30), 2**30 - 1), (-46000, 46000)
for name, build, *within in (
    ("int32 add", words("ADD"), HALF, HALF),
    ("int32 sub", words("SUB"), HALF, HALF),
    ("int32 add of channels", words("ADD", second=(1, 1, 1, 7)), HALF, HALF),
    ("int32 sub from one", words("SUB", first=(1, 1, 1, 1)), HALF, HALF),
    ("int32 mul", words("MUL"), SMALL, SMALL),
    ("int32 mul by positions", words("MUL", second=(1, 5, 6, 1)), SMALL, SMALL),
    ("int8 mul to int32", words("MUL", dtype="int8")),
    ("int16 mul to int32", words("MUL", dtype="int16")),
    ("int32 min", words("MINIMUM"), FULL, FULL),
    ("int32 max", words("MAXIMUM"), FULL, FULL),
    ("int32 max with channels", words("MAXIMUM", second=(1, 1, 1, 7)), FULL, FULL),
    ("int32 division", words("INTDIV"), FULL, (1, 1000)),
    ("int32 division by negatives", words("INTDIV"), (-(2**31) + 1, 2**31 - 1), (-1000, -1)),
    ("int32 shift left", words("LOGICAL_LEFT_SHIFT"), (-3000, 3000), (0, 18)),
    ("int32 shift left, bits lost", words("LOGICAL_LEFT_SHIFT"), FULL, (0, 31)),
    ("int32 shift right, rounding", words("ARITHMETIC_RIGHT_SHIFT_ROUND"), (-300000, 300000), (1, 14)),
    ("int32 shift right, rounding, small", words("ARITHMETIC_RIGHT_SHIFT_ROUND"), (-40, 40), (1, 5)),
):
    ARITHMETIC.add(name, build, *within)
for dtype, most in (("int8", 7), ("int16", 15), ("int32", 31)):
    ARITHMETIC.add(f"{dtype} shift right", words("ARITHMETIC_RIGHT_SHIFT", dtype=dtype), None, (0, most))
    ARITHMETIC.add(f"{dtype} shift right, logical", words("LOGICAL_RIGHT_SHIFT", dtype=dtype), None, (0, most))
    if dtype != "int32":
        ARITHMETIC.add(f"{dtype} shift left", words("LOGICAL_LEFT_SHIFT", dtype=dtype), None, (0, most))
        rounding = words("ARITHMETIC_RIGHT_SHIFT_ROUND", dtype=dtype)
        ARITHMETIC.add(f"{dtype} shift right, rounding", rounding, None, (1, most))
for bits in (1, 7, 20):
    limits = (-(2**20), 2**20), (-1000 * bits, 1000 * bits)
    ARITHMETIC.add(f"int32 mul shifted by {bits}", words("MUL", shift=bits), *limits)


def extremum(op: str, dtype: str = "int8", second: Shape = SHAPE) -> Build:
    """MINIMUM or MAXIMUM as ExecuTorch emits it: by way of int32."""

    def build(graph: Graph, rng: Rng) -> Value:
        zero = 3 if dtype == "int8" else 0
        wide = [graph.rescale(graph.input(shape, dtype), 1.0, zero_in=zero, dtype="int32") for shape in (SHAPE, second)]
        return graph.rescale(graph.binary(op, *wide), 1.0, zero_out=zero, dtype=dtype)

    return build


def of_two_scales(graph: Graph, rng: Rng) -> Value:
    wide = [graph.rescale(graph.input(SHAPE), scale, zero_in=3, dtype="int32") for scale in (1.7, 0.9)]
    return graph.rescale(graph.binary("MAXIMUM", *wide), 0.8, zero_out=-3)


ARITHMETIC.add_all({
    "int8 maximum": extremum("MAXIMUM"),
    "int8 minimum": extremum("MINIMUM"),
    "int8 maximum with channels": extremum("MAXIMUM", second=(1, 1, 1, 7)),
    "int8 minimum with one": extremum("MINIMUM", second=(1, 1, 1, 1)),
    "int16 maximum": extremum("MAXIMUM", "int16"),
    "int16 minimum": extremum("MINIMUM", "int16"),
    "int8 maximum of two scales": of_two_scales,
})  # fmt: skip


@ARITHMETIC.program("chain of additions")
def _(graph: Graph, rng: Rng) -> Value:
    values = [graph.input((1, 8, 9, 20)) for _ in range(4)]
    total = values[0]
    for value in values[1:]:
        total = added(graph, total, value)
    return total


@ARITHMETIC.program("chain of add, mul, sub and max")
def _(graph: Graph, rng: Rng) -> Value:
    a, b, c = (graph.rescale(graph.input((1, 8, 9, 20)), 1.0, zero_in=2, dtype="int32") for _ in range(3))
    total = graph.binary("ADD", a, b)
    product = graph.rescale(graph.binary("MUL", total, c), 0.05, zero_out=1)
    wide = graph.rescale(product, 1.0, zero_in=1, dtype="int32")
    return graph.rescale(graph.binary("MAXIMUM", graph.binary("SUB", wide, a), b), 0.6, zero_out=-7)


@ARITHMETIC.program("chain used twice")
def _(graph: Graph, rng: Rng) -> tuple[Value, Value]:
    a, b = (graph.input((1, 8, 9, 20)) for _ in range(2))
    total = added(graph, a, b)
    return added(graph, total, a), added(graph, total, b, (0.5, 0.25, 0.9))


@ARITHMETIC.program("chain of 32 bits", (-(2**27), 2**27), (-(2**27), 2**27), (0, 6))
def _(graph: Graph, rng: Rng) -> Value:
    a, b, shift = (graph.input((1, 8, 9, 20), "int32") for _ in range(3))
    total = graph.binary("SUB", graph.binary("ADD", a, b), graph.const([[[[12345]]]], "int32"))
    return graph.unary("ABS", graph.binary("ARITHMETIC_RIGHT_SHIFT", total, shift))


@ARITHMETIC.program("chain with a large map")
def _(graph: Graph, rng: Rng) -> Value:
    values = [graph.input((1, 64, 64, 24)) for _ in range(2)]
    wide = [graph.rescale(value, 1.0, zero_in=2, dtype="int32") for value in values]
    product = graph.rescale(graph.binary("MUL", *wide), 0.02)
    return graph.clamp(added(graph, product, values[0]), -90, 101)


# Comparisons, selection, bits and truth values, most of which only the Ethos-U85 can run.

NEAR = (-3, 3)  # so that equal values occur


for op in ("EQUAL", "GREATER", "GREATER_EQUAL"):
    name = op.lower().replace("_", " or ")
    ARITHMETIC.add(f"int32 {name}", words(op), NEAR, NEAR)
    ARITHMETIC.add(f"int32 {name}, large", words(op))
    ARITHMETIC.add(f"int32 {name}, channels", words(op, second=(1, 1, 1, 7)), NEAR, NEAR)
for op in ("AND", "OR", "XOR"):
    ARITHMETIC.add(f"logical {op.lower()}", words(f"LOGICAL_{op}", dtype="bool"))
    for dtype in ("int8", "int16", "int32"):
        ARITHMETIC.add(f"{dtype} bitwise {op.lower()}", words(f"BITWISE_{op}", dtype=dtype))
ARITHMETIC.add("int32 bitwise and with channels", words("BITWISE_AND", second=(1, 1, 1, 7), dtype="int32"))
ARITHMETIC.add("logical and with channels", words("LOGICAL_AND", second=(1, 1, 1, 7), dtype="bool"))
ARITHMETIC.add("logical not", lambda graph, rng: graph.unary("LOGICAL_NOT", graph.input(SHAPE, "bool")))
for dtype in ("int8", "int16", "int32"):
    ARITHMETIC.add(f"{dtype} bitwise not", single("unary", SHAPE, dtype, before=["BITWISE_NOT"]))


def select(dtype: str, condition: Shape = SHAPE, second: Shape = SHAPE) -> Build:
    return lambda graph, rng: graph.select(
        graph.input(condition, "bool"), graph.input(SHAPE, dtype), graph.input(second, dtype)
    )


ARITHMETIC.add_all({
    **{f"{dtype} select": select(dtype) for dtype in ("int8", "int16", "int32")},
    "int8 select by channels": select("int8", condition=(1, 1, 1, 7)),
    "int8 select or one": select("int8", second=(1, 1, 1, 1)),
})  # fmt: skip


@ARITHMETIC.program("int8 comparison as ExecuTorch emits it")
def _(graph: Graph, rng: Rng) -> Value:
    wide = [graph.rescale(graph.input(SHAPE), 1.0, zero_in=zero, dtype="int32") for zero in (3, 5)]
    return graph.binary("GREATER", *wide)


@ARITHMETIC.program("int8 select by comparison")
def _(graph: Graph, rng: Rng) -> Value:
    sources = [graph.input(SHAPE) for _ in range(2)]
    wide = [graph.rescale(value, 1.0, zero_in=3, dtype="int32") for value in sources]
    return graph.select(graph.binary("GREATER_EQUAL", *wide), *sources)


@ARITHMETIC.program("int32 range test", NEAR)
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.input(SHAPE, "int32")
    low, high = (graph.const([[[[value]]]], "int32") for value in (-2, 1))
    inside = graph.binary("LOGICAL_AND", graph.binary("GREATER", source, low), graph.binary("GREATER", high, source))
    return graph.unary("LOGICAL_NOT", inside)


# Narrowing keeps to values that fit: others wrap in TOSA, but Vela 5.1 saturates them.
CASTS: tuple[tuple[str, str, Limits], ...] = (
    ("int8", "int16", None), ("int8", "int32", None), ("int16", "int8", (-128, 127)), ("int16", "int32", None),
    ("int32", "int8", (-128, 127)), ("int32", "int16", (-32768, 32767)),
    ("int8", "bool", NEAR), ("int16", "bool", NEAR), ("int32", "bool", NEAR),
    ("bool", "int8", None), ("bool", "int16", None), ("bool", "int32", None),
)  # fmt: skip
for source, target, bounds in CASTS:
    ARITHMETIC.add(f"cast {source} to {target}", single("cast", SHAPE, source, target), bounds)


# Matrix products of two inputs.


def product(batch: int, height: int, depth: int, width: int, dtype: str = "int8") -> Build:
    """MATMUL and its rescale."""

    def build(graph: Graph, rng: Rng) -> Value:
        first, second = (graph.input((batch, *shape), dtype) for shape in ((height, depth), (depth, width)))
        sums = graph.matmul(first, second, (3, -4) if dtype == "int8" else (0, 0))
        largest = (3.0 / 73 if dtype == "int8" else 1.6e-4) / float(np.sqrt(depth))
        return graph.rescale(sums, largest, zero_out=2 if dtype == "int8" else 0, dtype=dtype)

    return build


def of_transposed(graph: Graph, rng: Rng) -> Value:
    keys = graph.transpose(graph.input((2, 11, 24)), (0, 2, 1))
    return graph.rescale(graph.matmul(graph.input((2, 9, 24)), keys, (1, 2)), 0.008, zero_out=3)


def by_constant(graph: Graph, rng: Rng) -> Value:
    constant = graph.const(rng.integers(-127, 128, (1, 24, 13)), "int8")
    return graph.rescale(graph.matmul(graph.input((1, 9, 24)), constant, (1, 0)), 0.008, zero_out=3)


ARITHMETIC.add_all({
    "matmul": product(1, 5, 7, 9),
    "matmul with batch": product(3, 5, 7, 9),
    "matmul of attention": product(2, 17, 32, 17),
    "matmul deep": product(1, 6, 130, 33),
    "matmul wide": product(1, 33, 16, 70),
    "matmul of vectors": product(1, 1, 40, 1),
    "matmul to int32": lambda g, r: g.matmul(g.input((2, 5, 7)), g.input((2, 7, 9)), (3, -4)),
    "matmul int16": product(2, 5, 7, 9, "int16"),
    "matmul int16 deep": product(1, 12, 100, 20, "int16"),
    "matmul of a transposed operand": of_transposed,
    "matmul by a constant": by_constant,
})  # fmt: skip
