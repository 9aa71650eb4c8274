"""The error analysis is sound and tight: tosa_reference_model stays within the bounds, and comes near them.

They are recorded as numbers, too: one that is wider than it was lets a wrong answer pass, and no oracle sees it.
The programs have one operator, and are made without PyTorch in a millisecond each. Whole programs that were lowered are
in suites/tests/test_verify_against_pytorch.py.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.formats.tosa import TosaGraph, TosaTensor
from ethos_hil.lowering.oracle import reference
from ethos_hil.lowering.oracle.bounds import elementwise, graph, sums
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy, TosaOperation, of_constant
from ethos_hil.lowering.testing.programs.catalogue import OPERATORS as PROGRAMS
from ethos_hil.lowering.testing.tosa_graph import Graph, Value


@dataclass(frozen=True)
class Input:
    """An input tensor: its shape, and between which numbers it lies. Integers and truth values have no errors."""

    shape: tuple[int, ...]
    low: float = -4.0
    high: float = 4.0
    dtype: str = "float32"

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """float32, int32 or bool."""
        if self.dtype == "bool":
            return rng.random(self.shape) < 0.5
        if self.dtype == "int32":
            return rng.integers(int(self.low), int(self.high), self.shape).astype(np.int32)
        return rng.uniform(self.low, self.high, self.shape).astype(np.float32)


@dataclass(frozen=True, eq=False)
class OneOperator:
    """A program that is one operator, by TOSA's name, with its inputs, and what adds it to a graph with these."""

    op: str
    variables: tuple[Input, ...]
    build: Callable[..., Value] = field(repr=False)

    @cached_property
    def tosa(self) -> bytes:
        graph = Graph()
        return graph.output(self.build(graph, *(graph.input(i.shape, i.dtype) for i in self.variables))).serialize()


def _unary(op: str, low: float, high: float) -> OneOperator:
    return OneOperator(op, (Input(_S, low, high),), lambda g, x: g.unary(op, x))


def _binary(op: str, *inputs: Input) -> OneOperator:
    return OneOperator(op, inputs, lambda g, x, y: g.binary(op, x, y))


def _reduced(op: str, dtype: str = "float32") -> OneOperator:
    return OneOperator(op, (Input(_S, dtype=dtype),), lambda g, x: g.reduce(op.removeprefix("REDUCE_"), x, 1))


def _resize(mode: str) -> OneOperator:
    scale = (4, 3, 4, 2)
    return OneOperator("RESIZE", (Input((1, 4, 5, 2)),), lambda g, x: g.resize(x, mode, scale, (-1, 0), (2, 0)))


_S = (2, 3, 5)
_X, _TRUTH = Input(_S), Input(_S, dtype="bool")
_ONE = Input((1, 3, 1))
_MAP = Input((1, 6, 5, 3))
_WINDOW = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0, 0, 1)}
_UNARY = {
    "ABS": (-4, 4), "CEIL": (-4, 4), "COS": (-9, 9), "ERF": (-4, 4), "EXP": (-9, 9), "FLOOR": (-4, 4), "LOG": (1e-3, 9),
    "RECIPROCAL": (0.1, 9), "RSQRT": (0.01, 9), "SIGMOID": (-9, 9), "SIN": (-9, 9), "TANH": (-5, 5),
}  # fmt: skip
_BINARY = ("ADD", "SUB", "MAXIMUM", "MINIMUM", "EQUAL", "GREATER", "GREATER_EQUAL")
_WIDE = {"pad": (1, 1, 1, 1), "stride": (2, 1), "dilation": (1, 3)}
_PLACES = np.array([[3, 0], [1, 2]])

_TRUTHS = (_TRUTH, Input((1, 3, 1), dtype="bool"))

