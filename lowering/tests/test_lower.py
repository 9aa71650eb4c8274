"""Lowering as a whole: the program is upstream's byte for byte, and every way to fail has one clear line."""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ethos_hil.base.errors import CompileError, ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.tests.conftest import DATA, MODELS, U55, Lowered, quantised_by_upstream, refusals
from ethos_hil.lowering.tests.known_model import marked
from ethos_hil.lowering.upstream import ethosu
from ethos_hil.lowering.vela.compiler import VelaCrash

# What upstream warns of when it is run without our redirection.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`isinstance:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.et_output_order_workaround:DeprecationWarning"),
]


def upstream_alone(name: str, npu: EthosU) -> bytes:
    """Return the program of ExecuTorch's documented flow, without our code."""
    from executorch.backends.arm.ethosu import EthosUPartitioner
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower

    with quiet():
        spec, exported = quantised_by_upstream(f"{MODELS}:{name}", npu)
        chosen = EthosUPartitioner(spec)
        result = chosen.partition

        def in_order(program: Any) -> Any:
            """Hand partitions over by their numbers; else the order is one of a set of texts."""
            answer = result(program)
            answer.partition_tags = dict(sorted(answer.partition_tags.items()))
            return answer

        chosen.partition = in_order
        config = EdgeCompileConfig(_check_ir_validity=False)
        edge = to_edge_transform_and_lower(exported, partitioner=[chosen], compile_config=config)
        return bytes(edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=False)).buffer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "npu"),
    [
        pytest.param("known", "ethos-u55-128", marks=pytest.mark.proof), ("calibrated", "ethos-u85-256"),
        pytest.param("two_partitions", "ethos-u55-64", marks=pytest.mark.proof),
    ],
)  # fmt: skip
def test_the_program_is_byte_for_byte_upstreams(lowered: Lowered, name: str, npu: str) -> None:
    artifact = lowered(name, EthosU.parse(npu))
    assert artifact.pte == upstream_alone(name, EthosU.parse(npu))
    assert artifact.notes == ()


@pytest.mark.slow
def test_what_is_kept_holds_no_paths_of_this_machine(lowered: Lowered) -> None:
    artifact = lowered("two_partitions")
    here = [str(MODELS.parent), str(Path.home()), "/tmp/", "site-packages", str(Path(sys.executable).parent)]
    for data in (artifact.pte, *(delegate.tosa or b"" for delegate in artifact.delegates)):
        for text in here:
            assert text.encode() not in data


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pooled_look_up", "pooled_steps"])
def test_what_upstream_cannot_lower_is_lowered_right(name: str, lowered: Lowered) -> None:
    with pytest.raises(Exception, match="running the"):
        upstream_alone(name, U55)  # when this passes, the detour is no longer needed
    artifact = lowered(name)
    (said,) = artifact.notes
    assert said.startswith("look-up tables were made before average pools were")
    assert {op.tosa_op for op in artifact.npu_ops} >= {"CONV2D", "AVG_POOL2D"}
    # The reference's answer differs from the float model's by quantisation only.
    model = load_model(f"{MODELS}:{name}")
    assert isinstance(model, TorchModel)
    with torch.no_grad():
        floating = model.default.module(*model.default.example_inputs).numpy()
    (output,) = Reference(artifact).run(artifact.example_inputs).outputs
    assert np.abs(output - floating).max() < 0.05 * np.ptp(floating)
    assert np.corrcoef(output.ravel(), floating.ravel())[0, 1] > 0.99


# --- The cache's view of models. ---


@pytest.mark.slow
def test_a_pt2_lowers_to_the_same_program_and_map(lowered: Lowered, cache: Cache, tmp_path: Path) -> None:
    model = load_model(f"{MODELS}:known")
    assert isinstance(model, TorchModel)
    path = tmp_path / "known.pt2"
    torch.export.save(torch.export.export(model.default.module, model.default.example_inputs), path)
    artifact = lower(str(path), U55, cache=cache)
    original = lowered("known")
    assert artifact.pte == original.pte
    maps = [[(op.module, op.source, op.aten_ops, op.tosa_op) for op in each.npu_ops] for each in (artifact, original)]
    assert maps[0] == maps[1]
    assert artifact.model == str(path)
    run, expected = (Reference(program).run(original.example_inputs) for program in (artifact, original))
    assert all(np.array_equal(a, b) for a, b in zip(run.outputs, expected.outputs, strict=True))


