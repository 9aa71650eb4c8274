"""A model is lowered by another environment, and all that is known of it is what that environment says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from ethos_hil.base.errors import CompileError, ToolError, UsageError
from ethos_hil.base.question import Question
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.run import run
from ethos_hil.harness.scan.tests.small_wheels import only_from, wheel
from ethos_hil.harness.subjects import process
from ethos_hil.harness.subjects.process import SubjectModules
from ethos_hil.harness.subjects.subject import LoweringSubject
from ethos_hil.lowering.cache.environments import KeptEnvironments, pip_install
from ethos_hil.lowering.conditions.process import silent
from ethos_hil.lowering.lower import host_modules
from ethos_hil.lowering.model.torch_model import TorchModel, from_module, load_model
from ethos_hil.lowering.tests.conftest import MODELS
from ethos_hil.lowering.upstream.patches.patch import VARIABLE

OWN = (f"python={sys.executable}",)
"""A subject that needs no download: this Python, in a process of its own."""
FORMS = (
    ("executorch==1.5.0",), ("executorch==1.5.0", "ethos-u-vela==5.2.0"), ("Ethos_U_Vela == 5.2.0",),
    ("python=/opt/bin/python",), ("path=nightly/a.whl", "path=b", "ethos-u-vela==5.2.0"),
)  # fmt: skip
MEANINGLESS = (
    ("executorch=1.5.0",), ("executorch",), ("torch==2.14.0",), ("executorhc==1.5.0",), ("python==3.12",),
    ("executorch==1.5.0", "executorch==1.5.1"), ("python=/a", "python=/b"), ("python=/a", "executorch==1.5.0"),
    ("python=/a", "path=b"), ("path=",),
)  # fmt: skip


def test_a_subject_is_versions_or_a_python(recorded: Recorded) -> None:
    assert LoweringSubject.parse(()) is None
    recorded.check("\n".join(str(LoweringSubject.parse(form)) for form in FORMS))
    recorded.check_refusals(MEANINGLESS, LoweringSubject.parse, name="refused")


def test_a_model_by_name_is_lowered_as_it_is_here_and_kept_in_one_cache() -> None:
    stages: list[str] = []
    asked = Question(f"{MODELS}:add")
    here, there = lower_question(asked), lower_question(asked.but(subject=OWN), progress=stages.append)
    assert there.artifact.pte == here.artifact.pte
    assert there.artifact.npu_ops == here.artifact.npu_ops
    assert there.artifact.key == here.artifact.key
    assert there.source is None
    assert there.repeat == here.repeat
    assert there.notes[-1].startswith(f"lowered by {sys.executable}: python 3.")


def test_a_model_in_memory_goes_there_as_data() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU()).eval()
    sets = [(torch.randn(1, 2, 6, 6).to(memory_format=torch.channels_last),) for _ in range(3)]
    model = from_module(module, sets[0], sets)
    here, there = (lower_question(Question(model, subject=subject)) for subject in ((), OWN))
    assert there.artifact.delegates[0].tosa == here.artifact.delegates[0].tosa
    assert there.artifact.question == here.artifact.question
    assert [op.aten_ops for op in there.artifact.npu_ops] == [op.aten_ops for op in here.artifact.npu_ops]
    report = run(Question(model, subject=OWN, npu="ethos-u85-256"))
    assert report.record.verdict is Verdict.VERIFIED


def test_layers_are_compared_there_as_they_are_here() -> None:
    """A second evaluation in the same process begins with nothing counted."""
    asked = Question(f"{MODELS}:known", subject=OWN)
    model = load_model(asked.label)
    assert isinstance(model, TorchModel)
    inputs = [tensor.numpy() for tensor in model.default.example_inputs]
    here = host_modules(model, model.default_name, asked).layers
    assert here is not None
    here.add(inputs)
    for _ in range(2):
        there = SubjectModules(asked, model.default_name).layers
        assert there is not None
        there.add(inputs)
        assert there.worst_first() == here.worst_first() != []


def test_a_bare_subject_is_verified_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_processes", {})
    monkeypatch.setenv(VARIABLE, "bare")
    record = run(Question(f"{MODELS}:add", subject=OWN)).record
    assert record.verdict is Verdict.VERIFIED
    assert record.artifact is not None
    assert (record.artifact.depth, record.artifact.lowering[-5:]) == ("bare", " bare")
    assert any(note.startswith("lowered bare") for note in record.notes)


def test_its_errors_are_errors_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: Recorded) -> None:
    with pytest.raises(CompileError, match=r"lowering the model failed.*while_loop") as caught:
        lower_question(Question(f"{MODELS}:looping", subject=OWN))
    assert "only an Ethos-U85 runs loops" in (caught.value.hint or "")
    with pytest.raises(UsageError, match="has no function 'nothing'"):
        lower_question(Question(f"{MODELS}:nothing", subject=OWN))
    with pytest.raises(UsageError, match="there is no such file"):
        lower_question(Question(f"{MODELS}:add", subject=("python=/nowhere",)))
    for name, text, problem in (
        ("ended", "exit 7", "ended its process with status 7"),
        ("without", f'exec {sys.executable} -S "$@"', "cannot lower: ModuleNotFoundError: No module named 'numpy'"),
    ):
        python = tmp_path / name
        python.write_text(f"#!/bin/sh\n{text}\n")
        python.chmod(0o755)
        with pytest.raises(ToolError, match=problem):
            lower_question(Question(f"{MODELS}:add", subject=(f"python={python}",)))


def test_what_a_version_requires_comes_with_it_and_torch_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    more = {"executorch/__init__.py": ""}
    wheel(wheels, "executorch", "9.1.0", ["small-thing>=2", "numpy>=2.0"], more)
    wheel(wheels, "executorch", "9.2.0", ["torch>=99"], more)
    wheel(wheels, "small-thing", "1.5")
    wheel(wheels, "small-thing", "2.5")
    for name, value in only_from(wheels).items():
        monkeypatch.setenv(name, value)
    environments = KeptEnvironments(tmp_path / "kept")
    path = LoweringSubject({"executorch": "9.1.0"}).path(environments, silent)
    assert [Path(part).parent.name.partition("-cpython")[0] for part in path[:2]] == [
        "executorch-9.1.0", "small-thing-2.5"
    ]  # fmt: skip
    assert list(path[2:]) == sys.path
    with pytest.raises(UsageError, match=r"requires torch>=99; torch 2\.\S+ is installed") as caught:
        LoweringSubject({"executorch": "9.2.0"}).path(environments, silent)
    assert "--with python=" in (caught.value.hint or "")
    with pytest.raises(UsageError, match=r"executorch==9\.3\.0: pip cannot install it"):
        LoweringSubject({"executorch": "9.3.0"}).path(environments, silent)


def test_a_wheel_and_a_folder_that_pip_filled_are_laid_over_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two builds of one version are two environments, and what the user gives is not replaced by what is required."""
    (tmp_path / "wheels").mkdir()
    for name, value in only_from(tmp_path / "wheels").items():
        monkeypatch.setenv(name, value)
    environments = KeptEnvironments(tmp_path / "kept")
    more = {"executorch/__init__.py": ""}
    built = wheel(tmp_path, "executorch", "9.1.0.dev1+abc", ["ethos-u-vela==9.0.0"], more)
    folder = tmp_path / "folder"
    vela = wheel(tmp_path, "ethos-u-vela", "9.3.0", more={"ethosu/__init__.py": ""})
    pip_install(str(vela), folder, tmp_path, alone=True)

    def laid(*paths: Path) -> tuple[str, ...]:
        path = LoweringSubject(paths=tuple(map(str, paths))).path(environments, silent)
        assert list(path[len(paths) :]) == sys.path
        return path[: len(paths)]

    first = laid(built, folder)
    assert first[1] == str(folder)
    assert (Path(first[0]) / "executorch.py").read_text() == "version = '9.1.0.dev1+abc'\n"
    wheel(tmp_path, "executorch", "9.1.0.dev1+abc", ["ethos-u-vela==9.0.0"], {**more, "more.py": ""})
    second = laid(built, folder)
    assert second[0] != first[0]
    assert (Path(second[0]) / "more.py").exists()
    assert laid(built, folder) == second
    newest = wheel(tmp_path, "executorch", "9.1.0.dev10", (), more)
    wheel(tmp_path, "executorch", "9.1.0.dev9", (), more)
    assert laid(tmp_path / "executorch-*.whl") == laid(newest)


def test_what_cannot_be_laid_over_this_environment_is_one_clear_error(tmp_path: Path, recorded: Recorded) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("")
    other = wheel(tmp_path, "requests", "9.1.0")
    broken = tmp_path / "executorch-9.1.0-cp27-cp27m-win32.whl"
    broken.write_bytes(b"")
    without = wheel(tmp_path, "ethos-u-vela", "9.1.0")
    paths = [
        tmp_path / "nothing.whl",
        tmp_path / "nothing-*.whl",
        tmp_path / "empty",
        tmp_path / "text.txt",
        other,
        broken,
        without,
    ]

    def lay(path: str) -> None:
        LoweringSubject(paths=(str(tmp_path / path),)).path(KeptEnvironments(tmp_path / "kept"), silent)

    recorded.check_refusals([str(path.relative_to(tmp_path)) for path in paths], lay, folders=[tmp_path])
