"""The intermediate tensors of a TOSA program.

A program is rewritten so that chosen intermediate tensors are outputs too. Then tosa_reference_model computes the right
value of each, and Vela compiles a program in which none of them is fused away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ethos_hil.base.errors import CompileError
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.formats.tosa_draft import TosaDraft
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.oracle.reference import evaluate
from ethos_hil.lowering.vela.compiler import run_vela
from ethos_hil.lowering.vela.ini import VelaIni

_VALUES = {"BOOL", "INT8", "INT16", "INT32"}
# Types that Vela leaves in memory between operations. It fuses accumulators (INT32, INT48) into the operation that
# scales them; keeping them as outputs would prevent that.
_ACTIVATIONS = {"INT8", "INT16", "BOOL"}


def computed_tensors(graph: TosaGraph) -> tuple[str, ...]:
    """Return the names of the tensors that the program's operators compute, in their order, and that can be outputs.

    Constants, shapes, and accumulators of 48 bits are left out: tosa_reference_model cannot return these.
    """
    names = (name for operator in graph.operators if not operator.is_constant for name in operator.outputs)
    return tuple(name for name in names if name in graph.tensors and graph.tensors[name].dtype in _VALUES)


def activation_tensors(graph: TosaGraph) -> tuple[str, ...]:
    """Return those of `computed_tensors` that can be outputs without separating accumulators from their scaling."""
    kept = {tensor.name for tensor in graph.outputs}
    return tuple(name for name in computed_tensors(graph) if graph.tensors[name].dtype in _ACTIVATIONS or name in kept)


def with_outputs(tosa: bytes, names: Sequence[str]) -> bytes:
    """Return the same program with the tensors `names` as its outputs (computed ones, each once)."""
    draft = TosaDraft(tosa)
    draft.blocks[0].replace_outputs(names)
    return draft.finish()


def tensor_values(tosa: bytes, inputs: Sequence[np.ndarray], names: Sequence[str]) -> Mapping[str, np.ndarray]:
    """Return the value that tosa_reference_model computes for each of `names`, in the tensors' shapes.

    Raises:
        OracleError: it gives no valid answer.
    """
    answers = evaluate(with_outputs(tosa, names), inputs, f"a program with {len(names)} tensors as outputs")
    return dict(zip(names, answers, strict=True))


def compile_with_outputs(
    tosa: bytes, flags: Sequence[str], names: Sequence[str], ini: VelaIni | None = None
) -> VelaBlob:
    """Compile the program with the tensors `names` as its outputs, and return Vela's result.

    Args:
        tosa: the program.
        flags: Vela's, as an Artifact has them.
        names: the outputs.
        ini: the configuration file that the flags name, if it is the user's.

    Raises:
        CompileError: Vela fails.
    """
    try:
        return run_vela(with_outputs(tosa, names), flags, ini).parsed
    except CompileError as error:
        raise CompileError(
            f"Vela fails on the program with {len(names)} tensors as outputs: {error.message}"
        ) from error
