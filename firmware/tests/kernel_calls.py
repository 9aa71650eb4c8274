"""The table of all kernels: calls in groups, a row each (kernel_cases.py says how a row is read), and their bounds.

Results have the host's bits, as far as that adds in one order and its functions are exact. Its kernels of sum (over
one dimension), mm, bmm and linear are optimised ones: they add in another order than the portable ones for devices.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from kernel_cases import (
    ALL,
    CONTIGUOUS,
    FLOATS,
    OWN,
    REAL,
    TORCH,
    WHOLE,
    Bound,
    Case,
    Row,
    V,
    W,
    X,
    Y,
    Z,
    row,
    values,
)  # fmt: skip

SMALL = 2.0**-24


def units(number: float) -> Bound:
    """Allow `number` units in the last place of the host's result."""
    return lambda expected, case: number * np.spacing(np.abs(expected)).astype(np.float64)


def any_order(terms: int) -> Bound:
    """Allow another order of adding `terms` products.

    In any order, a float sum of n terms is off by at most (n - 1) * 2^-24 times the sum of magnitudes, to first order
    (Higham, Accuracy and Stability of Numerical Algorithms, 4.2); two such sums differ by at most twice that.
    """

    def bound(expected: Any, case: Case) -> Any:
        magnitudes = case.call(*(value.abs() for value in case.inputs)).numpy().astype(np.float64)
        return 2 * terms * SMALL * magnitudes + 1e-38

    return bound


def zeros(expected: Any, case: Case) -> Any:
    """Allow 0.0 in place of -0.0, and nothing else: on the host, the place in a vector decides which is larger."""
    return 0.0


def statistics(expected: Any, case: Case) -> Any:
    """Mean and scale are rounded once; torch's sums are of floats, n of them in another order."""
    return 2 * 60 * SMALL * (np.abs(expected) + 4)


def gelu(roundings: float) -> Bound:
    """The firmware computes the exact one in double, as the portable kernel; the host in float.

    In float, erf(x) is off by 1 unit of at most 2^-24, by half of one for the rounding of its argument, and 1 + erf(x)
    is rounded by at most 2^-24; that times x / 2, and two more roundings of the result. With tanh, both compute in
    float. Its argument t is off by 4 roundings, which move tanh(t) by at most 4 * 2^-24 * t / cosh(t)^2 < 1.8 * 2^-24;
    newlib and glibc are off by 2.1 units: together less than 8 * 2^-24 for the two.
    """
    return lambda expected, case: (
        roundings * SMALL * 0.5 * np.abs(case.inputs[0].numpy().astype(np.float64)) + units(2)(expected, case)
    )


def softmax(expected: Any, case: Case) -> Any:
    """Return a relative bound: 1 unit for every exponential, n roundings for their sum, one for the quotient; twice."""
    return 2 * (max(case.inputs[0].shape) + 3) * 2 * SMALL * expected.astype(np.float64) + 2.0**-149


def log_softmax(expected: Any, case: Case) -> Any:
    """Return an absolute bound: the sum's relative error is absolute in its logarithm; 1 unit for that; the
    differences.
    """
    size = max(case.inputs[0].shape)
    return 2 * (size + 2) * 2 * SMALL + 2 * np.spacing(np.float32(math.log(size))) + 4 * np.spacing(np.abs(expected))


# Units in the last place. All are computed in double and rounded once (firmware/runtime/kernels/rounded.h): half a
# unit, and what newlib's functions of doubles are off by, less than 2^-20 of a unit.
ROUNDED = 0.5 + 2.0**-20
FUNCTIONS = "exp log log2 log10 sin cos tanh erf"
SHAPES = (
    "3,5,7 | 3,5,7; 3,5,7 | 7; 5,1 | 3,1,9; 4,1,5 | 3,1; () | 2,3; 2,3 | (); () | (); 1 | 13; 0,3 | 1,3;"
    "2,3,4,5 last | 2,3,4,5 last"
)
"""Two operands in every way that broadcasts differently, of rank 0 and odd sizes, and in channels_last."""
LAYOUTS = "(); 3,0; 2,3,4,5 last"
COMPARISONS = "eq ne lt le gt ge"
QUANTIZED = [
    (torch.int8, 0.25, 0, -128, 127),
    (torch.int8, 0.037, -3, -127, 127),
    (torch.uint8, 0.0211, 131, 0, 255),
    (torch.uint8, 1.5, 0, 3, 200),
    (torch.int16, 3.1e-4, 0, -32768, 32767),
    (torch.int16, 0.5, 1000, -32767, 32767),
    (torch.int32, 1e-3, 17, -(2**31), 2**31 - 1),
    (torch.int32, 7e-9, -(2**24) - 1, -(2**31), 2**31 - 1),
]
TWO, SORTED = units(2), f"{WHOLE} float16 float32 float64"
BARE = (X, None, None, Y, Z, 0.1)
AFFINE = "2,4,5,6 wide | 4 plain | 4 plain"
STATISTICS = "| 9 plain | 9 variance | 9 plain | 9 plain"
RESIZED = (([10, 7], None), (None, [1.7, 0.6]), ([3, 21], None), ([1, 1], None))
MODES, DIVIDED = ("trunc", "floor"), "uint8 int8 int16 int32 float32"
CHANNELS_LAST, CONVERT = torch.channels_last, "dim_order_ops::_to_dim_order_copy.out"
QUANTIZE = "quantized_decomposed::quantize_per_tensor.default"
DEQUANTIZE = "quantized_decomposed::dequantize_per_tensor.default"
CHANNELS = "quantized_decomposed::dequantize_per_channel.default"
ADAPTIVE = "adaptive_max_pool2d.default"
NORM, NO_STATISTICS = "_native_batch_norm_legit_no_training.default", "_native_batch_norm_legit.no_stats"