OPERATORS: tuple[OneOperator, ...] = (
    *(_unary(op, *limits) for op, limits in _UNARY.items()),
    *(_binary(op, _X, _ONE) for op in _BINARY),
    *(_binary(op, *_TRUTHS) for op in ("LOGICAL_AND", "LOGICAL_OR", "LOGICAL_XOR")),
    OneOperator("LOGICAL_NOT", (_TRUTH,), lambda g, x: g.unary("LOGICAL_NOT", x)),
    _unary("RECIPROCAL", -9, -0.1),
    _binary("MUL", _X, _ONE),
    _binary("POW", Input(_S, 0.05, 5), Input(_S, -2, 3)),
    OneOperator("NEGATE", (_X,), lambda g, x: g.negate(x)),
    OneOperator("SELECT", (_TRUTH, _X, _ONE), lambda g, *values: g.select(*values)),
    OneOperator("CAST", (Input(_S, -99, 99),), lambda g, x: g.cast(x, "int32")),
    OneOperator("CAST", (Input(_S, -99, 99, "int32"),), lambda g, x: g.cast(x, "float32")),
    OneOperator("CAST", (_TRUTH,), lambda g, x: g.cast(x, "int32")),
    OneOperator("CLAMP", (_X,), lambda g, x: g.clamp(x, -1.1, 2.3)),
    OneOperator("ARGMAX", (_X,), lambda g, x: g.argmax(x, 1)),
    *(_reduced(f"REDUCE_{name}") for name in ("SUM", "MAX", "MIN", "PRODUCT")),
    *(_reduced(f"REDUCE_{name}", "bool") for name in ("ANY", "ALL")),
    OneOperator("MATMUL", (Input((2, 3, 9)), Input((2, 9, 4))), lambda g, x, y: g.matmul(x, y)),
    OneOperator("CONV2D", (Input((2, 7, 6, 3)), Input((4, 3, 2, 3)), Input((4,))),
                lambda g, *values: g.conv(*values, **_WIDE)),
    OneOperator("DEPTHWISE_CONV2D", (Input((1, 6, 6, 3)), Input((3, 3, 3, 2)), Input((6,))),
                lambda g, *values: g.depthwise(*values, pad=(1, 1, 1, 1))),
    OneOperator("CONV3D", (Input((1, 4, 5, 5, 2)), Input((3, 2, 3, 3, 2)), Input((1,))),
                lambda g, *values: g.conv3d(*values)),
    OneOperator("TRANSPOSE_CONV2D", (Input((1, 3, 4, 2)), Input((3, 3, 2, 2)), Input((3,))),
                lambda g, *values: g.transpose_conv(*values, out_pad=(-1, 1, 1, -1))),
    OneOperator("AVG_POOL2D", (_MAP,), lambda g, x: g.average_pool(x, **_WINDOW)),
    OneOperator("MAX_POOL2D", (_MAP,), lambda g, x: g.max_pool(x, **_WINDOW)),
    _resize("BILINEAR"),
    _resize("NEAREST"),
    OneOperator("RESHAPE", (_X,), lambda g, x: g.reshape(x, (5, 6))),
    OneOperator("TRANSPOSE", (_X,), lambda g, x: g.transpose(x, (2, 0, 1))),
    OneOperator("REVERSE", (_X,), lambda g, x: g.reverse(x, 2)),
    OneOperator("CONCAT", (_X, Input((2, 1, 5))), lambda g, *values: g.concat(values, 1)),
    OneOperator("SLICE", (_X,), lambda g, x: g.slice(x, (0, 1, 2), (2, 2, 3))),
    OneOperator("TILE", (_X,), lambda g, x: g.tile(x, (1, 2, 3))),
    OneOperator("PAD", (_X,), lambda g, x: g.pad(x, (0, 1, 2, 0, 1, 1), 1.5)),
    _unary("IDENTITY", -4, 4),
    OneOperator("GATHER", (Input((2, 4, 3)), Input((2, 5), 0, 4, "int32")), lambda g, x, at: g.gather(x, at)),
    OneOperator("SCATTER", (Input((2, 4, 3)), Input((2, 2, 3))),
                lambda g, x, rows: g.scatter(x, g.const(_PLACES, "int32"), rows)),
)  # fmt: skip


