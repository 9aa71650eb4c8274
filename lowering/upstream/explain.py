"""From an exception of torch or ExecuTorch, or a reason of its partitioner, to plain words."""

from __future__ import annotations

import linecache
import operator
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from ethos_hil.base.errors import CompileError, EthosHilError, ToolError, causes
from ethos_hil.lowering.upstream.export import graphs
from ethos_hil.lowering.upstream.names.operators import unwrap
from ethos_hil.lowering.user_code.user_function import Sources, summary

if TYPE_CHECKING:
    import torch


_PASSES_FOLDER = "/backends/arm/_passes/"
_PASS_MACHINERY = ("arm_pass", "arm_pass_manager", "arm_pass_utils", "arm_op_targeted_pass")
_OPERATOR = re.compile(r"\b(?:aten|edge|torch\.ops|torch\._ops)[\w:]*(?:\.\w+)+")
_HINTS = {
    "data-dependent": "what a model does must not depend on the values it is given; choose with torch.where or "
    "torch.cond, or leave it out",
    "Unsupported control flow operator: while_loop": "only an Ethos-U85 runs loops, inside of its delegate, and only "
    "if all of the loop can be delegated; ExecuTorch has no loops on the CPU",
    "graph_output_allocated not set": "a model needs at least one output that is a tensor",
    "Expecting input to have dtype torch.float32": "the quantiser takes float32: convert the model and its inputs",
    "unsupported ScalarType BFloat16": "the quantiser takes float32: convert the model and its inputs",
    "range of [-nan, -nan] is not finite": "a weight, or a value that was computed while calibrating, is NaN",
    "cannot convert float infinity to integer": "a weight or a value is infinite, or too large for a scale",
    "Shift should be in range": "a scale is too large or too small: look for weights, inputs and calibration values "
    "that are far from 1",
    "quantize_per_channel.default": "the quantiser gives weights and bias different numbers of scales: quantise "
    "transposed convolutions with groups per tensor, as get_symmetric_quantization_config(is_per_channel=False) does",
    "No registered serialization name": "return plain tuples of tensors: tuple(torch.max(x, 1)), not what torch.max, "
    "topk or sort return by themselves",
    "doesn't support tensor": "ExecuTorch's Arm backend leaves a value in float that it delegates: leave the operators "
    "of that line to the CPU (--leave, or the method's `leave`)",
    "unsupported param type": "ExecuTorch's Arm backend takes weights that are constants, not computed ones, and on an "
    "Ethos-U55 or U65 none inside of torch.cond: scale the convolution's answer in place of its weights, compute what "
    "has weights outside of the branch, or leave its operator to the CPU (--leave)",
}
"""Advice, by a part of a message that does not give it itself."""
_MAX_LENGTH = 300
_AROUND = 4
"""How many steps in the graph a line that is near may be away."""
_MAX_EXPRESSION = 80
_LOWERING = Path(__file__).parents[1]
_INSTALLED = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def explain(stage: str, error: Exception, sources: Sources) -> EthosHilError:
    """The error to show to the user.

    Args:
        stage: what failed, such as "exporting the model".
        error: what it raised.
        sources: names the user's lines.

    Returns:
        An error that names the pass, the operator and the user's line, as far as the chain of causes tells them, and
        ends with the root cause. An error that is meant for the user already is returned as it is.
    """
    if isinstance(error, EthosHilError):
        return error
    chain = causes(error)
    for link in chain:
        if isinstance(link, EthosHilError):
            return link
        if isinstance(link, OSError) and link.errno is not None:
            return ToolError(f"{stage} failed: {summary(link)}", hint="check space and permissions of TMPDIR")
    root = chain[-1]
    text = "\n".join(str(link) for link in chain)
    reason = re.sub(r"\s+", " ", summary(root))
    match = _OPERATOR.search(text)
    node = _node(chain)
    # An edge operator prints as a sentence; its name is in it.
    operator = match[0] if match is not None else _name(node.target) if node is not None else None
    details = []
    if operator is not None and operator not in reason:
        details.append(f"operator {operator}")
    arm_pass = _arm_pass(chain)
    if arm_pass is not None:
        details.append(f"pass {arm_pass}")
    own = _own_frames(chain)
    trace = "\n".join(f'File "{frame.filename}", line {frame.lineno}' for frame in own)
    traces = [text, node.meta.get("stack_trace") if node is not None else None, trace]
    line = next(filter(None, map(sources.locate, traces)), None)
    if line is not None:
        details.append(line)
        if not operator and own and sources.name(own[-1].filename, own[-1].lineno or 0) == line:
            details += _expression(own[-1])
    elif node is not None:
        near = next(filter(None, (sources.locate(near.meta.get("stack_trace")) for near in _around(node))), None)
        details += [f"near {near}"] if near is not None else []
    where = f" ({', '.join(details)})" if details else ""
    empty = next(filter(None, map(empty_shape, node.all_input_nodes)), None) if node is not None else None
    if empty is not None:
        reason = f"it is given a tensor without elements, of shape [{', '.join(map(str, empty))}]"
    if len(reason) > _MAX_LENGTH:
        reason = reason[: _MAX_LENGTH - 3] + "..."
    hint = next((hint for sign, hint in _HINTS.items() if sign in text), "--debug shows the whole traceback")
    return CompileError(f"{stage} failed{where}: {reason}", hint=hint)


