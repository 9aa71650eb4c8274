"""The packages of the extra `models`: declared where they are needed, and named where they are missing."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import replace
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module, load_model
from ethos_hil.lowering.testing.function_module import keeping
from ethos_hil.suites.declare.model_case import Model
from ethos_hil.suites.declare.profile import PROFILES, parse
from ethos_hil.suites.models import test_models, test_photographs
from ethos_hil.suites.plugin.options import ANY_TEST
from ethos_hil.suites.tests.session import session
from ethos_hil.suites.trial.declared import DeclaredModel
from ethos_hil.suites.trial.run_trial import Trial

ROOT = Path(__file__).resolve().parents[3]
NEEDED = test_models.efficientnet_lite0.requires
HINT = "pip install 'ethos-hil[models]'"


@pytest.fixture
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a package appear not installed while the test runs."""
    package: str = request.param
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    return package


def test_the_extra_installs_them_and_make_setup_locks_them() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extra = {line.partition("=")[0].rstrip("~>") for line in project["project"]["optional-dependencies"]["models"]}
    locked = {line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines()}
    distributions = packages_distributions()
    for package in NEEDED:
        assert {name.lower() for name in distributions[package]} & extra & locked, package


@pytest.mark.parametrize("missing", NEEDED, indirect=True)
def test_the_model_cannot_be_made_without_it_and_its_test_is_skipped(missing: str) -> None:
    """The declared packages are needed, and a missing one is named by the command line and in the reason of a skip."""
    with pytest.raises(UsageError, match=missing) as raised:
        load_model("ethos_hil.suites.models:efficientnet_lite0")
    assert raised.value.hint == HINT
    for profile in PROFILES:
        record = Trial(DeclaredModel(profile, Path(__file__), test_models.efficientnet_lite0), ANY_TEST).run()
        assert (record.verdict, record.outputs) == ("skipped", ())
        assert record.failure is not None
        assert (record.failure.kind, record.failure.message) == ("capability", f"not installed: {missing}")
        assert record.failure.hint == HINT
    u55 = parse("U55_BI").npu
    assert u55 is not None
    assert test_photographs.lacking(ANY_TEST.but(npu=str(u55))) == f"not installed: {missing}: {HINT}"


def test_nothing_is_missing_here() -> None:
    """`make setup` installs all of them, so that a full test run skips no model."""
    for model in vars(test_models).values():
        if isinstance(model, Model):
            assert DeclaredModel(parse("MI"), Path(__file__), model).lacking is None, model.name


def test_the_session_says_why_and_is_not_red(tmp_path: Path) -> None:
    declaring = "from ethos_hil.suites.declare.model_case import Model\n"
    declaring += 'network = Model("network", "nowhere:nothing", requires=("no_such_package",))\n'
    (tmp_path / "test_network.py").write_text(declaring)
    result = session(tmp_path, "-rs", root=tmp_path)
    assert result.status == 0, result.output
    assert result.verdicts == {f"test_network_{name}": "skipped" for name in Model("any", "a:b").profiles}
    assert f"not installed: no_such_package: {HINT}" in result.output


# A model's declared delegation is compared with the compiled program: each difference is reported.


U55 = parse("U55_BI")
LEFT = {
    "aten::argmax.out": "the quantiser does not know argmax",
    "dim_order_ops::_to_dim_order_copy.out": "what argmax gives is an int64, and it stays on the CPU",
}


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    torch.manual_seed(0)
    assert isinstance(U55.target, EthosU)
    classifier = keeping(lambda module, x: module.scores(x).argmax(-1).int(), scores=nn.Linear(16, 4))
    artifact = lower(from_module(classifier, (torch.randn(1, 16),), label="classifier"), U55.target)
    assert "aten::argmax.out" in artifact.cpu_ops
    return artifact


def declared(**fields: Any) -> DeclaredModel:
    right = {"on_cpu": {"U55_BI": LEFT}}
    return DeclaredModel(U55, Path(__file__), Model("classifier", "nowhere:nothing", **{**right, **fields}))


DECLARED: dict[str, dict[str, Any]] = {
    "nothing left": {"on_cpu": {}},
    "left on another NPU": {"on_cpu": {"U85_BI": LEFT}},
    "more left": {"on_cpu": {"U55_BI": {**LEFT, "aten::topk.values": "another"}}},
    "two delegates": {"delegates": {"U55_BI": 2}},
    "less memory": {"scratch": 1},
    "more of the work on the NPU": {"min_npu_share": 1.1},
}


def test_a_wrong_declaration_is_told(artifact: Artifact, recorded: Recorded) -> None:
    """Else a compiler that delegates nothing would look like a model that needs no delegate."""
    exact = max(delegate.blob.scratch_size for delegate in artifact.delegates)
    assert declared(scratch=exact).problem(artifact) is None
    assert declared(min_npu_share=1.0).problem(artifact) is None
    answers = {what: declared(**fields).problem(artifact) for what, fields in DECLARED.items()}
    recorded.check(answers | {"no delegate": declared().problem(replace(artifact, delegates=()))})
