"""Programs of RESCALE between all types, of operations on one input, and of look-up tables."""

from __future__ import annotations

import numpy as np

from ethos_hil.lowering.testing.programs.pieces import per_channel, single
from ethos_hil.lowering.testing.tosa_graph import Array, Graph, Value, multiplier_shift
from ethos_hil.lowering.testing.tosa_program import Build, ProgramCatalogue, Rng

SCALES = ProgramCatalogue()
SHAPE = (1, 5, 6, 7)
RAMP = (1, 32, 32, 8)
WORDS = (-(2**30), 2**30 - 1)  # TOSA wants values below half of 2 ** shift, which is at least 31
# Keeps a multiplier of 31 bits times the value, shifted, within the target for some values, beyond it for others.
FACTORS = {
    ("int8", "int8"): 0.83, ("int8", "int16"): 201.3, ("int8", "int32"): 3456789.0,
    ("int16", "int8"): 0.0047, ("int16", "int16"): 0.71, ("int16", "int32"): 30001.7,
    ("int32", "int8"): 7e-8, ("int32", "int16"): 1.7e-5, ("int32", "int32"): 0.77,
}  # fmt: skip


def zero_of(dtype: str, zero: int) -> int:
    """Only int8 has zero points."""
    return zero if dtype == "int8" else 0


def rescale(source: str, target: str, *, channels: bool, double: bool) -> Build:
    """RESCALE by one factor or one for each channel."""

    def build(graph: Graph, rng: Rng) -> Value:
        factor = FACTORS[source, target]
        scale = per_channel(rng, SHAPE[3], factor) if channels else factor
        zero_in, zero_out, given = zero_of(source, -21), zero_of(target, 5), graph.input(SHAPE, source)
        return graph.rescale(given, scale, zero_in=zero_in, zero_out=zero_out, dtype=target, double_round=double)

    return build


for source, target in FACTORS:
    for channels in (False, True):
        for double in (False, True):
            kind = f"{' per channel' if channels else ''}{', double rounding' if double else ''}"
            build = rescale(source, target, channels=channels, double=double)
            SCALES.add(f"rescale {source} to {target}{kind}", build, WORDS if source == target == "int32" else None)


def halves(source: str, target: str, shift: int, double: bool = False) -> Build:
    """RESCALE by a power of two: consecutive inputs then have all ties."""
    return lambda graph, rng: graph.rescale(
        graph.input(RAMP, source), [(1 << 30, 30 + shift)], dtype=target, double_round=double
    )


for source, target, shift in (
    ("int8", "int8", 1), ("int8", "int8", 2), ("int8", "int16", 1), ("int8", "int32", 3),
    ("int16", "int8", 4), ("int16", "int16", 1), ("int16", "int32", 2),
    ("int32", "int8", 5), ("int32", "int16", 3), ("int32", "int32", 1), ("int32", "int32", 2),
):  # fmt: skip
    for double in (False, True):
        name = f"ties {source} to {target} by {shift}{', double rounding' if double else ''}"
        SCALES.add(name, halves(source, target, shift, double), WORDS if source == "int32" else None)

for pair in ((1, 2), (1, 62), ((1 << 31) - 1, 62), ((1 << 31) - 1, 31), (1 << 30, 20), (3, 3)):
    name, bound = f"by {pair[0]} >> {pair[1]}", 1 << (pair[1] - 1)  # TOSA wants values below it
    limits = (-bound, bound - 1)
    SCALES.add(f"rescale int8 {name}", single("rescale", SHAPE, "int8", [pair]), limits if bound < 128 else None)
    SCALES.add(
        f"rescale int32 {name}",
        single("rescale", SHAPE, "int32", [pair], dtype="int32"),
        limits if bound < 1 << 31 else None,
    )


def narrowed(graph: Graph) -> Value:
    return graph.rescale(graph.input(SHAPE), 0.7, zero_in=4, zero_out=-8)


def absolute(dtype: str, zero_in: int, zero_out: int) -> Build:
    """ABS as ExecuTorch emits it: by way of int32."""

    def build(graph: Graph, rng: Rng) -> Value:
        wide = graph.rescale(graph.input(SHAPE, dtype), 1.0, zero_in=zero_in, dtype="int32")
        return graph.rescale(graph.unary("ABS", wide), 0.77, zero_out=zero_out, dtype=dtype)

    return build