EACH = pytest.mark.parametrize("program", OPERATORS, ids=[f"{one.op}-{at}" for at, one in enumerate(OPERATORS)])
SEEDS = range(3)
EXACT = RoundingPolicy()


def run(program: OneOperator, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """Return the answer of tosa_reference_model."""
    (output,) = reference.evaluate(program.tosa, inputs, program.op)
    return output


def evaluate(program: OneOperator, inputs: Sequence[Bounded], rounding: RoundingPolicy = EXACT) -> Bounded:
    (output,) = graph.evaluate(program.tosa, inputs, rounding)
    return output


def generator(program: OneOperator, seed: int) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(f"{program.op}/{seed}".encode()))


def distance(result: np.ndarray, bounded: Bounded) -> np.ndarray:
    assert result.shape == bounded.value.shape
    return np.abs(result.astype(float) - bounded.value.astype(float))


def moved(variable: Input, array: np.ndarray, rng: np.random.Generator, size: float) -> tuple[Bounded, np.ndarray]:
    """Return an input with error bounds, and another one within these. Some elements have no error."""
    error = size * rng.random(array.shape) * (rng.random(array.shape) < 0.7)
    if variable.dtype == "int32":
        return Bounded.exact(array, scaled=False), array
    if variable.dtype == "bool":
        either = (error > 0).astype(float)
        return Bounded(array, either), array ^ (either * rng.random(array.shape) > 0.5)
    other = (array + error * rng.uniform(-1, 1, array.shape)).astype(np.float32)
    value = array.astype(float)
    return Bounded(value, np.where(error > 0, np.maximum(error, np.abs(other - value)), 0.0)), other


@pytest.mark.parametrize("error", [0, 1, 2, 255])
def test_a_table_may_answer_for_every_number_that_its_input_may_be(error: int) -> None:
    """The table of 256 entries: exactly as far as the farthest of those entries is, and no farther."""
    rng = np.random.default_rng(error)
    entries, numbers = rng.integers(-128, 128, 256), np.arange(-128, 128)
    program = Graph()
    program.output(program.table(program.input((1, 256)), entries))
    source = Bounded(numbers.reshape(1, 256), np.full((1, 256), float(error)))
    (bounded,) = graph.evaluate(program.serialize(), [source], EXACT)
    assert bounded.value.ravel().tolist() == entries.tolist()
    reached = [[abs(entries[other] - entries[code]) for other in range(256) if abs(other - code) <= error]
               for code in range(256)]  # fmt: skip
    assert bounded.error.ravel().tolist() == [max(errors) for errors in reached]


def test_the_programs_cover_every_rule_that_floats_have() -> None:
    integers = {"CLZ", "INTDIV", "RESCALE", "TABLE"}
    integers |= {f"{kind}_SHIFT" for kind in ("ARITHMETIC_RIGHT", "LOGICAL_LEFT", "LOGICAL_RIGHT")}
    integers |= {name for name in graph.RULES if name.startswith("BITWISE")}
    assert {operator.op for operator in OPERATORS} == graph.RULES.keys() - integers
    assert len(graph.RULES) == sum(map(len, (graph.ARRANGING, elementwise.RULES, sums.RULES)))


@pytest.mark.parametrize("size", [0, 1e-3, 0.1])
@EACH
def test_the_reference_model_is_within_the_bound(program: OneOperator, size: float) -> None:
    """Whatever inputs within the bounds are given, its answer is within those of the output."""
    for seed in SEEDS:
        rng = generator(program, seed)
        drawn = [(variable, variable.draw(rng)) for variable in program.variables]
        pairs = [moved(*one, rng, size) if size else (Bounded.exact(one[1]), one[1]) for one in drawn]
        bounded = evaluate(program, [pair[0] for pair in pairs])
        apart = distance(run(program, [pair[1] for pair in pairs]), bounded)
        assert (apart <= bounded.error).all()
        if not size and program.op in graph.ARRANGING:
            assert not bounded.error.any()