def _arm_pass(chain: list[BaseException]) -> str | None:
    """The pass of the Arm backend that was running, by the name of its file. The messages only name a wrapper."""
    for link in reversed(chain):
        for frame in reversed(traceback.extract_tb(link.__traceback__)):
            stem = PurePath(frame.filename).stem
            if _PASSES_FOLDER in frame.filename and stem not in _PASS_MACHINERY:
                return stem
    return None


def _around(node: Any) -> Iterator[Any]:
    """The nodes around one that a pass made, which has no trace: nearest first, its readers before its inputs."""
    seen, waiting = {node}, [node]
    for _ in range(_AROUND):
        waiting = [other for near in waiting for other in (*near.users, *near.all_input_nodes) if other not in seen]
        waiting = list(dict.fromkeys(waiting))
        seen.update(waiting)
        yield from waiting


def _own_frames(chain: list[BaseException]) -> list[traceback.FrameSummary]:
    """The frames of files that are neither ours nor installed, outermost first."""
    frames = (frame for link in reversed(chain) for frame in traceback.extract_tb(link.__traceback__))
    foreign = (frame for frame in frames if not frame.filename.startswith((*_INSTALLED, "<")))
    return [frame for frame in foreign if not Path(frame.filename).is_relative_to(_LOWERING)]


def _expression(frame: traceback.FrameSummary) -> list[str]:
    """The expression that the frame was evaluating, quoted, if it is short and on one line."""
    if frame.lineno != frame.end_lineno or frame.colno is None or frame.end_colno is None:
        return []
    line = linecache.getline(frame.filename, frame.lineno or 0).encode()  # columns count bytes
    text = line[frame.colno : frame.end_colno].decode(errors="replace").strip()
    return [f"`{text}`"] if 0 < len(text) <= _MAX_EXPRESSION else []


def _name(target: Any) -> str:
    match = re.search(r"EdgeOpOverload: ([\w.]+)", str(target))
    return match[1] if match is not None else str(target)


def _node(chain: list[BaseException]) -> Any:
    """The graph node that was being worked on, if a function on the stack has it in a variable `node` or `n`."""
    for link in reversed(chain):
        for frame, _ in reversed(list(traceback.walk_tb(link.__traceback__))):
            for name in ("node", "n"):
                value = frame.f_locals.get(name)
                if getattr(value, "op", None) == "call_function" and hasattr(value, "meta"):
                    return value
    return None


_CONVERSIONS = "quantize_per"
"""Part of the names of the operators that convert between floats and integers."""
Locate = Callable[["torch.fx.Node"], str | None]
"""Gives the user's line that a node comes from."""


