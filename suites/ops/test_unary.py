"""Functions of one tensor, element by element. Quantised they are look-up tables, but for the plainest."""

from __future__ import annotations

from suites.case import Call, Operator, call, case, f32, i32


def unary(
    name: str,
    *aten: str,
    low: float = -2.0,
    high: float = 2.0,
    fp: str = "",
    int: str = "TABLE",
    forward: Call | None = None,
) -> Operator:
    """torch's function `name` of values from `low` to `high`, and the same in 16 bits."""
    forward = forward or call(name)
    return Operator(
        name,
        aten=aten or (f"{name}.default",),
        fp=tuple(fp.split()),
        int=tuple(int.split()),
        cases=(
            case("batch", forward, f32(2, 3, 7, 5, low=low, high=high)),
            case("a16w8", forward, f32(3, 4, 9, low=low, high=high), scheme="a16w8"),
        ),
    )


abs_ = unary("abs", fp="ABS", int="ABS")
neg = unary("neg", fp="NEGATE", int="NEGATE")
sign = unary("sign", int="")
ceil = unary("ceil", fp="CEIL", low=-5, high=5)
floor = unary("floor", fp="FLOOR", low=-5, high=5)
round_ = unary("round", low=-5, high=5)
exp = unary("exp", fp="EXP")
expm1 = unary("expm1")
log = unary("log", fp="LOG", low=0.05, high=4)
log1p = unary("log1p", fp="LOG", low=-0.9, high=4)
log10 = unary("log10", fp="LOG", low=0.05, high=4)
sqrt = unary("sqrt", low=0, high=9)
rsqrt = unary("rsqrt", fp="RSQRT", low=0.1, high=9)
reciprocal = unary("reciprocal", fp="RECIPROCAL", low=0.25, high=4)
sin = unary("sin", fp="SIN", low=-6, high=6)
cos = unary("cos", fp="COS", low=-6, high=6)
tan = unary("tan", fp="SIN COS", low=-1.3, high=1.3)
asin = unary("asin", low=-0.98, high=0.98)
acos = unary("acos", low=-0.98, high=0.98)
atan = unary("atan", low=-4, high=4)
sinh = unary("sinh", fp="EXP")
cosh = unary("cosh", fp="EXP")
asinh = unary("asinh", fp="LOG", low=-4, high=4)
acosh = unary("acosh", fp="LOG", low=1.1, high=5)
atanh = unary("atanh", fp="LOG", low=-0.95, high=0.95)
erf = unary("erf", fp="ERF")
erfinv = unary("erfinv", low=-0.9, high=0.9)

absolute_int32 = Operator(
    "abs_int32",
    aten=("abs.default",),
    int=("ABS",),
    cases=(case("matrix", call("abs"), i32(5, 9)),),
)
