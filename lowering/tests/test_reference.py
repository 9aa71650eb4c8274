"""The oracle: it agrees with the quantised module in eager torch, and it can't be done without."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ethos_hil.base.errors import OracleError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.oracle.reference import Reference, computed_tensors, evaluate, tensor_values, with_outputs
from ethos_hil.lowering.tests.conftest import DATA, MODELS, U55, Lowered, quantised_by_upstream, refusals


@pytest.mark.slow
@pytest.mark.parametrize("name", ["known", "two_partitions", "channels_last", "add"])
def test_it_agrees_with_the_quantised_module_in_eager_torch(lowered: Lowered, name: str) -> None:
    artifact = lowered(name)
    run = Reference(artifact).run(artifact.example_inputs)
    with quiet(), torch.no_grad():
        _, program = quantised_by_upstream(f"{MODELS}:{name}", U55)
        assert program.example_inputs is not None
        eager = program.module(check_guards=False)(*program.example_inputs[0])
    expected = [output.numpy() for output in (eager if isinstance(eager, tuple | list) else (eager,))]
    assert len(run.outputs) == len(expected)
    for output, wanted, tensor in zip(run.outputs, expected, artifact.plan.output_tensors, strict=True):
        assert output.shape == wanted.shape == tensor.sizes
        assert output.dtype == wanted.dtype == tensor.dtype
        assert np.ptp(output) > 0
        # Eager torch requantises in float: it may be one step off here and there, not more.
        step = np.min(np.diff(np.unique(output)))
        assert np.abs(output - wanted).max() <= step * 1.001
        assert (output != wanted).mean() < 0.1


@pytest.mark.slow
def test_inputs_are_checked_and_a_program_of_another_origin_is_no_reference(
    lowered: Lowered, recorded: Recorded
) -> None:
    artifact = lowered("add")
    wanted = np.zeros((1, 4, 4, 3), np.float32)
    wrong: list[list[Any]] = [[wanted[..., :2]] * 2, [wanted.astype(np.float64)] * 2, [wanted, np.float32(3)]]
    run = Reference(artifact).run
    stranger = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
    recorded.check(
        refusals(*(partial(run, inputs) for inputs in ([], [wanted] * 3, *wrong)), partial(Reference, stranger))
    )
    # A TOSA program of another model.
    other = replace(artifact.delegates[0], tosa=lowered("known").delegates[0].tosa)
    with pytest.raises(OracleError) as caught:
        Reference(replace(artifact, delegates=(other,))).run(artifact.example_inputs)
    assert caught.value.kind == "no-reference"


# A stand-in earlier on the path: what the oracle answers is what the real package would, but broken.
BROKEN = {
    "none, so the real one answers": "",
    "unimportable": "raise ImportError('libtosa.so: not found')",
    "crashing import": "1/0",
    "no status": "VALID = None\ndef run(*a): return [], None",
    "unpredictable": "def run(*a): return [], GraphStatus.TOSA_UNPREDICTABLE",
    "raises": "def run(*a): raise ValueError('Invalid inputs.')",
    "no outputs": "def run(*a): return [], GraphStatus.TOSA_VALID",
    "wrong outputs": "import numpy\ndef run(*a): return [numpy.zeros((1, 4, 4, 2), 'int8')], GraphStatus.TOSA_VALID",
    "wrong type": "import numpy\ndef run(*a): return [numpy.zeros((1, 4, 4, 3), 'uint8')], GraphStatus.TOSA_VALID",
    "returns nothing": "def run(*a): pass",
    "aborts": "import os\ndef run(*a): os.abort()",
    "exits": "import os\ndef run(*a): os._exit(0)",
    "aborting import": "import os\nos.abort()",
}
STATUS = "import enum\nclass GraphStatus(enum.Enum):\n    TOSA_VALID = 0\n    TOSA_UNPREDICTABLE = 2\n"
ASK = """
    import sys
    from pathlib import Path
    from ethos_hil.lowering.artifact import Artifact
    from ethos_hil.base.errors import OracleError
    from ethos_hil.lowering.oracle.reference import Reference
    artifact = Artifact.load(Path(sys.argv[1]))
    try:
        Reference(artifact).run(artifact.example_inputs)
    except OracleError as error:
        assert error.exit_status == 1 and error.kind == "no-reference"
        print(error.message)
    else:
        print("answered")
"""


def ask(artifact: Artifact, folder: Path, stand_in: str | None) -> str:
    (folder / "artifact").mkdir()
    artifact.save(folder / "artifact")
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(MODELS.parents[2] / "src")}
    if stand_in is not None:
        (folder / "tosa_reference_model").mkdir()
        (folder / "tosa_reference_model" / "__init__.py").write_text(stand_in)
        environment["PYTHONPATH"] = f"{folder}:{environment['PYTHONPATH']}"
    command = [sys.executable, "-c", textwrap.dedent(ASK), str(folder / "artifact")]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_reference_model_is_never_passed_over(
    lowered: Lowered, tmp_path: Path, how: str, recorded: Recorded
) -> None:
    recorded.check(ask(lowered("add"), tmp_path, STATUS + BROKEN[how] + "\n" if BROKEN[how] else None))


# --- Every tensor of a TOSA program: its value in the reference model, and the program of Vela that keeps it.


@pytest.mark.slow
def test_outputs_are_what_was_asked_for_and_nothing_else_changes(lowered: Lowered) -> None:
    tosa = lowered("known").delegates[0].tosa or b""
    graph = TosaGraph.parse(tosa)
    names = computed_tensors(graph)
    assert len(names) > 10
    again = TosaGraph.parse(with_outputs(tosa, names[::-1]))
    assert tuple(tensor.name for tensor in again.outputs) == names[::-1]
    assert (again.operators, again.inputs, again.tensors) == (graph.operators, graph.inputs, graph.tensors)


@pytest.mark.slow
def test_values_are_the_programs_own(lowered: Lowered) -> None:
    """Each tensor has its declared shape, the outputs are the reference's, and what moves values moves these."""
    artifact = lowered("known")
    tosa = artifact.delegates[0].tosa or b""
    graph = TosaGraph.parse(tosa)
    run = Reference(artifact).run(artifact.example_inputs)
    (inputs,) = run.delegate_inputs.values()
    (outputs,) = run.delegate_outputs.values()
    values = tensor_values(tosa, inputs, computed_tensors(graph))
    assert {name: array.shape for name, array in values.items()} == {name: graph.tensors[name].shape for name in values}
    for tensor, expected in zip(graph.outputs, outputs, strict=True):
        assert np.array_equal(values[tensor.name].ravel(), expected.ravel())
    moving = [op for op in graph.operators if op.op in ("RESHAPE", "TRANSPOSE") and op.inputs[0] in values]
    assert moving
    for operator in moving:
        before, after = (np.sort(values[name], axis=None) for name in (operator.inputs[0], operator.outputs[0]))
        assert np.array_equal(before, after)


@pytest.mark.slow
def test_the_reference_keeps_each_delegates_inputs(lowered: Lowered) -> None:
    """They are copied when the delegate is called, because later instructions reuse the memory."""
    artifact = lowered("two_partitions")
    run = Reference(artifact).run(artifact.example_inputs)
    assert list(run.delegate_inputs) == [delegate.instruction for delegate in artifact.delegates]
    for delegate in artifact.delegates:
        assert delegate.tosa is not None
        (output,) = evaluate(delegate.tosa, run.delegate_inputs[delegate.instruction], "a delegate")
        assert output.tobytes() == run.delegate_outputs[delegate.instruction][0].tobytes()
