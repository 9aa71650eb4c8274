"""The public API: models of every form, typed errors, and nothing heavy imported before it is used."""

from __future__ import annotations

import copy
import dataclasses
import functools
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import ethos_hil
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.cli.tests import upstream_programs
from ethos_hil.harness.testing.small_model import MODEL
from ethos_hil.lowering.testing.function_module import module_of


class Net(nn.Module):
    """With a batch norm, which behaves otherwise in training, and a buffer that counts calls."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


LINE = next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "torch.relu(self.norm" in line)


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(1)
    return Net()


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.randn(1, 3, 8, 8, generator=torch.Generator().manual_seed(2))


@pytest.fixture(scope="module")
def result(net: Net, x: torch.Tensor) -> ethos_hil.Result:
    return ethos_hil.run(net, x)


def test_a_module_is_verified_with_all_that_is_known_of_the_run(result: ethos_hil.Result, x: torch.Tensor) -> None:
    assert (result.verified, result.verdict) == (True, Verdict.VERIFIED)
    assert result.assert_verified() is result
    (output,) = result.outputs
    assert (output.shape, output.dtype) == ((1, 8, 6, 6), np.float32)
    np.testing.assert_array_equal(output, result.references[0][0])
    assert result.cycles == result.ops["cycles"].sum() > 0
    assert result.cycle_provenance == "modelled"
    assert set(result.ops["source"]) == {f"test_api.py:{LINE}"}
    assert result.artifact.pte[4:6] == b"ET"
    assert repr(result).startswith("<Result verified: Net for ethos-u55-128 on virtual, ")


def test_the_users_module_is_as_it_was(x: torch.Tensor) -> None:
    module = Net()
    module.norm.eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    ethos_hil.run(module, x)
    assert module.training
    assert not module.norm.training
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())


def test_every_form_of_a_model(net: Net, x: torch.Tensor, result: ethos_hil.Result, tmp_path: Path) -> None:
    """Quantised modules, and files of them, are in harness/cli/tests/test_forms.py."""
    exported = torch.export.export(copy.deepcopy(net).eval(), (x,))
    torch.export.save(exported, tmp_path / "net.pt2")
    (tmp_path / "lowered.pte").write_bytes(result.artifact.pte)
    (tmp_path / "net.py").write_text(MODEL)
    for model in (exported, tmp_path / "net.pt2", str(tmp_path / "lowered.pte")):
        answer = ethos_hil.run(model, x).assert_verified()
        assert answer.outputs[0].shape == (1, 8, 6, 6), model
        assert answer.ops["aten_ops"].map(len).min() > 0, model
    module, (example,) = upstream_programs.quantised()
    assert ethos_hil.run(torch.export.export(module, (example,)), example).verified
    assert ethos_hil.run(f"{tmp_path}/net.py:net").verified


def test_an_open_target_runs_many_models_on_one_boot(net: Net, x: torch.Tensor) -> None:
    with ethos_hil.target(npu="ethos-u55-256") as board:
        first, second = board.run(net, x), board.run(nn.Conv2d(3, 2, 1), x)
        assert (first.verified, second.verified) == (True, True)
        assert {first.record.npu, second.record.npu} == {"ethos-u55-256"}
        assert second.outputs[0].shape == (1, 2, 8, 8)
        assert board._pool is not None


def test_a_free_batch_runs_at_several_sizes_on_one_boot(net: Net, x: torch.Tensor) -> None:
    batch = torch.export.Dim("batch", max=8)
    program = torch.export.export(copy.deepcopy(net).eval(), (x.expand(2, -1, -1, -1),), dynamic_shapes=({0: batch},))
    with ethos_hil.target(npu="ethos-u55-256") as board:
        answers = {size: board.run(program, dim=(f"batch={size}",)) for size in (1, 2, 8)}
        asked = board.run(program, x.repeat(4, 1, 1, 1), dim=("batch=4",))
    for size, answer in {**answers, 4: asked}.items():
        assert answer.verified
        assert answer.outputs[0].shape == (size, 8, 6, 6)
        assert answer.record.question is not None
        assert answer.record.question.dim == (f"batch={size}",)
        assert [note for note in answer.record.notes if "free dimension" in note] == [
            f"free dimension x[0] (1 to 8) runs at {size}, as asked"
        ]
    assert np.array_equal(answers[8].outputs[0][0], answers[8].outputs[0][7]), "the example's picture, repeated"


def test_lower_and_preflight_do_not_run(net: Net, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ethos_hil.harness.targets.virtual.VirtualTarget._run", lambda *_, **__: pytest.fail("it ran"))
    artifact = ethos_hil.lower(net, x, npu="ethos-u85-256")
    assert str(artifact.npu) == "ethos-u85-256"
    survey = ethos_hil.preflight(net, x)
    assert survey.ok
    assert {check.name for check in survey.checks} >= {"npu", "kernels", "package"}
    assert not ethos_hil.preflight(module_of(lambda x: x[x > 0]), x).ok, "its kernel is refused"


BAD: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((nn.ReLU(),), {}), ((nn.ReLU(), []), {}), ((nn.ReLU(), "gone.npz"), {}), ((nn.ReLU(), ("x",)), {}),
    ((3,), {}), ((nn.Conv2d(3, 3, 1), torch.zeros(1, 4, 2, 2)), {}), (("nowhere.py:net",), {}),
    *(((nn.ReLU(), torch.zeros(1)), options) for options in (
        {"npu": "ethos-u99"}, {"target": "corstone-3000"}, {"memory_mode": "Dedicated_Sram"}, {"repeat": 0},
        {"repeat": 10**12}, {"timeout": float("nan")}, {"timeout": float("inf")},
    )),
]  # fmt: skip


def test_bad_arguments_are_usage_errors_of_one_line(recorded: Recorded) -> None:
    recorded.check_refusals(BAD, lambda row: ethos_hil.run(*row[0], **row[1]), ethos_hil.UsageError)


def test_a_wrong_answer_is_a_result_and_raised_by_assert_verified(
    net: Net, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ethos_hil.harness.fvp_stand_in.tests.zeros import Zeros
    from ethos_hil.harness.targets.virtual import VirtualTarget

    monkeypatch.setattr(VirtualTarget, "__init__", functools.partialmethod(VirtualTarget.__init__, engine=Zeros))
    wrong = ethos_hil.run(net, x)
    assert (wrong.verdict, wrong.failure is None) == (Verdict.FAILED, False)
    with pytest.raises(ethos_hil.NotVerified) as raised:
        wrong.assert_verified()
    assert raised.value.kind is FailureKind.MISMATCH
    assert raised.value.result is wrong
    assert f"test_api.py:{LINE}" in wrong._repr_html_()
    assert "mismatch" in repr(wrong)


def test_a_profile_and_its_comparison(net: Net, x: torch.Tensor, result: ethos_hil.Result) -> None:
    by_prefix = ethos_hil.profile(net, x, found_by="prefix", events=["npu_active"]).assert_verified()
    assert {op.method for op in by_prefix.record.ops} == {"prefix"}
    assert by_prefix.record.profile is not None
    assert by_prefix.cycles == result.cycles
    comparison = ethos_hil.compare(ethos_hil.profile(net, x).record, by_prefix.record)
    assert comparison.equal
    assert result.record.profile is None, "a run is not a profile"


def test_control_characters_and_markup_are_shown_and_have_no_effect(result: ethos_hil.Result) -> None:
    bad = "\x1b]0;owned\x07\u202e<script>"
    op = dataclasses.replace(result.record.ops[0], module=bad, source=bad, sources=(bad,))
    hostile = dataclasses.replace(result, report=result.report.with_facts(model=bad, notes=(bad,), ops=(op,)))
    page = hostile._repr_html_()
    assert page.count(r"\x1b]0;owned\x07\u202e&lt;script&gt;") == 4
    assert "<script>" not in page
    for shown in (page, repr(hostile)):
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import sys, ethos_hil; print(sorted(n for n in sys.modules if n.startswith('ethos_hil') or n in " \
        "('torch', 'numpy', 'pandas', 'rich', 'typer', 'executorch')))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "['ethos_hil']"


def test_every_public_name_is_there_and_typed() -> None:
    for name in ethos_hil.__all__:
        value = getattr(ethos_hil, name)
        assert value.__doc__, name
        assert name in dir(ethos_hil)
    with pytest.raises(AttributeError, match="no attribute 'runn'"):
        _ = ethos_hil.runn  # type: ignore[attr-defined]
