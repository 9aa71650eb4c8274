"""The class of an NPU operation: what kind of work it is, whichever model asked for it."""

from __future__ import annotations

from collections.abc import Mapping

OTHER, DMA, MIXED = "other", "dma", "mixed"
"""An operation that this version does not know; one of transfers alone; several of different classes that share a
count."""
_NAMES: Mapping[str, str] = {
    "conv": "Conv2D Conv3D FullyConnected TransposeConv2D CONV2D CONV3D TRANSPOSE_CONV2D FULLY_CONNECTED",
    "depthwise": "DepthwiseConv2D DEPTHWISE_CONV2D",
    "matmul": "MatMul MATMUL",
    "pool": "AvgPool MaxPool AVG_POOL2D MAX_POOL2D",
    "reduce": "ReduceSum ReduceMax ReduceMin ReduceAny ReduceAll ReduceProduct ArgMax "
    "REDUCE_SUM REDUCE_MAX REDUCE_MIN REDUCE_ANY REDUCE_ALL REDUCE_PRODUCT ARGMAX",
    "transpose": "Transpose TRANSPOSE",
    "resize": "Resize RESIZE",
    "lut": "LUT Table Sigmoid Tanh Exp Erf TABLE SIGMOID TANH EXP ERF",
    "copy": "MemoryCopy Reshape Identity Concat Slice Pad Tile Reverse Gather Scatter "
    "RESHAPE IDENTITY CONCAT SLICE PAD TILE REVERSE GATHER SCATTER CONST",
    "elementwise": "Abs Add And AndNot Asr Cast Clamp CLZ Div Equal Greater GreaterEqual LeakyRelu LogicalAnd "
    "LogicalNot LogicalOr LogicalXor Maximum Minimum Mul Negate Not NotEqual Or Quantize Relu Relu6 Rescale Select "
    "SHL SHR Sub Xor ABS ADD ARITHMETIC_RIGHT_SHIFT BITWISE_AND BITWISE_NOT BITWISE_OR BITWISE_XOR CAST CLAMP "
    "EQUAL GREATER GREATER_EQUAL INTDIV LOGICAL_AND LOGICAL_LEFT_SHIFT LOGICAL_NOT LOGICAL_OR LOGICAL_RIGHT_SHIFT "
    "LOGICAL_XOR MAXIMUM MINIMUM MUL NEGATE RESCALE SELECT SUB",
}
"""Names of operations, by Vela 5 and by TOSA."""
_CLASSES: Mapping[str, str] = {each: word for word, names in _NAMES.items() for each in names.split()}


def operation_class(npu_op: str, tosa_op: str, *, kernels: int = 1, transfers: int = 0) -> str:
    """Return the class of an operation. What the NPU does decides, not what the model asked for: a linear layer is a
    convolution there.

    Args:
        npu_op: Vela's name of it.
        tosa_op: the TOSA operator, which counts where Vela's name is not known.
        kernels: its NPU kernels; `transfers` its DMAs.
    """
    if transfers and not kernels:
        return DMA
    return _CLASSES.get(npu_op) or _CLASSES.get(tosa_op) or OTHER


def shared_class(classes: list[str]) -> str:
    """Return the class of operations that share one count."""
    return classes[0] if len(set(classes)) == 1 else MIXED
