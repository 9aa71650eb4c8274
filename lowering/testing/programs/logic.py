"""Programs of comparisons, selection, bits and truth values, most of which only the Ethos-U85 can run."""

from __future__ import annotations

from ethos_hil.lowering.testing.programs.pieces import single
from ethos_hil.lowering.testing.tosa_graph import Graph, Value
from ethos_hil.lowering.testing.tosa_program import Build, Limits, ProgramCatalogue, Rng

LOGIC = ProgramCatalogue()
SHAPE = (1, 5, 6, 7)
NEAR = (-3, 3)  # so that equal values occur


def binary(op: str, dtype: str, second: tuple[int, ...] = SHAPE) -> Build:
    """An operation on two inputs."""
    return lambda graph, rng: graph.binary(op, graph.input(SHAPE, dtype), graph.input(second, dtype))


for op in ("EQUAL", "GREATER", "GREATER_EQUAL"):
    name = op.lower().replace("_", " or ")
    LOGIC.add(f"int32 {name}", binary(op, "int32"), NEAR, NEAR)
    LOGIC.add(f"int32 {name}, large", binary(op, "int32"))
    LOGIC.add(f"int32 {name}, channels", binary(op, "int32", (1, 1, 1, 7)), NEAR, NEAR)
for op in ("AND", "OR", "XOR"):
    LOGIC.add(f"logical {op.lower()}", binary(f"LOGICAL_{op}", "bool"))
    for dtype in ("int8", "int16", "int32"):
        LOGIC.add(f"{dtype} bitwise {op.lower()}", binary(f"BITWISE_{op}", dtype))
LOGIC.add("int32 bitwise and with channels", binary("BITWISE_AND", "int32", (1, 1, 1, 7)))
LOGIC.add("logical and with channels", binary("LOGICAL_AND", "bool", (1, 1, 1, 7)))
LOGIC.add("logical not", lambda graph, rng: graph.unary("LOGICAL_NOT", graph.input(SHAPE, "bool")))
for dtype in ("int8", "int16", "int32"):
    LOGIC.add(f"{dtype} bitwise not", single("unary", SHAPE, dtype, before=["BITWISE_NOT"]))


def select(dtype: str, condition: tuple[int, ...] = SHAPE, second: tuple[int, ...] = SHAPE) -> Build:
    """SELECT."""
    return lambda graph, rng: graph.select(
        graph.input(condition, "bool"), graph.input(SHAPE, dtype), graph.input(second, dtype)
    )


for dtype in ("int8", "int16", "int32"):
    LOGIC.add(f"{dtype} select", select(dtype))
LOGIC.add("int8 select by channels", select("int8", condition=(1, 1, 1, 7)))
LOGIC.add("int8 select or one", select("int8", second=(1, 1, 1, 1)))


@LOGIC.program("int8 comparison as ExecuTorch emits it")
def _(graph: Graph, rng: Rng) -> Value:
    wide = [graph.rescale(graph.input(SHAPE), 1.0, zero_in=zero, dtype="int32") for zero in (3, 5)]
    return graph.binary("GREATER", *wide)


@LOGIC.program("int8 select by comparison")
def _(graph: Graph, rng: Rng) -> Value:
    sources = [graph.input(SHAPE) for _ in range(2)]
    wide = [graph.rescale(value, 1.0, zero_in=3, dtype="int32") for value in sources]
    return graph.select(graph.binary("GREATER_EQUAL", *wide), *sources)


@LOGIC.program("int32 range test", NEAR)
def _(graph: Graph, rng: Rng) -> Value:
    source = graph.input(SHAPE, "int32")
    low, high = (graph.const([[[[value]]]], "int32") for value in (-2, 1))
    inside = graph.binary("LOGICAL_AND", graph.binary("GREATER", source, low), graph.binary("GREATER", high, source))
    return graph.unary("LOGICAL_NOT", inside)


# Narrowing keeps to values that fit: others wrap in TOSA, but Vela 5.1 saturates them.
CASTS: tuple[tuple[str, str, Limits], ...] = (
    ("int8", "int16", None),
    ("int8", "int32", None),
    ("int16", "int8", (-128, 127)),
    ("int16", "int32", None),
    ("int32", "int8", (-128, 127)),
    ("int32", "int16", (-32768, 32767)),
    ("int8", "bool", NEAR),
    ("int16", "bool", NEAR),
    ("int32", "bool", NEAR),
    ("bool", "int8", None),
    ("bool", "int16", None),
    ("bool", "int32", None),
)
for source, target, limits in CASTS:
    LOGIC.add(f"cast {source} to {target}", single("cast", SHAPE, source, target), limits)
