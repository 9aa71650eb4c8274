"""Everything that decides an artifact moves its key: each test changes one thing.

The digest of the lowering code is part of the key: no edit of that code may leave the digest as it was.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import ethos_hil.lowering
from ethos_hil.base.environment import SET
from ethos_hil.base.errors import ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import CompileOptions, LoweringOptions
from ethos_hil.lowering.cache import key as module
from ethos_hil.lowering.cache import versions as code
from ethos_hil.lowering.cache.key import ModelIdentity, identity
from ethos_hil.lowering.cache.versions import NOT_SHIPPED, installed_digest, source_digest, versions
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.model.torch_model import TorchModel, from_module, load_model
from ethos_hil.lowering.upstream.export import export
from ethos_hil.lowering.upstream.toolchain import EthosUToolchain, TosaToolchain
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup


class Scaled(torch.nn.Module):
    """Each argument is one thing that decides an artifact."""

    def __init__(
        self, factor: float = 2.0, weight: float = 1.0, offset: float = 1.0, name: str = "weight", width: int = 4,
        operator: Callable[..., Any] = torch.add,
    ) -> None:  # fmt: skip
        super().__init__()
        self.factor, self.name, self.operator = factor, name, operator
        self.register_parameter(name, torch.nn.Parameter(torch.full((width,), weight)))
        self.register_buffer("offset", torch.full((1,), offset))

    def forward(self, x: torch.Tensor) -> Any:
        return self.operator(x * self.get_parameter(self.name) * self.factor, self.get_buffer("offset"))


def scaled(example: float = 1.0, calibration: float = 1.0, width: int = 4, **parts: Any) -> TorchModel:
    inputs = [(torch.full((1, width), value),) for value in (example, calibration)]
    return from_module(Scaled(width=width, **parts), inputs[0], [inputs[1]])


def identity_of(
    model: TorchModel, target: tuple[str, ...] = ("vela",), wishes: tuple[str, ...] = ("a8w8",)
) -> ModelIdentity:
    exported = {name: export(method.module, method.example_inputs) for name, method in model.methods.items()}
    return identity(exported, model, target, wishes)


def key_of(model: TorchModel, target: tuple[str, ...] = ("vela",)) -> str:
    return identity_of(model, target).key


def with_method(**changes: Any) -> TorchModel:
    model = scaled()
    return dataclasses.replace(model, methods={"forward": dataclasses.replace(model.methods["forward"], **changes)})


def named(*names: str) -> TorchModel:
    model = scaled()
    return dataclasses.replace(model, methods=dict.fromkeys(names, model.methods["forward"]))


OTHERS: dict[str, Callable[[], TorchModel]] = {
    "a constant": lambda: scaled(factor=3.0),
    "a weight": lambda: scaled(weight=1.0 + 1e-7),
    "a buffer": lambda: scaled(offset=2.0),
    "a weight's name": lambda: scaled(name="heaviness"),
    "a shape": lambda: scaled(width=5),
    "an operator": lambda: scaled(operator=torch.sub),
    "the example": lambda: scaled(example=3.0),
    "the calibration": lambda: scaled(calibration=3.0),
    "what stays on the CPU": lambda: with_method(on_cpu=True),
    "what is left to it": lambda: with_method(leave=("aten.mul.Tensor",)),
    "a method's name": lambda: named("encode"),
    "a method beside it": lambda: named("forward", "encode"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_each_property_of_the_model_moves_the_key_and_is_another_question(name: str) -> None:
    other, usual = identity_of(OTHERS[name]()), identity_of(scaled())
    assert other.key != usual.key
    assert other.question != usual.question


@pytest.mark.parametrize("name", versions())
def test_each_version_moves_the_key_and_is_no_part_of_the_question(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = identity_of(scaled())
    changed = versions() | {name: "another"}
    monkeypatch.setattr(module, "versions", lambda: changed)
    after = identity_of(scaled())
    assert (after.key != before.key, after.question == before.question) == (True, True)


def test_nor_is_the_target_but_how_it_is_quantised_is() -> None:
    """The order of methods is in the key, too."""
    assert key_of(named("one", "two")) != key_of(named("two", "one"))
    usual = identity_of(scaled()).question
    assert identity_of(scaled(), ("another",)).question == usual
    assert identity_of(scaled(), wishes=("a16w8",)).question != usual


def test_code_that_moves_to_another_line_is_the_same_question_and_to_another_folder_the_same_key(
    tmp_path: Path,
) -> None:
    text = "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return torch.relu(x)\n"
    text += "def net():\n    return Net(), (torch.ones(1, 4),)\n"

    def written(name: str, before: str = "", after: str = "") -> ModelIdentity:
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.py").write_text(before + text + after)
        model = load_model(f"{tmp_path / name / 'net.py'}:net")
        assert isinstance(model, TorchModel)
        return identity_of(model)

    first, lower = written("first"), written("second", before="# one more line\n")
    assert (lower.key != first.key, lower.question == first.question) == (True, True)
    assert written("third", after="# a comment below the model\n") == first


def test_each_setting_of_vela_moves_the_key(tmp_path: Path) -> None:
    shipped = VelaIni.shipped().text
    (tmp_path / "a.ini").write_text(shipped)
    (tmp_path / "b.ini").write_text(shipped + "\n")
    settings = [
        CompileOptions(system_config="Ethos_U55_Deep_Embedded"),
        CompileOptions(vela_ini=tmp_path / "a.ini"),
        CompileOptions(vela_ini=tmp_path / "b.ini"),
        CompileOptions(optimise="Size"),
        CompileOptions(optimise="Performance"),
        CompileOptions(arena_cache_size=65536),
        CompileOptions(arena_cache_size=65537),
        CompileOptions(vela_flags=("--disable-cascading",)),
    ]
    u55, shared = EthosU.parse("ethos-u55-128"), MemoryMode("Shared_Sram")
    setups = [
        VelaSetup.default(u55, shared),
        VelaSetup.default(u55, MemoryMode("Sram_Only")),
        *(VelaSetup.default(EthosU.parse(name), shared) for name in ("ethos-u55-256", "ethos-u65-256")),
        *(VelaSetup.of(replace(options, npu="ethos-u55-128", memory_mode="Shared_Sram")) for options in settings),
    ]
    usual, wide = (LoweringOptions("", scheme=scheme) for scheme in ("a8w8", "a16w8"))
    toolchains = [
        *(EthosUToolchain(setup, usual) for setup in setups),
        EthosUToolchain(setups[0], wide),
        TosaToolchain(TosaSpec.parse("TOSA-1.0+INT"), usual),
        TosaToolchain(TosaSpec.parse("TOSA-1.0+INT"), wide),
        TosaToolchain(TosaSpec.parse("TOSA-1.0+FP"), usual),
    ]
    assert len({key_of(scaled(), toolchain.key) for toolchain in toolchains}) == len(toolchains)


# --- The code that lowers, and what is installed.

HERE = Path(ethos_hil.lowering.__file__).parent
MODULES = sorted(
    path.relative_to(HERE)
    for path in HERE.rglob("*.py")
    if not {"tests", "testing"} & set(path.relative_to(HERE).parts)
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(HERE, tmp_path / "lowering", ignore=shutil.ignore_patterns("__pycache__")))


def test_an_edit_of_any_module_however_deep_moves_the_digest(copy: Path) -> None:
    assert len({len(module.parts) for module in MODULES}) > 1, "no module in a subpackage is left to test"
    digests = {source_digest(copy)}
    for path in MODULES:
        with (copy / path).open("a") as file:
            file.write("# an edit\n")
        digest = source_digest(copy)
        assert digest not in digests, f"{path} is not part of the digest"
        digests.add(digest)


def test_what_no_wheel_has_does_not_move_the_digest(copy: Path) -> None:
    """A laptop's checkout and CI's wheel of one commit are one state, and share what is lowered."""
    whole = source_digest(copy)
    (copy / "tests" / "test_more.py").write_text("")
    (copy / "testing" / "more.py").write_text("")
    (copy / "__pycache__").mkdir(exist_ok=True)
    (copy / "__pycache__" / "versions.cpython-311.pyc").write_bytes(b"?")
    assert source_digest(copy) == whole
    shutil.rmtree(copy / "tests")
    shutil.rmtree(copy / "testing")
    assert source_digest(copy) == whole


def test_the_folders_that_do_not_count_are_those_that_setuptools_leaves_out() -> None:
    project = tomllib.loads((HERE.resolve().parent / "pyproject.toml").read_text())
    left_out = project["tool"]["setuptools"]["packages"]["find"]["exclude"]
    assert {pattern[2:].removesuffix(".*") for pattern in left_out if pattern.startswith("*.")} == NOT_SHIPPED


def test_the_versions_of_an_artifact_have_the_digest_of_the_code_that_runs() -> None:
    assert versions()["ethos-hil-lowering"] == source_digest(*code._PARTS)[:16]


def test_another_build_of_the_same_version_moves_the_digest() -> None:
    record = "vela/a.py,sha256=abc,10\nvela/b.py,sha256=def,11\n"
    assert installed_digest(record) != installed_digest(record.replace("def", "fed"))
    assert installed_digest(record) == installed_digest(record + "../../../bin/vela,sha256=abc,200\n")


@pytest.mark.parametrize("package", SET)
def test_each_package_that_makes_artifacts_counts(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its version, and by what was installed of it."""

    class Other(importlib.metadata.Distribution):
        def read_text(self, filename: str) -> str | None:
            return {"RECORD": "other,sha256=0,1\n", "METADATA": "Version: 0\n"}.get(filename)

        def locate_file(self, path: str | os.PathLike[str]) -> Path:
            return Path(path)

    real = importlib.metadata.distribution
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Other() if name == package else real(name))
    monkeypatch.setattr(code, "version", code.version.__wrapped__)
    mine = code._find_versions.__wrapped__()
    assert mine[package] == "0"
    assert {name for name, value in mine.items() if value != versions()[name]} == {package, "ethos-hil-installed"}