def mixed(types: str, operand: str) -> str:
    """Return pairs of operands of different types."""
    pairs = itertools.permutations(types.split(), 2)
    return ";".join(f"{left} {operand} | {right} {operand}" for left, right in pairs)


TIES = ((1, True), (-1, False))


def sort(x: Any, dimension: int, descending: bool) -> Any:
    """The firmware's is stable; the operator leaves the order of equal elements open."""
    if torch.compiler.is_exporting():
        return torch.ops.aten.sort.default(x, dimension, descending)
    return torch.sort(x, dim=dimension, descending=descending, stable=True)


def topk(x: Any, k: int, dimension: int, largest: bool) -> Any:
    """The first of `sort`."""
    if torch.compiler.is_exporting():
        return torch.ops.aten.topk.default(x, k, dimension, largest)
    return [part.narrow(dimension, 0, k) for part in sort(x, dimension, largest)]


def converted(source: str, target: str) -> Row:
    """Values beyond the range of an integer type are left out: upstream's result is undefined."""
    kind, numbers = getattr(torch, target), values(source, 41)
    if source in FLOATS and target not in FLOATS:
        low, high = (0, 1) if target == "bool" else (torch.iinfo(kind).min, torch.iinfo(kind).max)
        numbers = torch.nan_to_num(numbers, 0.0).double().clamp(max(low, -3e4), min(high, 3e4)).to(numbers.dtype)
    return lambda: iter([Case(CONVERT, lambda x: x.to(kind), (numbers,))])