@EACH
def test_roundings_that_are_drawn_keep_within_the_bound(program: OneOperator) -> None:
    rng = generator(program, 0)
    inputs = [Bounded.exact(variable.draw(rng)) for variable in program.variables]
    worst = evaluate(program, inputs)
    for seed in SEEDS:
        drawn = evaluate(program, inputs, RoundingPolicy(random=np.random.default_rng(seed)))
        assert drawn.is_exact
        assert (np.abs(drawn.value.astype(float) - worst.value) <= worst.error * 1.0001).all()


ROUND = (
    "ADD", "AVG_POOL2D", "CONV2D", "CONV3D", "COS", "DEPTHWISE_CONV2D", "ERF", "EXP", "LOG", "MATMUL", "MUL", "POW",
    "RECIPROCAL", "REDUCE_PRODUCT", "REDUCE_SUM", "RESIZE", "RSQRT", "SIGMOID", "SIN", "SUB", "TANH",
    "TRANSPOSE_CONV2D",
)  # fmt: skip


@pytest.mark.parametrize("program", [one for one in OPERATORS if one.op in ROUND], ids=lambda program: program.op)
def test_the_bound_is_not_far_from_what_is_seen(program: OneOperator) -> None:
    """A loose bound would hide mistakes. EXP and TANH have the loosest: 3 + 2|x| ulps, where the reference model has
    one.
    """
    bound, error = 0.0, 0.0
    for seed in range(8):
        rng = generator(program, seed)
        inputs = [variable.draw(rng) for variable in program.variables]
        bounded = evaluate(program, [Bounded.exact(array) for array in inputs])
        bound = max(bound, float(bounded.error.max()))
        error = max(error, float(distance(run(program, inputs), bounded).max()))
    assert error <= bound <= 150 * error
    if program.op in ("ADD", "SUB", "MUL"):
        assert bound <= 1.01 * error


@pytest.mark.parametrize("op", ["EXP", "MATMUL", "REDUCE_SUM", "ADD"])
def test_nothing_is_known_of_what_overflows_and_infinities_are_right(op: str) -> None:
    program = next(operator for operator in OPERATORS if operator.op == op)
    inputs = [np.full(variable.shape, 88.8 if op == "EXP" else 2e38, np.float32) for variable in program.variables]
    bounded = evaluate(program, [Bounded.exact(array) for array in inputs])
    assert np.isinf(bounded.error).all()
    assert np.isinf(run(program, inputs)).all()
    inputs = [np.full(variable.shape, np.inf, np.float32) for variable in program.variables]
    bounded = evaluate(program, [Bounded.exact(array) for array in inputs])
    np.testing.assert_array_equal(run(program, inputs), bounded.value)
    assert not bounded.error.any()


def test_nothing_is_known_beside_a_pole() -> None:
    program = next(operator for operator in OPERATORS if operator.op == "RECIPROCAL")
    x = np.full(program.variables[0].shape, 1e-3)
    assert np.isinf(evaluate(program, [Bounded(x, np.full(x.shape, 2e-3))]).error).all()
    assert np.isfinite(evaluate(program, [Bounded(x, np.full(x.shape, 5e-4))]).error).all()


def test_a_number_that_was_written_is_exact_and_another_was_rounded() -> None:
    numbers = np.array([0.0, 0.5, -6.0, 3.25, 1024.0, 0.1, 1 / 3, np.inf], np.float32)
    error = of_constant(numbers, "FP32", EXACT).error
    assert not error[[0, 1, 2, 3, 4, 7]].any()
    assert error[5] >= abs(0.1 - float(np.float32(0.1)))
    assert error[6] >= abs(1 / 3 - float(np.float32(1 / 3)))


