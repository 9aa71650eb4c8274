"""From an exception of torch or ExecuTorch to plain words, and to what would help."""

from __future__ import annotations

import linecache
import re
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from ethos_hil.base.errors import CompileError, EthosHilError, ToolError, causes
from ethos_hil.lowering.upstream.refusals import empty_shape
from ethos_hil.lowering.user_code.user_function import Sources, summary

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
    "unsupported ScalarType BFloat16": "NumPy lacks bfloat16: convert the model and its inputs to float32",
    "] is not finite": "a weight, or a value that was computed while calibrating, is NaN or infinite",
    "cannot convert float infinity to integer": "a weight or a value is infinite, or too large for a scale",
    "Shift should be in range": "a scale is too large or too small: look for weights, inputs and calibration values "
    "that are far from 1",
    "quantize_per_channel.default": "the quantiser gives weights and bias different numbers of scales: quantise "
    "transposed convolutions with groups per tensor, as get_symmetric_quantization_config(is_per_channel=False) does",
    "No registered serialization name": "return plain tuples of tensors: tuple(torch.max(x, 1)), not what torch.max, "
    "topk or sort return by themselves",
    "doesn't support tensor": "ExecuTorch's Arm backend leaves a value in float that it delegates: leave the operators "
    "of that line to the CPU (--leave, or the method's `leave`)",
    "unsupported param type": "ExecuTorch's Arm backend takes weights that are constants, not computed ones: scale the "
    "answer in place of the weights, write a matrix product, or leave its operator to the CPU (--leave)",
    "requires output_zp to be zero": "numbers of sixteen bits are symmetric in TOSA: let the quantizer use "
    "get_symmetric_a16w8_quantization_config() for this operator, without a zero point",
    "calculate_qparams should not be called for PlaceholderObserver": "the quantizer has ranges chosen in each "
    "inference, and an NPU needs constants: let it be static, is_dynamic=False",
    "no attribute 'to_tensor'": "ExecuTorch fails on a number times a parameter or constant here: compute the product "
    "in __init__, and write torch.addmm(b, x, w) as x @ w + b, or use nn.Linear",
    "rrelu_with_noise": "use nn.LeakyReLU with a slope of (lower + upper) / 2, which nn.RReLU is outside of training",
    "for argument 'generator'": "give the program random numbers as an input: it has no generator of them",
    ".numpy() is not supported": "compute with torch's functions: a program has none of numpy's",
    "different device inputs": "let a number that is computed stay a tensor, without .item(), int() or float()",
    "PackedParams": "torch.export takes no module of eager-mode quantisation: give the float model, which is quantised "
    "here, or what prepare_pt2e and convert_pt2e made of it",
    "uninitialized parameter": "call the module once before it is returned, which gives its lazy layers their weights",
    "_linalg_check_errors": "ExecuTorch has none of torch.linalg's inverses, solvers and decompositions: give the "
    "program their answer as an input",
    "0 in strides": "an example that is expanded has strides of 0: copy it with "
    ".clone(memory_format=torch.contiguous_format)",
}
"""Advice, by a part of a message that does not give it itself."""
_EFFECT = "with_effects"
"""torch.export's operator (2.13) around one that has an effect, its second argument."""
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
    if operator == _EFFECT and node is not None:
        operator = str(node.args[1])
        reason = f"{operator} does something beside its answer, which no program of ExecuTorch can"
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
        near = next(filter(None, (sources.line_of(near) for near in _around(node))), None)
        details += [f"near {near}"] if near is not None else []
    where = f" ({', '.join(details)})" if details else ""
    givers = node.all_input_nodes if node is not None and str(node.target) != _EFFECT else []
    empty = next(filter(None, map(empty_shape, givers)), None)
    if empty is not None:
        reason = f"it is given a tensor without elements, of shape [{', '.join(map(str, empty))}]"
    if len(reason) > _MAX_LENGTH:
        reason = reason[: _MAX_LENGTH - 3] + "..."
    hint = next(
        (hint for sign, hint in _HINTS.items() if sign in f"{text}\n{reason}"), "--debug shows the whole traceback"
    )
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
