"""Functions of one tensor, element by element. Quantised, all but the simplest are look-up tables."""

from __future__ import annotations

from ethos_hil.base.verdict import FailureKind
from ethos_hil.suites.declare.case import Defect, Operator, TorchCall, call, case, f32, i32, u55
from ethos_hil.suites.ops import reasons

BEYOND_ITS_RANGE = Defect(
    "a polynomial for small numbers is taken for all negative ones, too",
    kind=FailureKind.ACCURACY,
    says="elements are too far from PyTorch, float64",
    link="https://github.com/pytorch/executorch/pull/16318",
)


def unary(
    name: str,
    *aten: str,
    low: float = -2.0,
    high: float = 2.0,
    fp: str = "",
    int: str = "TABLE",
    aten_int: tuple[str, ...] | None = None,
) -> Operator:
    """Return torch's function `name` for values from `low` to `high`, in eight and in 16 bits."""
    forward: TorchCall = call(name)
    return Operator(
        name,
        aten=aten or (f"{name}.default",),
        fp=tuple(fp.split()),
        int=tuple(int.split()),
        aten_int=aten_int,
        cases=(
            case("batch", forward, f32(2, 3, 7, 5, low=low, high=high)),
            case("a16w8", forward, f32(3, 4, 9, low=low, high=high), scheme="a16w8"),
        ),
    )


abs_ = unary("abs", fp="ABS", int="ABS")
neg = unary("neg", fp="NEGATE", int="MUL", aten_int=("mul.Tensor",))
ceil = unary("ceil", fp="CEIL", low=-5, high=5)
floor = unary("floor", fp="FLOOR", low=-5, high=5)
round_ = unary("round", low=-5, high=5)
exp = unary("exp", fp="EXP")
expm1 = unary("expm1")
log = unary("log", fp="LOG", low=0.05, high=4)
log1p = unary("log1p", fp="LOG", low=0.01, high=4)
sqrt = unary("sqrt", low=0, high=9, aten_int=("pow.Tensor_Scalar",))
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

log10 = Operator(
    "log10",
    aten=("log10.default",),
    int=("TABLE",),
    on_cpu={"MI": "upstream lists it for quantised programs only"},
    cases=(
        case("batch", call("log10"), f32(2, 3, 7, 5, low=0.05, high=4)),
        case("a16w8", call("log10"), f32(3, 4, 9, low=0.05, high=4), scheme="a16w8"),
    ),
)

log1p_negative = Operator(
    "log1p_negative",
    aten=("log1p.default",),
    fp=("LOG",),
    int=("TABLE",),
    defects={"MI": BEYOND_ITS_RANGE},
    cases=(case("near_pole", call("log1p"), f32(2, 3, 7, low=-0.9, high=0.5)),),
)

sign = Operator(
    "sign",
    aten=("sign.default",),
    aten_int=("gt.Tensor", "lt.Tensor", "where.self"),
    fp=("GREATER", "SELECT"),
    int=("GREATER", "SELECT"),
    on_cpu=u55(reasons.U55_COMPARES),
    beside=u55(("add.Tensor", "full.default", "mul.Tensor", "neg.default")),
    cases=(
        case("batch", call("sign"), f32(2, 3, 7, 5)),
        case("a16w8", call("sign"), f32(3, 4, 9), scheme="a16w8"),
    ),
)

absolute_int32 = Operator(
    "abs_int32",
    aten=("abs.default",),
    int=("ABS",),
    on_cpu={"MI": reasons.FLOAT_ONLY},
    cases=(case("matrix", call("abs"), i32(5, 9)),),
)
