"""Every tensor of a TOSA program, not only its outputs.

A program is rewritten so that chosen intermediate tensors are outputs too. tosa_reference_model then says what each of
them must be, and Vela what it compiles when none of them may be fused away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from tosa.TosaGraph import TosaGraph as Buffer

from ethos_hil.lowering.errors import CompileError, raise_if_interrupted
from ethos_hil.lowering.formats.flatbuffer_edit import Editor
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.model import summary
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.silence_tools import quiet

# Where the schema's table of a block keeps its list of outputs: 4 plus twice the field's number.
_BLOCK_OUTPUTS = 12
_VALUES = {"BOOL", "INT8", "INT16", "INT32"}
# Types that Vela leaves in memory between operations; accumulators (INT32, INT48) become part of the operation that
# scales them, which keeping them would prevent.
_ACTIVATIONS = {"INT8", "INT16", "BOOL"}


def computed(graph: TosaGraph) -> tuple[str, ...]:
    """Return names of the tensors that the program's operators compute, in the order they do, and that can be asked
    for.

    No constants, no shapes, and no accumulators of 48 bits: tosa_reference_model cannot hand these out.
    """
    names = (name for operator in graph.operators if not operator.is_constant for name in operator.outputs)
    return tuple(name for name in names if name in graph.tensors and graph.tensors[name].dtype in _VALUES)


def activations(graph: TosaGraph) -> tuple[str, ...]:
    """Those of `computed` that can be outputs without taking accumulators apart from their scaling."""
    kept = {tensor.name for tensor in graph.outputs}
    return tuple(name for name in computed(graph) if graph.tensors[name].dtype in _ACTIVATIONS or name in kept)


def with_outputs(tosa: bytes, names: Sequence[str]) -> bytes:
    """Return the same program, its outputs being the tensors `names` (computed ones, each once)."""
    editor = Editor(tosa)
    editor.set_names(Buffer.GetRootAs(tosa, 0).Regions(0).Blocks(0)._tab, _BLOCK_OUTPUTS, names)
    return bytes(editor.data)


def values(tosa: bytes, inputs: Sequence[np.ndarray], names: Sequence[str]) -> Mapping[str, np.ndarray]:
    """What tosa_reference_model computes for each of `names`, in the tensors' shapes.

    Raises:
        OracleError: it gives no valid answer.
    """
    answers = evaluate(with_outputs(tosa, names), inputs, f"a program with {len(names)} tensors as outputs")
    return dict(zip(names, answers, strict=True))


def compiled(tosa: bytes, flags: Sequence[str], names: Sequence[str]) -> VelaBlob:
    """What Vela makes of the program when `names` are its outputs.

    Args:
        tosa: the program.
        flags: Vela's, as an Artifact has them.
        names: the outputs it is to have.

    Raises:
        CompileError: Vela fails.
    """
    try:
        with quiet():
            from executorch.backends.arm.arm_vela import vela_compile

            blob = vela_compile(with_outputs(tosa, names), list(flags))
    except (Exception, SystemExit) as error:
        raise_if_interrupted(error)
        raise CompileError(
            f"Vela fails on the program with {len(names)} tensors as outputs: {summary(error)}"
        ) from error
    return VelaBlob.parse(bytes(blob), "the program compiled again")
