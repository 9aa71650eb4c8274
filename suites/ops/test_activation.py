"""Activation functions and similar operators of torch.nn."""

from __future__ import annotations

from ethos_hil.suites.declare.case import Layer, Operator, TorchCall, call, case, f32, layer, m55
from ethos_hil.suites.ops import reasons


def activation(
    name: str,
    forward: TorchCall | Layer,
    *aten: str,
    fp: str,
    int: str = "TABLE",
    aten_int: tuple[str, ...] | None = None,
    low: float = -4.0,
    high: float = 4.0,
) -> Operator:
    """Return cases of an activation function: an image in channels-last order, and 16 bits."""
    return Operator(
        name,
        aten=aten or (f"{name}.default",),
        fp=tuple(fp.split()),
        int=tuple(int.split()),
        aten_int=aten_int,
        cases=(
            case("channels_last", forward, f32(1, 8, 5, 7, low=low, high=high, channels_last=True)),
            case("a16w8", forward, f32(5, 13, low=low, high=high), scheme="a16w8"),
        ),
    )


relu = activation("relu", layer("ReLU"), fp="CLAMP", int="CLAMP")
relu6 = activation("relu6", layer("ReLU6"), "hardtanh.default", fp="CLAMP", int="CLAMP", low=-9.0, high=9.0)
hardtanh = activation("hardtanh", layer("Hardtanh", -1.5, 2.5), fp="CLAMP", int="CLAMP")
clamp = activation("clamp", call("clamp", min=-0.75, max=1.5), fp="CLAMP", int="CLAMP")
clamp_min = activation("clamp_min", call("clamp", min=-0.5), "clamp.default", fp="CLAMP", int="CLAMP")
leaky_relu = activation(
    "leaky_relu",
    layer("LeakyReLU", 0.1),
    fp="CLAMP MUL ADD",
    aten_int=("leaky_relu.default",),
)
sigmoid = activation("sigmoid", layer("Sigmoid"), fp="SIGMOID")
tanh = activation("tanh", layer("Tanh"), fp="TANH")
hardsigmoid = activation(
    "hardsigmoid",
    layer("Hardsigmoid"),
    *("add.Tensor", "clamp.default", "div.Tensor"),
    fp="ADD CLAMP MUL",
    aten_int=("hardsigmoid.default",),
)
hardswish = activation(
    "hardswish",
    layer("Hardswish"),
    *("add.Tensor", "clamp.default", "div.Tensor", "mul.Tensor"),
    fp="ADD CLAMP MUL",
    aten_int=("hardswish.default",),
)
elu = activation("elu", layer("ELU", 0.75), fp="EXP SELECT")
selu = activation("selu", layer("SELU"), fp="EXP SELECT", aten_int=("elu.default",))
celu = activation("celu", layer("CELU", 1.5), fp="EXP SELECT", aten_int=("elu.default",))
gelu = activation("gelu", layer("GELU"), fp="ERF")
gelu_tanh = activation("gelu_tanh", layer("GELU", approximate="tanh"), "gelu.default", fp="TANH")
silu = activation("silu", layer("SiLU"), "sigmoid.default", "mul.Tensor", fp="SIGMOID MUL", aten_int=("silu.default",))
logit = activation(
    "logit",
    call("logit", eps=0.05),
    fp="LOG",
    int="TABLE MUL",
    aten_int=("log.default", "reciprocal.default", "mul.Tensor"),
    low=0.1,
    high=0.9,
)

softplus = Operator(
    "softplus",
    aten=("exp.default", "log1p.default"),
    aten_int=(),
    fp=("EXP", "LOG"),
    int=("TABLE",),
    cases=(case("sharp", layer("Softplus", 2.0), f32(1, 4, 5, 3, low=-4, high=4)),),
)

mish = Operator(
    "mish",
    aten=("exp.default", "log1p.default", "tanh.default"),
    aten_int=(),
    fp=("EXP", "LOG", "TANH"),
    int=("TABLE",),
    cases=(
        case("map", layer("Mish"), f32(1, 4, 5, 3, low=-4, high=4)),
        case("a16w8", layer("Mish"), f32(3, 4, 9, low=-4, high=4), scheme="a16w8"),
    ),
)

prelu = Operator(
    "prelu",
    aten=("gt.Scalar", "mul.Tensor", "where.self"),
    fp=("GREATER", "MUL", "SELECT"),
    aten_int=("add.Tensor", "clamp.default", "mul.Tensor"),
    int=("CLAMP", "MUL", "ADD"),
    cases=(
        case("one", layer("PReLU", init=0.3), f32(1, 4, 5, 3)),
        case("channels", layer("PReLU", 4, init=0.1), f32(2, 4, 5, 3)),
    ),
)

clamp_tensor = Operator(
    "clamp_tensor",
    aten=("clamp.Tensor",),
    fp=("MAXIMUM", "MINIMUM"),
    int=("MAXIMUM", "MINIMUM"),
    cases=(case("both", lambda x, low, high: x.clamp(low, high), f32(3, 7), f32(7, low=-1, high=0), f32(7, high=2)),),
)

glu = Operator(
    "glu",
    aten=("sigmoid.default", "mul.Tensor"),
    fp=("SIGMOID", "MUL"),
    int=("TABLE", "MUL"),
    cases=(
        case("last", layer("GLU"), f32(3, 5, 8)),
        case("channels", layer("GLU", 1), f32(2, 6, 5, 3)),
    ),
)

softmax = Operator(
    "softmax",
    aten=("_softmax.default",),
    m55=("softmax",),
    fp=("REDUCE_MAX", "EXP", "REDUCE_SUM", "RECIPROCAL"),
    int=("REDUCE_MAX", "TABLE", "REDUCE_SUM"),
    aten_int=("exp.default", "reciprocal.default", "mul.Tensor"),
    cases=(
        case("row", layer("Softmax", -1), f32(1, 10, low=-3, high=3)),
        case("last", layer("Softmax", -1), f32(2, 5, 7, low=-3, high=3)),
        case("channels", layer("Softmax", 1), f32(1, 6, 5, 3, low=-3, high=3), on_cpu=m55(reasons.M55)),
        case("first", layer("Softmax", 0), f32(4, 9, low=-3, high=3), on_cpu=m55(reasons.M55)),
        case("a16w8", layer("Softmax", -1), f32(3, 11, low=-3, high=3), scheme="a16w8"),
    ),
)

log_softmax = Operator(
    "log_softmax",
    aten=("_log_softmax.default",),
    fp=("REDUCE_MAX", "EXP", "REDUCE_SUM", "LOG"),
    int=("REDUCE_MAX", "TABLE", "REDUCE_SUM"),
    aten_int=("exp.default", "log.default"),
    cases=(
        case("row", layer("LogSoftmax", -1), f32(1, 10, low=-3, high=3)),
        case("channels", layer("LogSoftmax", 1), f32(2, 6, 5, 3, low=-3, high=3)),
    ),
)