# --- What can't be lowered. ---


def test_what_cannot_be_lowered_is_refused(tmp_path: Path, cache: Cache, recorded: Recorded) -> None:
    """A program for another NPU, damaged ones, a method that is not there, and one that leaves something."""
    data = (DATA / "add.pte").read_bytes()
    start = data.index(b"vela_bin_stream")
    zeroed, other = data[:start] + bytes(64) + data[start + 64 :], data.replace(b"EthosUBackend", b"OtherUBackend")
    for name, damaged in (("zeroed", zeroed), ("other", other), ("empty", b"")):
        (tmp_path / f"{name}.pte").write_bytes(damaged)
    names = [str(tmp_path / f"{name}.pte") for name in ("zeroed", "other", "empty")]
    artifact = Artifact.of_program(data, "add.pte")
    assert artifact.of(None) is artifact is artifact.of("forward")
    asks = (
        partial(lower, str(DATA / "add.pte"), EthosU.parse("ethos-u55-256"), cache=cache),
        *(partial(lower, name, U55, cache=cache) for name in names),
        partial(artifact.of, "backward"),
        partial(lower, f"{MODELS}:partitioned", U55, whole=True, cache=cache),
    )
    recorded.check(refusals(*asks, folder=tmp_path).replace(str(DATA), "DATA").replace(str(MODELS.parent), "HERE"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "marker", "stage", "message"),
    [
        ("dynamic", "branch", "exporting", "`x.sum() > 0`): GuardOnDataDependentSymNode"),
        ("through_numpy", "numpy", "exporting", "`x.numpy()`"),
    ],
)
def test_what_cannot_be_compiled_names_the_operator_and_the_line(
    tmp_path: Path, name: str, marker: str, stage: str, message: str
) -> None:
    with pytest.raises(CompileError) as caught:
        lower(f"{MODELS}:{name}", U55, cache=Cache(tmp_path))
    assert caught.value.message.startswith(f"{stage} the model failed (")
    assert marked(marker) in caught.value.message
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.__cause__ is not None
    assert (caught.value.kind, caught.value.exit_status) == ("compile", 2)
    assert list(tmp_path.rglob("*.pte")) == []


INTERRUPTED = """
import torch
def hit(place):
    if place == PLACE:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:  # as a library does whose import is interrupted
            raise ImportError("no") from error
hit("importing")
class Net(torch.nn.Module):
    def forward(self, x):
        hit("exporting" if torch.compiler.is_exporting() else "running")
        return x
def net():
    hit("calling")
    return Net(), (torch.ones(1),)
"""


@pytest.mark.parametrize("place", ["importing", "calling", "running", "exporting"])
def test_an_interrupt_is_never_wrapped(tmp_path: Path, place: str) -> None:
    (tmp_path / "net.py").write_text(INTERRUPTED.replace("PLACE", repr(place)))
    with pytest.raises(KeyboardInterrupt):
        lower(f"{tmp_path / 'net.py'}:net", U55, cache=Cache(tmp_path / "cache"))


@pytest.mark.slow
def test_a_temporary_folder_vela_cannot_take_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "with blank").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "with blank"))
    with pytest.raises(ToolError, match="has a blank in its name"):
        lower(f"{MODELS}:add", U55, cache=Cache(tmp_path / "cache"))
    assert list((tmp_path / "with blank").iterdir()) == []


# --- Programs of several methods: each is quantised, delegated and mapped on its own; shared constants are stored once.

NAMES = ("encode", "score", "encode_again", "rank", "rank_again")


