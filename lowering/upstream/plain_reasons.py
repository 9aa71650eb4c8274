"""The reasons of upstream's partitioner in plain words, and what would help.

Upstream's texts are those of executorch 1.4.1 (backends/arm/operator_support, backends/arm/tosa/partitioner.py). One
that is not in the tables is shown as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LEFT = "Rejected by NotLeft"
MISPLACED = "its result would have another type in TOSA"
"""Said by `ethos_hil.lowering.upstream.cpu_calls`, not by upstream."""
_EDGE_OPERATOR = re.compile(r"<EdgeOpOverload: ([\w.]+)>(: schema = .*?\) -> [^.]+)?")
"""An operator in upstream's reasons, with all of its schema."""


class Reason(NamedTuple):
    """Why an operator is on the CPU, and what would help; the second is "" where nothing is known."""

    why: str
    remedy: str = ""


BY_METHOD = Reason("the model keeps this method on the CPU", "leave out on_cpu")
_AS_ASKED = Reason("left to the CPU, as asked", "leave out --leave, or the method's `leave`")
_OTHER_NPU = "use an Ethos-U85 (--npu ethos-u85-256), or another operator"
_UNNAMED = Reason("ExecuTorch's partitioner gives no reason")

_RECURRENT = Reason(
    "ExecuTorch's Arm quantiser leaves recurrent layers in float",
    "write the layer out with linear, sigmoid and tanh",
)
_BY_VALUES = Reason(
    "how many elements it gives depends on the values", "keep all elements, and choose with torch.where or topk"
)
_OPERATORS = {
    "instance_norm": Reason("ExecuTorch's Arm quantiser leaves instance norm in float", "use group norm or batch norm"),
    "batch_norm": Reason(
        "no convolution before it to take it in",
        "put it directly behind a convolution, or fold it into the weights (RepVGG and the like: convert the model to "
        "its form for inference)",
    ),
    "nonzero": _BY_VALUES,
    "masked_select": _BY_VALUES,
    "sort": Reason("TOSA cannot sort", "let the program end before it"),
    "topk": Reason("TOSA cannot sort", "let the program end before it"),
    "adaptive_max_pool": Reason("upstream has no pass that makes it a max pool", "give a max pool of fixed size"),
    "aten.gru": _RECURRENT,
    "aten.lstm": _RECURRENT,
    "aten.rnn_": _RECURRENT,
}
"""By a part of the operator's name: of those that upstream has no mapping for, or does not quantise."""