SCALES.add_all({
    "rescale uint8 to int8": single(
        "rescale", SHAPE, "int8", 1.0, zero_in=-128, zero_out=0, unsigned=(True, False)
    ),
    "rescale int8 to uint8": single(
        "rescale", SHAPE, "int8", 0.9, zero_in=0, zero_out=-128, unsigned=(False, True)
    ),
    "rescale twice": lambda g, r: g.rescale(narrowed(g), 1.9, zero_in=-8, zero_out=30),
    "rescale, clamped": lambda g, r: g.clamp(narrowed(g), -8, 40),
    "int8 abs": absolute("int8", -17, -128),
    "int16 abs": absolute("int16", 0, 0),
})  # fmt: skip
for dtype in ("int8", "int16"):
    for shape in (SHAPE, (3, 5, 6, 20)):
        SCALES.add(f"clamp {dtype} of {shape[0]}", single("clamp", shape, dtype, -30, 99))
for dtype in ("int8", "int16", "int32"):
    within = (-(2**31) + 1, 2**31 - 1) if dtype == "int32" else None
    SCALES.add(f"{dtype} negate", single("negate", RAMP, dtype, (zero_of(dtype, 3), zero_of(dtype, -5))), within)
    SCALES.add(f"{dtype} identity", single("unary", SHAPE, dtype, before=["IDENTITY"]))
SCALES.add("int32 abs", lambda graph, rng: graph.unary("ABS", graph.input(SHAPE, "int32")), (-(2**31) + 1, 2**31 - 1))
SCALES.add(
    "int32 count of leading zeros",
    lambda graph, rng: graph.unary("CLZ", graph.input(SHAPE, "int32")),
    given=[lambda rng: [(rng.integers(-(2**31), 2**31, SHAPE) >> rng.integers(0, 31, SHAPE)).astype(np.int32)]],
)


def entries8(rng: Rng) -> Array:
    return rng.integers(-128, 128, 256)


SCALES.add_all({
    "table": lambda g, r: g.table(g.input((1, 5, 6, 19)), entries8(r)),
    "table with batch": lambda g, r: g.table(g.input((3, 5, 6, 19)), entries8(r)),
    "table of a transposed map": lambda g, r: g.table(
        g.transpose(g.input((1, 5, 6, 8)), (0, 3, 1, 2)), entries8(r)
    ),
})  # fmt: skip


@SCALES.program("tables, more than there are slots")
def _(graph: Graph, rng: Rng) -> Value:
    value = graph.input((1, 5, 6, 19))
    for _ in range(11):
        value = graph.table(value, rng.permutation(np.arange(-128, 128)))
        value = graph.max_pool(value, (2, 1), (1, 1), (1, 0, 0, 0))
    return value


@SCALES.program("table of a sum")
def _(graph: Graph, rng: Rng) -> Value:
    wide = [graph.rescale(graph.input(SHAPE), 2.0**20, zero_in=zero, dtype="int32") for zero in (1, -3)]
    return graph.table(graph.rescale(graph.binary("ADD", *wide), 0.6 / 2**20), entries8(rng))


def entries16(rng: Rng) -> Array:
    """513 entries of int16, neighbours at most 120 apart."""
    return np.cumsum(rng.integers(-120, 121, 513)).clip(-32768, 32767)


def steep(graph: Graph, rng: Rng) -> Value:
    entries = np.where(np.arange(513) % 2, -16384, 16383)
    return graph.rescale(graph.table(graph.input((1, 16, 16, 9), "int16"), entries), 1 / 128, dtype="int16")


def of_bytes(graph: Graph, rng: Rng) -> Value:
    wide = graph.rescale(graph.input((1, 5, 6, 9)), 250.0, zero_in=8, dtype="int16")
    return graph.rescale(graph.table(wide, entries16(rng)), 1 / 128 / 200)


def of_each(graph: Graph, rng: Rng) -> Value:
    found = graph.table(graph.input((1, 256, 256, 1), "int16"), entries16(rng))
    return graph.rescale(found, [multiplier_shift(1 / 128)], dtype="int16")


SCALES.add_all({
    "int16 table": of_bytes,
    "int16 table to int32": lambda g, r: g.table(g.input((1, 16, 16, 9), "int16"), entries16(r)),
    "int16 table, steep": steep,
})  # fmt: skip
EVERY16 = np.arange(-32768, 32768).reshape(1, 256, 256, 1).astype(np.int16)
SCALES.add("int16 table, every index", of_each, given=[lambda rng: [EVERY16]], kinds=())