@pytest.mark.slow
def test_each_method_is_lowered_by_itself(lowered: Lowered) -> None:
    artifact = lowered("methods")
    assert tuple(method.name for method in artifact.methods) == NAMES
    assert artifact.method == "encode", "there is no forward, so the first is meant"
    ids = [row.id for name in NAMES for row in artifact.of(name).npu_ops]
    assert len(set(ids)) == len(ids) > 0, "also of two delegates with equal blobs"
    for name in NAMES:
        view = artifact.of(name)
        assert view.plan.name == name
        assert (view.pte, view.sha256) == (artifact.pte, artifact.sha256)
        on_cpu = name.startswith("rank")
        assert [len(view.delegates), view.scheme] == ([0, None] if on_cpu else [1, "a8w8"])
        (answer,) = Reference(view).run(view.example_inputs).outputs
        (expected,) = view.floating
        allowed = 1e-6 if on_cpu else 0.02  # float32, and eight bits of the range
        assert np.abs(answer - expected).max() <= allowed * np.ptp(expected)


@pytest.mark.slow
def test_each_method_has_a_partitioner_of_its_own(lowered: Lowered) -> None:
    artifact = lowered("partitioned")
    whole, parts = artifact.of("all"), artifact.of("some")
    assert set(whole.delegated) - set(parts.delegated) == {"aten.sigmoid.default"}
    assert (len(whole.delegates), len(parts.delegates)) == (1, 2), "the sigmoid stands between two"
    assert "aten::sigmoid.out" not in whole.cpu_ops
    assert parts.cpu_ops.count("aten::sigmoid.out") == 1
    answers = [Reference(program).run(program.example_inputs).outputs[0] for program in (whole, parts)]
    assert np.abs(answers[0] - answers[1]).max() <= 0.02 * np.ptp(answers[0])


# --- Tensors without elements are refused with the operation and the line; what still crashes Vela is named as well.

NET = """
import torch
from torch import nn
from ethos_hil.lowering.testing.function_module import module_of

def of(function, *shape):
    return module_of(function).eval(), (torch.rand(*shape),)

def empty_input(): return of(lambda x: x + x, 0, 4)
def empty_slice(): return of(lambda x: x[:, 2:2] + 1.0, 1, 4)
def empty_part(): return of(lambda x: x.unbind(1)[1][:, :2] * x.split([4, 0], 2)[1].sum(), 1, 2, 4)
def empty_rest(): return of(lambda x: torch.cat([x, x[:, :0]], 1) + 1.0, 1, 4)
def mean_of_nothing(): return of(lambda x: x.mean(1), 2, 0)
def statistics(): return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).eval(), (torch.rand(1, 3, 2, 2),)
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


@pytest.mark.slow
def test_inputs_and_results_without_elements_are_refused_and_what_is_dropped_is_not(
    net: Path, tmp_path: Path, recorded: Recorded
) -> None:
    cache = Cache(tmp_path / "cache")
    targets = U55, EthosU.parse("ethos-u85-256"), TosaSpec.parse("TOSA-1.0+INT")
    asks = [partial(lower, f"{net}:empty_input", target, cache=cache) for target in targets]
    results = "empty_slice", "empty_part", "mean_of_nothing"
    asks += [partial(lower, f"{net}:{name}", U55, cache=cache) for name in results]
    recorded.check(refusals(*asks, folder=tmp_path))
    assert lower(f"{net}:empty_rest", U55, cache=cache).npu_ops
    assert lower(f"{net}:statistics", TosaSpec.parse("TOSA-1.0+FP"), cache=cache).delegates


@pytest.mark.proof
def test_a_crash_of_vela_while_a_model_is_lowered_names_operation_and_line(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ethosu, "refuse_empty", lambda *arguments: None)
    with pytest.raises(VelaCrash) as caught:
        lower(f"{net}:empty_input", U55, cache=Cache(tmp_path / "cache"))
    message = caught.value.message
    assert message.startswith("Vela 5.1.0 crashed with SIGSEGV (Segmentation fault) on TOSA operator ")
    assert "(aten.add.Tensor at net.py:" in message
    assert (caught.value.kind, caught.value.exit_status) == ("compile", 2)
    assert not list((tmp_path / "cache").rglob("*.pte"))
