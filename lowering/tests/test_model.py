"""Loading a MODEL: every wrong one gives one clear line."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.model.torch_model import Method, ProgramFile, TorchModel, from_module, load_model
from ethos_hil.lowering.tests.conftest import DATA, MODELS, refusals

USER_FILE = """
import torch
from neighbour import WIDTH
from ethos_hil.lowering.model import Method

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(WIDTH, 2)
        self.dropout = torch.nn.Dropout(0.5)
    def forward(self, x):
        return self.dropout(self.linear(x))

def good(): return Net(), (torch.ones(1, 4),)
def with_calibration(): return Net(), (torch.ones(1, 4),), [(torch.zeros(1, 4),), (torch.ones(1, 4),)]
def single_tensor(): return Net(), torch.ones(1, 4)
def raises(): raise KeyError("weights")
def raises_deep():
    return torch.load("/no/such/weights.pt")
def nothing(): pass
def module_only(): return Net()
def swapped(): return (torch.ones(1, 4),), Net()
def number_input(): return Net(), (torch.ones(1, 4), 3)
def dictionary_inputs(): return Net(), {"x": torch.ones(1, 4)}
def wrong_shape(): return Net(), (torch.ones(1, 5),)
def wrong_calibration(): return Net(), (torch.ones(1, 4),), [(torch.ones(2, 4),)]
def tensor_calibration(): return Net(), (torch.ones(1, 4),), torch.ones(3, 4)
def takes_arguments(size): return Net(), (torch.ones(1, size),)
def leaves(): raise SystemExit("usage: net.py SIZE")
def methods():
    cpu = Method(Net(), (torch.ones(1, 4),), on_cpu=True)
    return {"one": (Net(), torch.ones(1, 4)), "two": cpu, "three": (Net(), torch.ones(1, 4), [(torch.ones(1, 4),)])}
def empty(): return {}
def misnamed(): return {"no name": good()}
def long(): return {"n" * 32: good()}
def numbered(): return {1: good()}
def incomplete(): return {"one": Net()}
def failing(): return {"one": good(), "two": wrong_shape()}
constant = 3
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    (tmp_path / "neighbour.py").write_text("WIDTH = 4\n")
    path = tmp_path / "net.py"
    path.write_text(USER_FILE)
    sys.modules.pop("neighbour", None)
    return path


def test_a_file_loads_with_its_neighbours_and_is_registered(user_file: Path) -> None:
    path = list(sys.path)
    model = load_model(f"{user_file}:good")
    assert isinstance(model, TorchModel)
    assert not model.default.module.training
    assert model.default.calibration_inputs == (model.default.example_inputs,)
    assert model.label == f"{user_file}:good"
    assert model.sources.root == user_file.parent
    assert sys.modules[type(model.default.module).__module__].__file__ == str(user_file)
    assert sys.path == path


def test_calibration_inputs_a_single_tensor_and_methods_by_name_are_accepted(user_file: Path) -> None:
    models = [load_model(f"{user_file}:{name}") for name in ("with_calibration", "single_tensor", "methods")]
    calibrated, single, several = (model for model in models if isinstance(model, TorchModel))
    assert len(calibrated.default.calibration_inputs) == 2
    assert len(single.default.example_inputs) == 1
    assert [(name, method.on_cpu) for name, method in several.methods.items()] == [
        ("one", False), ("two", True), ("three", False),
    ]  # fmt: skip
    assert all(isinstance(method, Method) and not method.module.training for method in several.methods.values())
    assert all(len(method.calibration_inputs) == 1 for method in several.methods.values())
    assert several.default.module is several.methods["one"].module
    assert torch.equal(several.default.example_inputs[0], torch.ones(1, 4))


def test_a_module_in_the_current_folder_loads(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(user_file.parent)
    monkeypatch.delitem(sys.modules, "net", raising=False)
    assert isinstance(load_model("net:good"), TorchModel)
    sys.modules.pop("net", None)


def test_a_program_file_is_taken_as_it_is() -> None:
    program = load_model(str(DATA / "add.pte"))
    assert isinstance(program, ProgramFile)
    assert program.data == (DATA / "add.pte").read_bytes()


WRONG = (
    "goof", "constant", "raises", "raises_deep", "leaves", "nothing", "module_only", "swapped", "number_input",
    "dictionary_inputs", "wrong_shape", "wrong_calibration", "tensor_calibration", "takes_arguments", "empty",
    "misnamed", "long", "numbered", "incomplete", "failing",
)  # fmt: skip


@pytest.mark.parametrize("function", WRONG)
def test_what_a_function_does_wrong_is_said_with_its_line(user_file: Path, function: str, recorded: Recorded) -> None:
    recorded.check(refusals(lambda: load_model(f"{user_file}:{function}"), folder=user_file.parent))


def test_what_does_not_exist_is_named(recorded: Recorded) -> None:
    names = (
        "model", "", ":good", "no_such_file.py:good", "no_such_model.pte", "no_such_model.pt2", "no_such_module:good",
        "lowering.no_such_part:good", f"{MODELS.with_name('know_model.py')}:add",
    )  # fmt: skip
    recorded.check(refusals(*(partial(load_model, name) for name in names), folder=MODELS.parent))


def test_a_file_that_cannot_be_imported_names_the_line(tmp_path: Path, recorded: Recorded) -> None:
    texts = "def f(:\n    pass\n", "x = 1\nimport no_such_dependency\n", "x = 1\n\nraise OSError('disk')\n"
    names = []
    for number, text in enumerate(texts):
        (tmp_path / f"bad{number}.py").write_text(text)
        names.append(f"{tmp_path}/bad{number}.py:f")
    recorded.check(refusals(*(partial(load_model, name) for name in names), folder=tmp_path))


def test_files_that_are_no_models_are_refused_in_one_clear_line(tmp_path: Path, recorded: Recorded) -> None:
    names = ["damaged0.pt2", "damaged1.pt2", "damaged2.pt2", "pipe.pte", "pipe.pt2", "pipe.py", "large.pte"]
    for name, data in zip(names, (b"", b"not a zip archive", b"PK\x03\x04" + bytes(100)), strict=False):
        (tmp_path / name).write_bytes(data)
    for name in names[3:6]:
        os.mkfifo(tmp_path / name)
    with (tmp_path / "large.pte").open("wb") as file:
        file.truncate(60 << 30)
    texts = [f"{tmp_path}/{name}{':f' if name.endswith('.py') else ''}" for name in names]
    recorded.check(refusals(*(partial(load_model, text) for text in texts), folder=tmp_path))


def test_objects_at_hand_are_checked_alike() -> None:
    with pytest.raises(UsageError, match="failed"):
        from_module(torch.nn.Linear(3, 2), (torch.ones(1, 4),))
    assert from_module(torch.nn.Linear(4, 2), (torch.ones(1, 4),)).label == "model"