def test_a_package_counts_as_its_checkout_and_its_installed_sources_are_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The RECORD of an editable one says only where the checkout is: what was edited there makes another program."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(code, "version", code.version.__wrapped__)
    info, checkout = tmp_path / "site/ethos_u_vela-99.dist-info", tmp_path / "a checkout"
    files = {
        info / "METADATA": "Metadata-Version: 2.1\nName: ethos-u-vela\nVersion: 99\n",
        info / "RECORD": "__editable__.pth,sha256=abc,10\n",
        info / "direct_url.json": json.dumps({"dir_info": {"editable": True}, "url": checkout.as_uri()}),
        checkout / "ethosu/vela/scheduler.py": "cost = 1\n",
        checkout / "third-party/other.py": "",
        tmp_path / "site/ethosu/vela/scheduler.py": "cost = 1\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    before = code._find_versions.__wrapped__()
    assert before["ethos-u-vela"] == "99"
    (checkout / "third-party/other.py").write_text("other = 1\n")
    assert code._find_versions.__wrapped__() == before
    for edited in (checkout / "ethosu/vela/scheduler.py", tmp_path / "site/ethosu/vela/scheduler.py"):
        edited.write_text("cost = 22\n")
        now = code._find_versions.__wrapped__()
        assert {name for name, value in now.items() if value != before[name]} == {"ethos-hil-installed"}, edited
        before = now


def test_code_that_is_edited_after_the_process_began_keeps_no_artifact(monkeypatch: pytest.MonkeyPatch) -> None:
    code.check_source_unchanged()
    monkeypatch.setattr(code, "_SOURCE", "0" * 16)
    with pytest.raises(ToolError, match="was changed"):
        code.check_source_unchanged()


def test_patches_off_is_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ETHOS_HIL_PATCHES", raising=False)
    on = versions()
    monkeypatch.setenv("ETHOS_HIL_PATCHES", "off")
    assert versions() == on | {"ethos-hil-patches": "off"} != on