def refuse_empty(module: torch.fx.GraphModule, locate: Locate) -> None:
    """Check that no tensor of a partition's graph has a dimension of 0.

    Args:
        module: the graph.
        locate: names the user's lines.

    Raises:
        CompileError: one has. The message names the operation and the line.
    """
    for part in graphs(module):
        for node in part.graph.nodes:
            if node.op in ("placeholder", "call_function"):
                shape = empty_shape(node)
                if shape is not None:
                    raise _refusal(node, shape, locate)


def empty_shape(node: torch.fx.Node) -> tuple[int, ...] | None:
    """The shape of the tensor that a node gives if it has no elements, else None.

    A node with several tensors has none: those that are used have a node of their own behind it. A batch norm gives two
    statistics of shape [0] that nothing uses.
    """
    shape = getattr(node.meta.get("val"), "shape", None)
    return tuple(shape) if shape is not None and 0 in shape else None


def _refusal(node: torch.fx.Node, shape: tuple[int, ...], locate: Locate) -> CompileError:
    node = node.all_input_nodes[0] if node.target is operator.getitem else node
    reader = _computing(node)
    what = "an input" if reader is not node else "the result"
    lines = (locate(near) for near in (reader, *reader.all_input_nodes, *reader.users))
    line = next(filter(None, lines), None)
    place = f" at {line}" if line else ""
    return CompileError(
        f"{what} of {unwrap(reader.target)}{place} has no elements: its shape is [{', '.join(map(str, shape))}], "
        "and TOSA has no dimension of 0",
        hint="give it at least one element, or leave the operation to the CPU (Method.leave)",
    )


def _computing(node: torch.fx.Node) -> torch.fx.Node:
    """The node, or the first behind it that computes: inputs and conversions have no operation of the model."""
    while (node.op == "placeholder" or _CONVERSIONS in str(node.target)) and node.users:
        node = next(iter(node.users))
    return node


# The reasons of upstream's partitioner in plain words, and what would help.
#
# Upstream's texts are those of executorch 1.5.1 (backends/arm/operator_support, backends/arm/tosa/partitioner.py). One
# that is not in the tables is shown as it is.

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
    "ExecuTorch's Arm quantiser leaves recurrent layers in float", "write the layer out with linear, sigmoid and tanh"
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
        "Rejected by FloatsOnly",
        Reason("TOSA's float profile has it for floats only", "cast its input to float"),
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
        "U55 nearest-neighbor resize requires (.+)",
        Reason(r"a resize to the nearest element on U55 requires \1", "enlarge by 2, 4 or 8, in a batch of 1"),
    ),
    (
        "U55 flip support is limited to (.+)",
        Reason(r"a flip on U55 is limited to \1", "flip channels or rows of a tensor of four dimensions"),
    ),
    ("U55 (reflection padding|unfold_copy) (.+)", Reason(r"\1 on U55 \2", _OTHER_NPU)),
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
    ("[Ss]ymbolic|unresolved tensor shapes", Reason("its shape is not fixed", "export with fixed shapes")),
    (
        r"Tensor x dtype|requires (INT|FP) profile|requires \w+ extension|unsupported values|dtype .* is not supported",
        Reason("TOSA does not have it for these types", "use int8, or the operators that are quantised"),
    ),
    (_UNMAPPED, Reason("ExecuTorch's Arm backend has no mapping to TOSA for it")),
)  # fmt: skip
"""Patterns of upstream's reasons, the first that is found decides."""


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
    for pattern, reason in _TEXTS:  # compiled here: most processes need none of the 42
        match = re.search(pattern, text)
        if match is not None:
            return Reason(match.expand(reason.why), reason.remedy)
    return Reason(f"ExecuTorch's partitioner says: {text}")


def without_schemas(text: str) -> str:
    """Return a reason of upstream's on one line, with operators by their names alone."""
    return _EDGE_OPERATOR.sub(r"\1", " ".join(text.split()))