_UNMAPPED = "Not included in BaseTOSASupportList"
_UNQUANTISED = "Node was not marked as quantized"
_TEXTS = (
    (_LEFT, _AS_ASKED),
    (
        "Rejected by NotIntegerSum",
        Reason(
            "the NPU makes running sums of quantised numbers only, not of integers or booleans",
            "cast its input to float",
        ),
    ),
    (
        "Rejected by PicksOthers",
        Reason("ExecuTorch's Arm backend picks other elements where factors are not whole", "enlarge by whole factors"),
    ),
    (
        MISPLACED,
        Reason(
            "its result is used as float or int64, which a delegate cannot give; upstream takes it all the same",
            "quantise what uses it, or use int32",
        ),
    ),
    ("Op is not supported on U55", Reason("an Ethos-U55 does not have it", _OTHER_NPU)),
    (
        "Unsupported stride of (.+?) for Ethos-U55",
        Reason(
            r"unequal strides on U55: \1; a transposed convolution can have (1, 1) or (2, 2)",
            "use equal strides, or an Ethos-U85",
        ),
    ),
    ("Convolution needs to have (.+)", Reason(r"its kernel is too large: the NPU needs \1", "use a smaller kernel")),
    (
        r"Convolution3d needs to have kernel_z==1, got (\d+)",
        Reason(r"the NPU has no convolutions of three dimensions (depth of the kernel: \1)", "use convolutions of two"),
    ),
    ("Convolution3d only supports (.+)", Reason(r"the NPU has no convolutions of three dimensions: \1")),
    ("Failed condition on stride, pad and dilation", Reason("stride, padding and dilation do not go together on U55")),
    ("Transpose convolutions with dilation", Reason("transposed convolutions cannot be dilated", "leave out dilation")),
    (
        "Only 2D transpose convolutions",
        Reason("only transposed convolutions of two dimensions are supported", "unsqueeze it to two dimensions"),
    ),
    ("Convolutions with non-zero output padding", Reason("it has an output padding", "use output_padding=0")),
    (
        "Grouped transpose convolutions",
        Reason("grouped transposed convolutions with a scale per channel are not supported", "use groups=1"),
    ),
    ("out_pad exceeds kernel", Reason("its output padding is larger than its kernel", "use a smaller output_padding")),
    ("(Avgpool2d|Maxpool2d) needs N ?== ?1", Reason("the NPU pools one image at a time", "use a batch of 1")),
    ("(Avgpool2d|Maxpool2d) (.+)", Reason(r"the pool does not fit the NPU: it \2", "use a smaller kernel or stride")),
    (
        _UNQUANTISED,
        Reason("ExecuTorch's Arm quantiser leaves it in float", "use operators that it quantises (docs/operators.md)"),
    ),
    (
        "One or more inputs were not quantized",
        Reason("an input of it is in float, as the operator that makes it is", "see that operator"),
    ),
    (
        "One or more outputs were not quantized",
        Reason("its output is used in float", "see the operators behind it"),
    ),
    (
        "Was first node in partition and input .* had fp dtype",
        Reason("its input is in float, because the operator before it is on the CPU", "see that operator"),
    ),
    (
        "Partition contained only ops which are removed",
        Reason("it only moves or renames data, and no operator beside it is on the NPU"),
    ),
    (
        "internal uint8 tensors",
        Reason("TOSA has uint8 at a program's inputs and outputs only", "use int8 inside of the model"),
    ),
    ("does not support control flow", Reason("only an Ethos-U85 has branches and loops", "--npu ethos-u85-256")),
    ("[Ss]ubmodule was not fully partitioned", Reason("a branch or body has an operator that is not delegated")),
    ("Submodule had unsupported user", Reason("it belongs to a branch that is not delegated")),
    (
        "ARGMAX produces int32",
        Reason("it answers int64, and the NPU int32"),
    ),
    ("TOSA ARGMAX requires PRO-FP", Reason("upstream's quantiser does not know it, so its input is float")),
    ("TOSA ARGMAX (.+)", Reason(r"TOSA's ARGMAX \1", "give the dimension, without keepdim")),
    ("Using the indices output", Reason("the NPU has no indices of the largest elements", "use the values only")),
    (
        "int64|outside int32 range",
        Reason("it computes with int64, which the NPU does not have", "use int32 in the model"),
    ),
    (
        r"index dtype torch.(\w+) not supported|Indices dtype torch.(\w+) is not supported",
        Reason("the NPU takes indices of int32 only", "cast the indices with .to(torch.int32)"),
    ),
    (
        "index must be rank-1 int32",
        Reason("the NPU takes one list of int32 indices", "cast the indices with .to(torch.int32)"),
    ),
    ("Casting (from|to) torch.(\\w+) is not supported", Reason(r"a U55 cannot cast \1 \2", _OTHER_NPU)),
    (
        r"Unsupported (\w* ?)dtype torch.(\w+) \(Supports (.+)\)",
        Reason(r"the NPU computes it in \3, and here it is in \2", "quantise to 8 bits, or use another NPU"),
    ),
    (
        r"has unsupported dtype torch.(\w+) \(Supports (.+)\)",
        Reason(r"the NPU computes it in \2, and an input is \1", "quantise to 8 bits"),
    ),
    (
        "Had torch.(\\w+) (input|output)",
        Reason(r"it has an \2 of \1, which this NPU does not take", "use other types, or an Ethos-U85"),
    ),
    ("rank.*is unsupported", Reason("it has too many dimensions for TOSA", "merge dimensions with reshape")),
    ("sum needs dims|Failed dim check", Reason("a dimension that it reduces is too long", "reduce in two steps")),
    ("symbolic shape", Reason("its shape is not fixed", "export with fixed shapes")),
    (
        r"Tensor x dtype|requires (INT|FP) profile|requires \w+ extension|unsupported values|dtype .* is not supported",
        Reason("TOSA does not have it for these types", "use int8, or the operators that are quantised"),
    ),
    (_UNMAPPED, Reason("ExecuTorch's Arm backend has no mapping to TOSA for it")),
)  # fmt: skip
"""Patterns of upstream's reasons, the first that is found decides."""
_EXACT_TEXTS = tuple((re.compile(pattern), reason) for pattern, reason in _TEXTS)


def plain(reported: str | None, operator: str) -> Reason:
    """Return upstream's reason in plain words.

    Args:
        reported: what upstream's partitioner reported; None where it reported nothing.
        operator: the operator's name ("aten.sort.default"), and that of the operator that it is a part of.
    """
    if reported is None:
        return _UNNAMED
    text = without_schemas(reported)
    if text.startswith((_UNMAPPED, _UNQUANTISED)):
        for part, reason in _OPERATORS.items():
            if part in operator:
                return reason
    for pattern, reason in _EXACT_TEXTS:
        match = pattern.search(text)
        if match is not None:
            return Reason(match.expand(reason.why), reason.remedy)
    return Reason(f"ExecuTorch's partitioner says: {text}")


def without_schemas(text: str) -> str:
    """Return a reason of upstream's on one line, with operators by their names alone."""
    return _EDGE_OPERATOR.sub(r"\1", " ".join(text.split()))
