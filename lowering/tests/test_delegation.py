"""Lowering by the backend's id: all of a program in one delegate, integers in and out, and the same answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.pte_model import DelegateCall
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.tests.conftest import MODELS, U55, Lowered, quantised_by_upstream
from ethos_hil.lowering.tests.known_model import marked

pytestmark = [
    pytest.mark.slow,
    # What upstream warns of when it is run without our redirection.
    pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.et_output_order_workaround:DeprecationWarning"),
]


def whole(name: str, target: EthosU | TosaSpec, cache: Cache) -> Artifact:
    return lower(f"{MODELS}:{name}", target, whole=True, cache=cache)


def constants(artifact: Artifact) -> dict[str, object]:
    """What the program's constant methods give."""
    names = {method.name for method in artifact.methods}
    return {plan.name: plan.values[plan.outputs[0]] for plan in artifact.program.plans if plan.name not in names}


@pytest.mark.parametrize("npu", [U55, EthosU.parse("ethos-u85-256")], ids=str)
def test_all_of_it_is_one_delegate_that_takes_and_gives_integers(cache: Cache, lowered: Lowered, npu: EthosU) -> None:
    artifact = whole("known", npu, cache)
    assert [type(call) for call in artifact.plan.instructions] == [DelegateCall]
    assert artifact.cpu_ops == ()
    (x,) = artifact.example_inputs
    assert x.dtype == np.int8
    (answer,) = Reference(artifact).run((x,)).outputs
    assert answer.dtype == np.int8
    # The same program with its border on the CPU: the same integers, as numbers.
    bordered = lowered("known", npu)
    (numbers,) = Reference(bordered).run(bordered.example_inputs).outputs
    values = constants(artifact)
    scale, zero_point = values["output0_scale"], values["output0_zp"]
    assert isinstance(scale, float)
    assert isinstance(zero_point, int)
    assert np.array_equal(((answer.astype(np.int32) - zero_point) * np.float32(scale)).astype(np.float32), numbers)
    assert (artifact.floating, artifact.quantised[0].dtype) == ((), np.int8)


def upstream_by_id(name: str, npu: EthosU, border: tuple[np.ndarray, ...]) -> bytes:
    """The blob that upstream's backend gives for a quantised program whose border is taken off by upstream's passes."""
    from executorch.backends.arm.ethosu import EthosUPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge
    from executorch.exir.backend.backend_api import to_backend
    from executorch.exir.passes.quantize_io_pass import QuantizeInputs, QuantizeOutputs

    from ethos_hil.lowering.conditions.process import quiet

    with quiet():
        spec, exported = quantised_by_upstream(f"{MODELS}:{name}", npu)
        ops = EthosUPartitioner(spec).ops_to_not_decompose(exported.run_decompositions({}))[0]
        edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False, preserve_ops=ops))
        sides = list(range(len(border))), [0]
        edge = edge.transform([QuantizeInputs(edge, sides[0]), QuantizeOutputs(edge, sides[1])])
        return bytes(to_backend("EthosUBackend", edge.exported_program(), spec._to_list()).processed_bytes)


@pytest.mark.parametrize("name", ["add", pytest.param("known", marks=pytest.mark.proof)])
def test_the_delegate_is_byte_for_byte_upstreams(cache: Cache, name: str) -> None:
    artifact = whole(name, U55, cache)
    (delegate,) = artifact.plan.delegates
    assert delegate.id == "EthosUBackend"
    assert delegate.data == upstream_by_id(name, U55, artifact.example_inputs)


def test_methods_go_whole_and_what_is_on_the_cpu_stays_there(cache: Cache) -> None:
    artifact = whole("methods", U55, cache)
    for name in ("encode", "score"):
        assert [type(call) for call in artifact.of(name).plan.instructions] == [DelegateCall]
    assert artifact.of("rank").delegates == ()
    assert artifact.of("rank").example_inputs[0].dtype == np.float32
    values = constants(artifact)
    assert {"encode_input0_scale", "score_output0_zp"} <= values.keys()
    assert not [name for name in values if name.startswith("rank")]
    assert {row.source for row in artifact.of("score").npu_ops} == {marked("score")}


@pytest.mark.parametrize("name", ["undelegated", "two_partitions"])
def test_what_the_npu_cannot_take_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    """Upstream quantises a sort, takes it for the NPU's, and fails on a multiplication that it made of something."""
    line = {"undelegated": marked("only_sort"), "two_partitions": marked("sort")}[name]
    with pytest.raises(CompileError) as caught:
        whole(name, U55, Cache(tmp_path))
    assert f"forward cannot be delegated whole: aten.sort.default ({line}): Not included" in caught.value.message
    assert "--whole" in (caught.value.hint or "")
    assert "\n" not in caught.value.message


def test_an_input_that_nothing_quantises_cannot_be_left_to_the_caller(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"input 1 of forward has no one quantisation, .*: nothing"):
        whole("unused_input", U55, Cache(tmp_path))