@pytest.mark.parametrize("op", ["GATHER", "BITWISE_AND"])
def test_integers_that_may_differ_are_an_error_where_they_decide(op: str) -> None:
    tensor = TosaTensor("x", (1, 2), "INT32")
    operation = TosaOperation(op, None, (tensor,), tensor)
    values, unsure = Bounded.exact(np.zeros((1, 2), np.int32)), Bounded(np.zeros((1, 2), np.int64), np.ones((1, 2)))
    with pytest.raises(NoBound, match="may differ"):
        graph.RULES[op](operation, values, unsure)


def test_a_point_of_quantisation_is_in_doubt_only_beside_a_boundary() -> None:
    tensor = TosaTensor("x", (4,), "INT8")
    operation = TosaOperation("RESCALE", None, (tensor,), tensor)
    real = np.array([1.2, 2.4999, 2.5, 300.0])
    point = operation.snap(np.array([1, 2, 3, 127]), real, np.full(4, 1e-3), 0)
    assert point.error.tolist() == [0, 1, 1, 0]


def test_a_table_whose_last_entry_repeats_is_beyond_its_bound() -> None:
    """As ExecuTorch 1.4 wrote them: the top 128 codes of a steep function have one answer."""
    ends = np.arange(-256, 257) / 32
    right = np.rint(np.exp(ends - 8) * 32000)
    codes = np.arange(32640, 32768)
    exact = np.exp(codes / 4096 - 8) * 32000 * 128
    for table, holds in ((right, True), (np.append(right[:-1], right[-2]), False)):
        program = Graph()
        program.output(program.table(program.input((128,), "int16"), table.astype(int)))
        (bounded,) = graph.evaluate(program.serialize(), [Bounded(codes, np.zeros(128))], EXACT)
        assert bool((np.abs(bounded.value - exact) <= bounded.error).all()) is holds


@pytest.mark.parametrize(
    ("function", "vacuous"),
    [
        pytest.param(lambda x: 1 / x, 1, id="odd pole"),
        pytest.param(lambda x: 1 / x**2, 1, id="even pole"),
        pytest.param(lambda x: np.abs(x) * 50, 0, id="edge"),
        pytest.param(lambda x: np.floor(x / 8) * 20, 0, id="jumps"),
        pytest.param(lambda x: (x - np.floor(x / 64) * 64) * 50, 0, id="teeth"),
        pytest.param(lambda x: np.exp(-np.abs(x) / 30) * 30000, 0, id="cusp"),
    ],
)
@pytest.mark.parametrize("place", [0.02, 0.3, 0.503, 0.97])
def test_a_function_with_a_pole_may_answer_anything_in_its_step_and_nowhere_else(
    function: Callable[[np.ndarray], np.ndarray], vacuous: int, place: float
) -> None:
    """A pole, edge or jump is somewhere between two of 513 entries; all 65,536 inputs have answers within the bound.

    The table does not always say in which of three steps the pole is.
    """
    codes = np.arange(-32768, 32768)
    ends = np.arange(-256, 257) - place
    scale = 3000 if vacuous else 1
    program = Graph()
    entries = np.rint(np.clip(function(ends) * scale, -32768, 32767)).astype(int)
    program.output(program.table(program.input(codes.shape, "int16"), entries))
    (bounded,) = graph.evaluate(program.serialize(), [Bounded(codes, np.zeros(codes.size))], EXACT)
    exact = np.clip(function(codes / 128 - place) * scale, -32768, 32767) * 128
    assert (np.abs(bounded.value - exact) <= bounded.error).all()
    anything = np.count_nonzero(bounded.error >= 128 * 65535)
    assert 128 * vacuous <= anything <= 3 * 128 * vacuous


# --- The bounds as numbers: a few elements of each operator's are recorded, to four digits.