GROUPS: dict[str, tuple[Row, ...]] = {
    "copies": (
        row("alias_copy detach_copy.default", "out", ALL, "2,3"),
        row("copy.default", "out", "int8", "2,3 | 3"),
        row("squeeze_copy.dim", "dim_out", "", "float32 2,1,3; int64 2,3", 1),
        row("squeeze_copy.dims", "dims_out", "float32", "3,1,5 odd", [1, 0]),
        *(row("unsqueeze_copy.default", "out", "float32", "3,1,5 odd", dimension) for dimension in (2, -1, -4)),
    ),
    "rearrangements": (
        row("permute.default", "permute_copy.out", ALL, "2,3,5", [2, 0, 1]),
        row("permute.default", "permute_copy.out", "int8", "2,3,1,4,5,2", [5, -2, 0, 3, 1, 2]),
        row("permute.default", "permute_copy.out", "int64", "()", []),
        row("transpose_copy.int", "int_out", "bool uint8 int8 float32", "4,3,2", 0, -1),
        row("expand.default", "expand_copy.out", "bool uint8 int8 int16 int32", "3,1", [2, 3, 4]),
        row("expand.default", "expand_copy.out", "int64", "()", [2, 2]),
        row("expand.default", "expand_copy.out", "int16", "1,5,1", [-1, -1, 6]),
        *(
            row("slice_copy.Tensor", "Tensor_out", types, sizes, dimension, *places)
            for places in ((1, 4, 1), (None, -2, 1), (-3, None, 2), (0, 2**63 - 1, 3), (4, 2, 1), (-99, 99, 5))
            for types, sizes, dimension in (("float32", "3,4,5", -1), (f"bool {WHOLE}", "7", 0))
        ),
        row("select_copy.int", "int_out", ALL, "3,2,2", 0, -1),
        row("select_copy.int", "int_out", "uint8", "3", 0, 2),
        row("flip.default", "out", ALL, "2,3,3", [0, -1]),
        row("repeat.default", "out", ALL, "2,1,3", [2, 1, 3]),
        row("repeat.default", "out", "int32", "2,3", [2, 1, 3]),
        row("unfold_copy.default", "out", "float32", "3,4,5", 2, 3, 2),
        row("unfold_copy.default", "out", "int8", "9", 0, 4, 1),
        row("as_strided_copy.default", "out", ALL, "60", [3, 2, 4], [1, 7, 3], 5),
        row("roll.default", "out", ALL, "3,4,5", [2, -1], [0, 2]),
        row("roll.default", "out", "float32", "3,4,5", [0, 9], [1, 1]),
        row("constant_pad_nd.default", "out", REAL, "2,3,4", [1, 2, 0, 3], 3),
        row("constant_pad_nd.default", "out", "float32", "3,4,5", [1, 2, 1, 0, 2, 0], -0.5),
    ),
    "joins and splits": (
        row("cat.default", "out", ALL, "2,3,4 | 2,1,4 | 2,5,4", [X, Y, Z], -2),
        row("cat.default", "out", "", "int32 5 | int64 6; float32 0 | float32 3,2", [X, Y]),
        row("split_with_sizes_copy.default", "out", "int8", "2,9", [4, 0, 5], -1),
    ),
    "conversions": (
        *itertools.starmap(converted, itertools.permutations(ALL.split(), 2)),
        *(
            row(lambda x, kind=kind: x.to(kind).to(memory_format=CHANNELS_LAST), CONVERT, "int64", "2,3,4,5 hundred")
            for kind in (torch.int32, torch.float32, torch.int8)
        ),
        row(lambda x: x.to(memory_format=CHANNELS_LAST), CONVERT, "float32 int16", "2,3,5,7"),
        row(lambda x: x.to(memory_format=torch.contiguous_format), CONVERT, "float32", "2,3,5,7 last"),
        row(lambda x: x.reshape(3, -1), "view_copy.out", "float32", "2,3,5,7"),
        row(QUANTIZE, "out", "float32", "2,3,5,7 plain last", 0.1, 2, -128, 127, torch.int8),
    ),
    "quantised by tensor": (
        *(row(QUANTIZE, "out", "float32", "1000 awkward", *numbers, kind) for kind, *numbers in QUANTIZED),
        *(row(DEQUANTIZE, "out", str(kind)[6:], "1000", *numbers, kind) for kind, *numbers in QUANTIZED),
        row(DEQUANTIZE, "out", "", "@codes", 1.3e-41, 3, -128, 127, torch.int8),  # subnormal results
    ),
    "quantised by channel": tuple(
        row(CHANNELS, "out", dtype, f"{sizes} | @scales | @{points}", axis, low, high, OWN)
        for dtype, kind, points, low, high in (
            ("int8", "", "points", -127, 127),
            ("uint8", "", "zeros", 0, 255),
            ("int16", "", "points", -32768, 32767),
            ("int32", " small", "zeros", -(2**31), 2**31 - 1),
        )
        for axis, sizes in ((0, f"4,3,5{kind}"), (1, f"2,4,3,3{kind}"), (-1, f"3,4{kind}"), (0, f"4{kind}"))
    ),
    "fillings": (
        *(row("full.default", "out", "", "", [2, 3], 1, dtype=getattr(torch, name)) for name in ALL.split()),
        row("full_like.default", "out", ALL, "3,2", 1),
        row("fill.Scalar", "Scalar_out", ALL, "3,2", 0),
        row("scalar_tensor.default", "out", "", "", 2.7, dtype=torch.int32),
        row("scalar_tensor.default", "out", "", "", -7, dtype=torch.float16),
        row("full.default", "out", "", "", [], float("-inf")),
        row("zeros.default", "out", "", "", [4, 0, 2]),
        row("zeros.default", "out", "", "", [4, 2], dtype=torch.int8),
        row("ones.default", "out", "", "", [3], dtype=torch.bool),
        row("arange.default", "out", "", "", 7),
        row("arange.start_step", "start_out", "", "", -3, 20, 4),
        row("arange.start_step", "start_out", "", "", 1.5, -2.0, -0.3),
    ),
    "picks": (
        row("index_put.default", "out", ALL, "3,4,2 | 3,1,2 | @three", X, [Z], Y),
        row("index_put.default", "out", ALL, "3,4,2 | 3,1,2 | @three", X, [Z], Y, True),
        row("index_select.default", "out", ALL, "2,3,4 | @three", X, 1, Y),
        row("embedding.default", "out", ALL, "5,7 | @places"),
        row("index.Tensor", "Tensor_out", ALL, "2,3,4 | @grid", X, [None, Y]),
        row("index_select.default", "out", "float32", "6 | @three32", X, 0, Y),
        row("index.Tensor", "Tensor_out", "float32", "4,3 | @three", X, [Y]),
        row("index.Tensor", "Tensor_out", "int8", "3,3,4 | @grid | @column", X, [Y, Z]),
        row("index.Tensor", "Tensor_out", "int64", "3,2,3,5 | @grid | @column", X, [Y, None, Z]),
        row("index.Tensor", "Tensor_out", "float32", "2,3,3,2 | @grid | @three", X, [None, Y, Z]),
        row("index_put.default", "out", "int8", "2,3,4 | 2,2,3,4 | @grid", X, [None, Z], Y),
        row("index_put.default", "out", "float32", "3,3,4 | 4 | @grid | @column", X, [Z, V], Y, True),
        row("index_put.default", "out", "int64", "3,2,3,5 | 2,3,2,1 | @grid | @column", X, [Z, None, V], Y),
        row("index_put.default", "out", "float32", "2,3,3,2 | 2,3,2 | @grid | @three", X, [None, Z, V], Y),
        row("index_put.default", "out", "float32", "4,3 | 1 | @three32", X, [Z], Y),
        row("gather.default", "out", "float32", "2,4,3 | @bits", X, 0, Y),
        row("gather.default", "out", "int16", "2,4,3 | @bits", X, -1, Y),
        row("scatter.src", "src_out", ALL, "2,4,3 | 2,3,2 | @bits", X, 0, Z, Y),
        row("scatter_add.default", "out", REAL, "2,4,3 | 2,3,2 | @bits", X, -1, Z, Y),
        row("scatter.value", "value_out", ALL, "2,4,3 | @bits", X, 1, Y, True),
    ),
    "arithmetic": (
        # Types mix only where to_edge lets them; it puts conversions before add, sub, mul, div and minimum.
        row("maximum.default", "out", "", mixed(ALL, "23")),
        row("add sub.Tensor", "out", "float32 int8", SHAPES),
        row("add sub.Tensor", "out", REAL, "37 | 37"),
        row("add sub.Tensor", "out", WHOLE, "37 | 37", alpha=3),
        row("add sub.Tensor", "out", "float32 float16", "37 | 37", alpha=0.3),
        row("add sub.Scalar", "Scalar_out", REAL, "61", 7),
        row("add sub.Scalar", "Scalar_out", "float32 float16 float64", "61", 0.3, 2),
        row("mul.Tensor", "out", "float32", SHAPES),
        row("mul.Tensor", "out", ALL, "37 | 37"),
        row("mul.Scalar", "Scalar_out", REAL, "61", 3),
        row("mul.Scalar", "Scalar_out", "int32 float32 bfloat16", "61", 0.7),
        row("maximum minimum.default", "out", "float32", SHAPES),
        row("maximum minimum.default", "out", ALL, "37 | 37"),
        row("div.Tensor", "out", "float32", SHAPES.split("; ()")[0] + ";2,3,4,5 last | 2,3,4,5 last"),
        row("div.Tensor", "out", FLOATS, "37 | 37"),
        *(row("div.Tensor_mode", "out_mode", WHOLE, "37 | 37 divisor", rounding_mode=mode) for mode in MODES),
        *(row("div.Tensor_mode", "out_mode", "float32", "37 | 37", rounding_mode=mode) for mode in MODES),
        *(row("div.Scalar_mode", "Scalar_mode_out", DIVIDED, "61", -3, rounding_mode=mode) for mode in MODES),
        row("remainder.Tensor", "Tensor_out", WHOLE, "37 | 37 divisor"),
        row("remainder.Scalar", "Scalar_out", "int8 int64 float32", "61", 5),
        row("fmod.Tensor", "Tensor_out", "int8 int32", "37 | 37 divisor"),
        row("remainder fmod.Tensor", "Tensor_out", "float32 float64", "37 | 37"),
        row("fmod.Scalar", "Scalar_out", "float32", "61", 0.7),
    ),
    "comparisons": (
        row(f"{COMPARISONS}.Tensor", "Tensor_out", "float32", SHAPES),
        row(f"{COMPARISONS}.Tensor", "Tensor_out", ALL, "37 few | 37 few"),
        row(f"{COMPARISONS}.Tensor", "Tensor_out", "", mixed("int8 int64 float32 float64", "23 few")),
        row(f"{COMPARISONS}.Scalar", "Scalar_out", REAL, "61 few", 1),
        row(f"{COMPARISONS}.Scalar", "Scalar_out", "int32 float32", "61 few", 0.5),
        row("logical_and logical_or logical_xor.default", "out", "bool", SHAPES.replace("| ", "| float32 ")),
        row("logical_and logical_or logical_xor.default", "out", "", mixed("int64 bool float16", "23")),
        row("bitwise_and bitwise_or bitwise_xor.Tensor", "Tensor_out", "int32", SHAPES.replace("| ", "| uint8 ")),
        row("bitwise_and bitwise_or bitwise_xor.Tensor", "Tensor_out", f"bool {WHOLE}", "37 | 37"),
        row("bitwise_and bitwise_or bitwise_xor.Scalar", "Scalar_out", WHOLE, "61", 0x55),
        row("logical_not.default", "out", ALL, "61"),
        row("logical_not.default", "out", "float32", LAYOUTS),
        row("isnan isinf.default", "out", REAL, "61"),
        row("bitwise_not.default", "out", f"bool {WHOLE}", "61"),
        row("bitwise_not.default", "out", "int16", LAYOUTS),
    ),
    "choices and limits": (
        row("where.self", "self_out", ALL, "bool 37 | 37 | 37", bound=zeros),
        row("where.self", "self_out", "float32", "bool 37 | 37 | float16 37", bound=zeros),
        row("where.self", "self_out", "float32", "bool 3,1,7 | 3,5,7 | 3,5,7; bool 3,1,7 | 3,5,7 | 7", bound=zeros),
        row("where.self", "self_out", "int64", "bool () | () | 2,3", bound=zeros),
        *(
            row("clamp.default", "out", types, operands, low, high, bound=zeros)
            for low, high in ((-1, 2), (None, 5), (0, None), (3, 1))
            for types, operands in ((REAL.removeprefix("uint8 "), "61"), ("float32", LAYOUTS))
        ),
        row("clamp.default", "out", "float32 float16 int8 bfloat16", "61", -0.5, 6.5, bound=zeros),
        row("clamp.Tensor", "Tensor_out", "float32", "5,7 | 7 | 5,1", bound=zeros),
        row("hardtanh.default", "out", FLOATS, "61", -0.25, 6.0, bound=zeros),
        row("hardtanh.default", "out", "int8 int64", "61", -3, 3, bound=zeros),
        row("leaky_relu.default", "out", FLOATS, "61", 0.3, bound=zeros),
    ),
    "exact functions": (
        row("abs neg relu sign.default", "out", REAL, "61"),
        row("abs neg relu sign.default", "out", "float32", LAYOUTS),
        row("ceil floor trunc round.default", "out", FLOATS, "61"),
        row("ceil floor trunc round.default", "out", "float32 float64 float16", "80 ties"),
        row("round.default", "out", WHOLE, "61"),
        row("sqrt rsqrt reciprocal.default", "out", ALL, "61"),
        row("ceil floor trunc round sqrt rsqrt reciprocal.default", "out", "float32", LAYOUTS),
    ),
    # The host's libm is off by up to one unit, and some of the host's kernels are vectorised with another one, so equal
    # results are not expected: glibc and SLEEF stay within 1 unit, and glibc's log10 within 2.
    "functions": (row(f"{FUNCTIONS}.default", "out", "float32", "2000 curve", bound=units(ROUNDED + 2)),),
    "functions of other types": (
        row("exp log sigmoid tanh erf sin.default", "out", "float16", "60 curve", bound=TWO),
        row("exp log sigmoid tanh erf sin.default", "out", "", "int32 40 hundred; bool 5", bound=TWO),
        row("exp log sigmoid tanh erf sin.default", "out", "float32", "(); 2,3,4,5 last", bound=TWO),
        # What a sigmoid is made of overflows where it is less than 2^-128: the host's does not do so at another place.
        row("sigmoid.default", "out", "float32", "60 tame", bound=TWO),
        # The host's pow is off by up to 1 unit.
        row("pow.Tensor_Tensor", "Tensor_Tensor_out", "float32", "200 positive | 200 near; 30 | @exponents", bound=TWO),
        row("pow.Tensor_Scalar", "Tensor_Scalar_out", "float32 float16", "90", 2, bound=TWO),
        row("pow.Tensor_Scalar", "Tensor_Scalar_out", "float32", "200 positive", 0.4, bound=TWO),
        row("atan2.default", "out", "float32", "7,9 | 9; 7,9 steep | 7,1", bound=TWO),
        row("atan2.default", "out", "", "int32 9 hundred | float32 9", bound=TWO),
        row("pow.Scalar", "Scalar_out", "float32", "200", 1.7, X, bound=TWO),
        # The host multiplies by the inverse, three roundings instead of one, under 2 units.
        row("div.Scalar", "Scalar_out", "float32", "100 large; 4,25 large", 3, bound=TWO),
        row("div.Tensor", "out", "float32", "100 large | 1 count; 100 large | () count", bound=TWO),
        # Of -inf the optimised kernel makes NaN, the portable one 0.
        row("gelu.default", "out", "float32", "200 defined", bound=gelu(3)),
        row("gelu.default", "out", "float32", "200 bounded", bound=gelu(8), approximate="tanh"),
        row("_softmax.default", "out", "float32", "@slopes; 3,9,9 plain", -1, False, bound=softmax),
        row("_softmax.default", "out", "float32", "3,9,9 plain", 1, False, bound=softmax),
        row("_log_softmax.default", "out", "float32", "@gentle; 3,9,9 plain", -1, False, bound=log_softmax),
        row("_log_softmax.default", "out", "float32", "3,9,9 plain", 1, False, bound=log_softmax),
    ),
    "sums": (
        row("sum.dim_IntList", "IntList_out", ALL, "3,5,4", [0, 2], False, dtype=OWN),
        row("sum.dim_IntList", "IntList_out", ALL, "3,5,4", None, True, dtype=torch.float32),
        row("mean.dim", "out", ALL, "3,5,4", [0, -1], True, dtype=torch.float32),
        # Numbers whose sums a float holds: the host adds up integers of the output's type as floats.
        row("sum.dim_IntList", "IntList_out", WHOLE, "4,6 hundred", [1], dtype=OWN),
        row("mean.dim", "out", FLOATS, "3,5,4", [1, 2]),
        row("mean.dim", "out", FLOATS, "3,9", [-1]),
        row("mean.default", "dtype_out", FLOATS, "3,5"),
        row("sum.dim_IntList", "IntList_out", "float32", "()", None),
        row("sum.dim_IntList", "IntList_out", "float32", "3,0", [1]),
        row("sum.dim_IntList", "IntList_out", "float32", "3,77 plain; 2,33,5 plain", [1], bound=any_order(77)),
        *(
            row("mean.dim", "out", "float32", "3,5,17,23 seldom", dimensions, keep)
            for dimensions in ([-1], [2, 3], [1], [3, 0], [0], [1, -1])
            for keep in (False, True)
        ),
        row("mean.dim", "out", "float32", "3,5,17,23 seldom", []),
    ),
    "extremes": (
        row("amax amin.default", "out", ALL, "3,5,4 few", [1]),
        row("amax amin.default", "out", ALL, "3,5,4 few", [0, 2], True),
        row("amax amin.default", "out", ALL, "9", []),
        row("max.dim", "dim_max", ALL, "3,5,4 few", 1, True),
        row("min.dim", "dim_min", ALL, "3,5,4 few", 1, True),
        row("max min.default", "unary_out", ALL, "2,5"),
        row("prod.dim_int", "int_out", f"{WHOLE} float32 float64", "3,5,4", 1, dtype=OWN),
        row("prod.default", "out", f"{WHOLE} float32 float64", "7", dtype=OWN),
        row("argmax argmin.default", "out", REAL, "3,5,4 few", 1),
        row("argmax argmin.default", "out", REAL, "3,5,4 few"),
        row("argmax argmin.default", "out", REAL, "41", 0, True),
        row("any.dim", "out", ALL, "3,2 few", 1),
        row("any.default", "all_out", ALL, "3,2 few"),
        row("any.dims", "dims_out", ALL, "3,2,2 few", [0, 1], True),
        row("cumsum.default", "out", REAL, "3,5,4 few", 1),
        row("argmax.default", "out", "float32", "()", 0),
        row("cumsum.default", "out", "float32 float64", "3,20 plain", -1),
        row("topk.default", "values", f"int8 int32 int64 {FLOATS}", "4,10,3 distinct", 4, 1),
        row("topk.default", "values", f"int8 int32 int64 {FLOATS}", "90 distinct", 7, -1, False),
        row("topk.default", "values", "float32", "()", 1),
    ),
    "products of matrices": (
        row("mm.default", "out", WHOLE.removeprefix("uint8 "), "3,5 | 5,4"),
        row("addmm.default", "out", WHOLE.removeprefix("uint8 "), "4 | 3,5 | 5,4", beta=2, alpha=3),
        *(
            row("addmm.default", "out", "float32", f"{sizes} plain | 5,17 plain | 17,6 plain", beta=0.3, alpha=0.7)
            for sizes in ("6", "5,6", "5,1")
        ),
        row("mm.default", "out", "float32", "5,33 plain | 33,7 plain; 1,1 plain | 1,1 plain", bound=any_order(35)),
        row("bmm.default", "out", "float32", "3,5,33 plain | 3,33,7 plain", bound=any_order(35)),
        row("linear.default", "out", "float32", "2,3,19 plain | 8,19 plain | 8 plain", bound=any_order(21)),
        row("linear.default", "out", "float32", "2,3,19 plain | 8,19 plain", bound=any_order(21)),
    ),
    "convolutions": tuple(
        row("convolution.default", "out", "float32", operands, X, Y, Z if operands.count("|") == 2 else None, *numbers)
        for operands, *numbers in (
            ("2,4,9,7 plain | 6,4,3,2 plain | 6 plain", [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
            ("2,4,9,7 plain | 6,2,1,3 plain | 6 plain", [1], [0], [1], False, [0], 2),
            ("2,4,9,7 plain | 4,1,3,3 plain", [1, 1], [2, 2], [2, 2], False, [0, 0], 4),
            ("2,4,9,7 plain last | 5,4,3,3 plain | 5 plain", [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
            ("2,3,11 plain | 4,3,5 plain | 4 plain", [2], [2], [1], False, [0], 1),
            ("2,4,9,7 plain | 4,3,3,2 plain | 3 plain", [2, 3], [1, 0], [1, 2], True, [1, 2], 1),
            ("2,4,9,7 plain | 4,2,2,2 plain", [2, 2], [0, 0], [1, 1], True, [0, 0], 2),
            ("1,3,6 plain | 3,2,4 plain | 2 plain", [2], [1], [1], True, [1], 1),
        )
    ),
    "norms and resizing": (
        *(
            row("grid_sampler_2d.default", "out", "float32", "2,3,5,6 plain | 2,4,7,2 wide", X, Y, *how)
            for how in itertools.product((0, 1), (0, 1, 2), (False, True))
        ),
        row("native_layer_norm.default", "out", "float32", "3,5,4 plain", [5, 4], None, None, 1e-5),
        row("native_layer_norm.default", "out", "float32", "7,33 plain | 33 plain | 33 plain", X, [33], Y, Z, 1e-3),
        *(row("upsample_nearest2d.vec", "vec_out", "float32", "2,3,5,7 plain", *resized) for resized in RESIZED),
        *(row("upsample_nearest2d.vec", "vec_out", "int8", "1,2,4,3", *resized) for resized in RESIZED),
        *(
            row("_adaptive_avg_pool2d.default", "out", "float32", "2,3,5,7 plain; 3,8,9 plain", size)
            for size in ([1, 1], [2, 3], [5, 7], [7, 10])
        ),
        *(
            row("upsample_bilinear2d.vec", "vec_out", "float32", "2,3,5,7 rare; 1,2,5,3 even", size, corners, factors)
            for size, corners, factors in (
                *((size, corners, factors) for size, factors in RESIZED for corners in (False, True)),
                (None, False, [2.0, 2.0]),
                ([9, 7], True, None),
                ([5, 7], False, None),
            )
        ),
        *(
            row(NORM, "out", "float32", f"{sizes} odd {STATISTICS.replace('9', of)}", X, V, W, Y, Z, 0.1, eps)
            for sizes, of, eps in (("7,60", "60", 1e-5), ("3,9,7,5", "9", 1e-3), ("1,9,1,1", "9", 1e-3))
        ),
        row(NORM, "out", "float32", "3,60,17 odd | 60 plain | 60 variance", *BARE, 0.3),
    ),
    "pools": (
        *(
            row("avg_pool2d.default", "out", "float32", "2,3,9,11 rare; 5,14,13 rare", *numbers)
            for numbers in (
                ([4, 4], [4, 4], [0, 0], False, True),
                ([2, 7], [5, 3], [0, 0], False, True),
                ([1, 1], [1, 1], [0, 0], False, True),
                ([3, 3], [2, 2], [1, 1], False, True),
                ([3, 3], [2, 2], [1, 1], True, True),
                ([5, 4], [4, 4], [2, 1], True, False),
                ([5, 5], [4, 4], [2, 2], False, False),
                ([3, 3], [3, 3], [0, 0], False, True, 7),
                ([3, 3], [3, 3], [1, 1], True, True, -2),
                ([9, 11], [9, 11], [0, 0], False, True),
            )
        ),
        *(
            row(
                "max_pool2d_with_indices.default", "out", "",
                "float32 2,3,9,11 odd; float32 4,13,10 odd; int8 2,3,9,11; int8 4,13,10 few", *numbers,
            )
            for numbers in (
                ([4, 4], [4, 4], [0, 0], [1, 1], False),
                ([2, 5], [4, 3], [0, 0], [1, 1], False),
                ([1, 1], [1, 1], [0, 0], [1, 1], False),
                ([3, 3], [2, 2], [1, 1], [1, 1], True),
                ([3, 2], [1, 1], [1, 0], [2, 3], False),
                ([3, 3], [4, 4], [1, 1], [2, 2], True),
                ([5, 5], [4, 4], [2, 2], [1, 1], False),
                ([3, 4], [2, 5], [1, 1], [1, 1], True),
            )
        ),
    ),
    "layouts that the host refuses or mistakes": (
        row(lambda x: x.to(memory_format=torch.contiguous_format), CONVERT, "float32", "2,3,5,7 last", by=CONTIGUOUS),
        row("slice_copy.Tensor", "Tensor_out", "float32", "2,3,4,5 last", 1, 1, 3, 1, by=CONTIGUOUS),
        row("cat.default", "out", "float32", "2,3,4,5 last | 2,3,4,5 last", [X, Y], 1, by=CONTIGUOUS),
        row("select_copy.int", "int_out", "float32", "2,3,4,5 last", 2, 1, by=CONTIGUOUS),
        row("constant_pad_nd.default", "out", "float32", "2,3,4,5 last", [1, 2], 0.5, by=CONTIGUOUS),
        row("index_select.default", "out", "float32", "2,3,4,5 last | @pair", X, 3, Y, by=CONTIGUOUS),
        row("upsample_nearest2d.vec", "vec_out", "float32", "2,3,5,7 plain last", [8, 5], None, by=CONTIGUOUS),
        row("upsample_bilinear2d.vec", "vec_out", "float32", "2,3,5,7 plain last", [8, 5], False, None, by=CONTIGUOUS),
        row("_adaptive_avg_pool2d.default", "out", "float32", "2,3,5,7 plain last", [2, 3], by=CONTIGUOUS),
        row("_softmax.default", "out", "float32", "2,3,5,7 plain last", 1, False, by=CONTIGUOUS, bound=softmax),
        row("cumsum.default", "out", "float32", "2,3,5,7 plain last", 2, by=CONTIGUOUS),
        row("sum.dim_IntList", "IntList_out", "float32", "2,3,5,7 plain last", [1, 3], by=CONTIGUOUS),
        row("avg_pool2d.default", "out", "float32", "2,6,9,11 rare last", [4, 4], [4, 4], [1, 1], by=CONTIGUOUS),
        row("max_pool2d_with_indices.default", "out", "float32", "2,6,9,11 rare last", [5, 5], [4, 4], by=CONTIGUOUS),
        row(NORM, "out", "float32", "2,6,9,11 rare last | 6 plain | 6 positive", *BARE, 1e-5, by=CONTIGUOUS),
        # Upstream's kernel refuses it, although it only copies bytes: dimensions of size one are in any order.
        row(lambda x: x.reshape(4, 3), "view_copy.out", "float32", "2,6,1,1 last", by=CONTIGUOUS),
    ),
    "what the host has not": (
        *(row(sort, "sort.values", SORTED, "4,70 few", 0, descending, by=TORCH) for descending in (False, True)),
        *(row(sort, "sort.values", SORTED, "4,70 few", -1, descending, by=TORCH) for descending in (False, True)),
        *(row(sort, "sort.values", "float32", "300", -1, descending, by=TORCH) for descending in (False, True)),
        *(row(topk, "topk.values", f"int8 {FLOATS}", "4,70 few", 9, at, largest, by=TORCH) for at, largest in TIES),
        *(
            row("convolution.default", "out", "float32", operands, X, Y, None, *numbers, by=TORCH, bound=any_order(48))
            for operands, *numbers in (
                ("2,4,5,6,7 plain | 6,2,2,3,2 plain", [1, 2, 1], [1, 0, 1], [1, 1, 2], False, [0, 0, 0], 2),
                ("2,4,5,6,7 plain | 4,3,2,2,3 plain", [2, 1, 2], [0, 1, 0], [1, 1, 1], True, [1, 0, 0], 1),
            )
        ),
        *(row(ADAPTIVE, "out", "float32", "2,3,5,7 peaks", size, by=TORCH) for size in ([1, 1], [2, 3], [7, 9])),
        row(ADAPTIVE, "out", "float32", "2,3,5,7 peaks last", [3, 2], by=TORCH),
        row(ADAPTIVE, "out", "float32", "4,6,5 plain", [2, 2], by=TORCH),
        *(
            row("max_pool3d_with_indices.default", "out", "float32", operands, *numbers, by=TORCH)
            for operands, *numbers in (
                ("2,3,5,6,7 peaks", [2, 2, 2]),
                ("2,3,5,6,7 peaks", [3, 2, 3], [2, 1, 3], [1, 0, 1]),
                ("2,3,5,6,7 peaks", [3], [2], [1], [2], True),
                ("2,3,5,6,7 peaks last", [2, 3, 2], [1, 2, 2]),
                ("4,5,6,5 plain", [2], [], [0], [1], True),
            )
        ),
        row(
            NO_STATISTICS, "no_stats_out", "float32", f"{AFFINE}; {AFFINE.replace(' |', ' last |', 1)}",
            True, 0.1, 1e-5, by=TORCH, bound=statistics,
        ),
        row(
            NO_STATISTICS, "no_stats_out", "float32", "2,4,5,6 wide", None, None, True, 0.1, 1e-3,
            by=TORCH, bound=statistics,
        ),
        *(row("roll.default", "out", "float32", "3,4,5", [shift], by=TORCH) for shift in (7, -1, 0, 61)),
    ),
}  # fmt: skip