SHAPE = (1, 4, 4, 3)
_RNG = np.random.default_rng(7)
_BYTES = _RNG.integers(-128, 128, (4, 3, 3, 3))
_JUMPS = np.where(np.arange(-256, 257) < 40, 0, 9000) + (np.arange(-256, 257) ** 2 // 16)
INTEGERS: dict[str, tuple[str, Callable[[Graph, Value], Value]]] = {
    "rescale once": ("int32", lambda g, x: g.rescale(x, 0.0173, zero_out=5)),
    "rescale twice": ("int32", lambda g, x: g.rescale(x, [(1 << 30, 35)], zero_out=-3, double_round=True)),
    "rescale channels": ("int8", lambda g, x: g.rescale(x, [(1 << 30, 30), (3 << 28, 29), (1 << 30, 33)], zero_in=-7)),
    "rescale to int16": ("int32", lambda g, x: g.rescale(x, 1.7, dtype="int16")),
    "rescale to int32": ("int8", lambda g, x: g.rescale(x, 2.0**12, zero_in=3, dtype="int32")),
    "table of bytes": ("int8", lambda g, x: g.table(x, np.arange(-128, 128)[::-1])),
    "table with jumps": ("int16", lambda g, x: g.table(x, _JUMPS)),
    "convolution": ("int8", lambda g, x: g.conv(x, _BYTES, np.arange(4), zero=11, pad=(1, 1, 1, 1))),
    "convolution of int16": ("int16", lambda g, x: g.conv(x, _BYTES, np.arange(4))),
    "average": ("int8", lambda g, x: g.average_pool(x, (3, 2), zeros=(4, -2))),
    "largest": ("int8", lambda g, x: g.max_pool(x, (2, 2))),
    "clamp": ("int8", lambda g, x: g.clamp(x, -50, 70)),
    "sum": ("int32", lambda g, x: g.reduce("SUM", x, 2)),
    "product": ("int8", lambda g, x: g.binary("MUL", x, x)),
    "product of int32": ("int32", lambda g, x: g.binary("MUL", x, x, shift=4)),
    "difference": ("int32", lambda g, x: g.binary("SUB", g.reverse(x, 1), x)),
    "shift": ("int32", lambda g, x: g.binary("ARITHMETIC_RIGHT_SHIFT_ROUND", x, g.const(np.full(SHAPE, 2), "int32"))),
    "comparison": ("int32", lambda g, x: g.binary("GREATER", g.reverse(x, 1), x)),
    "argmax": ("int8", lambda g, x: g.argmax(x, 3)),
    "negation": ("int8", lambda g, x: g.negate(x, (3, -5))),
    "cast": ("int8", lambda g, x: g.cast(x, "int32")),
    "truth": ("int8", lambda g, x: g.cast(x, "bool")),
    "quotient": ("int32", lambda g, x: g.binary("INTDIV", x, g.const(np.full(SHAPE, -3), "int32"))),
}
"""Integer programs of one input, and its type."""
ENDS = np.array([0.0, 1e-30, -1e-30, 3e38, -3e38, np.inf, -np.inf, 0.25, -0.5, 1.0], np.float32)
"""Zero, tiny, almost too large, infinite, and what has exact answers."""


def uncertain(variable: Input, rng: np.random.Generator) -> Bounded:
    """Every other element has an error; integers have none."""
    array = variable.draw(rng)
    error = np.where(np.arange(array.size) % 2, 0.125, 0.0).reshape(array.shape)
    if variable.dtype == "int32":
        return Bounded.exact(array, scaled=False)
    return Bounded(array, np.ceil(error)) if variable.dtype == "bool" else Bounded(array.astype(float), error)


def extreme(variable: Input, rng: np.random.Generator) -> Bounded:
    if variable.dtype != "float32":
        return Bounded.exact(variable.draw(rng))
    return Bounded.exact(np.resize(np.roll(ENDS, -rng.integers(2)), variable.shape))


def spread(array: np.ndarray) -> str:
    """Return a few of the elements, from all over the array."""
    places = np.linspace(0, array.size - 1, 10).astype(int)
    return " ".join(f"{float(element):.4g}" for element in array.ravel()[places])


def said(tosa: bytes, inputs: Sequence[Bounded], rounding: RoundingPolicy = EXACT) -> str:
    try:
        (bounded,) = graph.evaluate(tosa, inputs, rounding)
    except NoBound as error:
        return str(error)
    return f"scaled {bounded.scaled}\n{spread(bounded.value)}\n{spread(bounded.error)}"


@EACH
def test_the_bounds_are_those_recorded(program: OneOperator, recorded: Recorded) -> None:
    lines = []
    kinds = ("exact", lambda variable, rng: Bounded.exact(variable.draw(rng)), 1), ("uncertain", uncertain, 2)
    for name, inputs_of, sides in (*kinds, ("extreme", extreme, 2)):
        rng = np.random.default_rng(zlib.crc32(program.op.encode()))
        inputs = [inputs_of(variable, rng) for variable in program.variables]
        text = said(program.tosa, inputs, RoundingPolicy(sides))
        lines.append(f"{name}, of {sides}: {text}".replace("\n", "\n  "))
    recorded.check("\n".join(lines))


@pytest.mark.parametrize("error", [0, 1, 40])
@pytest.mark.parametrize("name", INTEGERS)
def test_the_bounds_of_integers_are_those_recorded(name: str, error: int, recorded: Recorded) -> None:
    dtype, build = INTEGERS[name]
    program, rng = Graph(), np.random.default_rng(3)
    program.output(build(program, program.input(SHAPE, dtype)))
    most = {"int8": 128, "int16": 1 << 15, "int32": 1 << 12}[dtype]
    x = Bounded(rng.integers(-most, most, SHAPE), np.where(rng.random(SHAPE) < 0.5, float(error), 0.0))
    recorded.check(said(program.serialize(), [x]))


# --- Integers are computed as tosa_reference_model does, in every program of the conformance run of the NPU.

UNKNOWN = {
    "TOSA operator COND_IF has no rule for its error",
    "TOSA operator WHILE_LOOP has no rule for its error",
    "RESCALE of unsigned integers has no error bound",
    "ARITHMETIC_RIGHT_SHIFT of integers that may differ has no error bound",
    "is of a type that is not read here",  # weights of 4 bits
}
"""A program of profile BI has none of these."""


@pytest.mark.parametrize("part", range(4))
def test_integers_are_the_reference_models_own(part: int) -> None:
    compared, unknown = 0, set()
    for name in tuple(PROGRAMS)[part::4]:
        program = PROGRAMS[name]
        arrays = program.input_sets()[0][1]
        inputs = [Bounded.exact(array) for array in arrays]
        try:
            bounded = graph.evaluate(program.tosa, inputs, EXACT)
        except NoBound as error:
            (reason,) = (text for text in UNKNOWN if text in error.message)
            unknown.add(reason)
            continue
        for expected, bound in zip(reference.evaluate(program.tosa, arrays, name), bounded, strict=True):
            np.testing.assert_array_equal(bound.value, expected, name)
            compared += 1
        drawn = graph.evaluate(program.tosa, inputs, RoundingPolicy(random=np.random.default_rng(0)))
        for bound, other in zip(bounded, drawn, strict=True):
            assert (np.abs(other.value.astype(float) - bound.value) <= bound.error * (1 + 1e-6)).all(), name
    assert compared > 100


def test_every_operator_of_the_integer_profile_was_met() -> None:
    met = {operator.op for program in PROGRAMS.values() for operator in TosaGraph.parse(program.tosa).operators}
    floats = {"CEIL", "COS", "ERF", "EXP", "FLOOR", "LOG", "POW", "RECIPROCAL", "REDUCE_PRODUCT", "RSQRT", "SIGMOID"}
    assert graph.RULES.keys() - met == floats | {"SIN", "TANH"}
