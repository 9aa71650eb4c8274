"""Loading a MODEL: every wrong one gives one clear line, and so does one whose bytecode is not what its file says."""

from __future__ import annotations

import os
import py_compile
import re
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.model.torch_model import Method, TorchModel, from_module, load_model
from ethos_hil.lowering.tests.conftest import MODELS, refusals
from ethos_hil.lowering.user_code.user_function import (
    Sources,
    check_bytecode,
    imported_files,
    is_framework_file,
    load_function,
)

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
def dictionary_inputs(): return Net(), {"y": torch.ones(1, 4)}
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
        "lowering.no_such_part:good", f"{MODELS.with_name('know_model.py')}:add", "builtins:exec",
        "sys:exit",
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


class Calling(torch.nn.Module):
    """Calls what it is given."""

    def __init__(self, called: object) -> None:
        super().__init__()
        self.called = called

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.called(x)  # type: ignore[operator]


X = torch.rand(1, 4)
SCRIPTED = torch.jit.script(torch.nn.Linear(4, 4))


@pytest.mark.parametrize(
    ("module", "inputs", "message"),
    [
        (SCRIPTED, X, "the module is TorchScript"),
        (torch.nn.Sequential(torch.nn.ReLU(), torch.jit.trace(torch.nn.ReLU(), X)), X, "1 is TorchScript"),
        (Calling(SCRIPTED), X, "called is TorchScript"),
        (Calling(torch.jit.trace(torch.relu, X)), X, "called is TorchScript"),
        (torch.nn.Linear(4, 4, device="meta"), X, "weight is on the device meta"),
        (torch.nn.Linear(4, 4), X.to("meta"), "example_inputs[0] is on the device meta"),
        (Calling(torch.nn.Parameter(X.to_sparse(), requires_grad=False)), X, "called has the layout sparse_coo"),
        (torch.nn.ReLU(), X.to_sparse(), "example_inputs[0] has the layout sparse_coo"),
        (torch.nn.ReLU(), torch.nested.nested_tensor([X[0]]), "example_inputs[0] is a nested tensor"),
        (torch.nn.ReLU(), X.to(torch.uint16), "example_inputs[0] has type uint16, which no program takes"),
        (torch.nn.ReLU(), X.bfloat16(), "example_inputs[0] has type bfloat16"),
        (torch.nn.ReLU(), X.to(torch.complex64), "example_inputs[0] has type complex64"),
        (torch.nn.ReLU(), torch.quantize_per_tensor(X, 0.1, 0, torch.qint8), "example_inputs[0] has type qint8"),
    ],
)
def test_what_cannot_be_exported_is_named(module: torch.nn.Module, inputs: torch.Tensor, message: str) -> None:
    """Sees red: "register_forward_pre_hook is not supported on ScriptModules", "aten::equal: attempted to run"."""
    with pytest.raises(UsageError, match=f"^model: {re.escape(message)}"):
        from_module(module, (inputs,))


class Labelled(torch.Tensor):
    """A class of tensors, as torchvision's images are."""


def test_an_input_may_be_of_a_class_of_its_own() -> None:
    (given,) = from_module(torch.nn.ReLU(), (X.as_subclass(Labelled),)).default.example_inputs
    assert type(given) is torch.Tensor
    assert given.equal(X)


def test_objects_at_hand_are_checked_alike() -> None:
    with pytest.raises(UsageError, match="failed"):
        from_module(torch.nn.Linear(3, 2), (torch.ones(1, 4),))
    assert from_module(torch.nn.Linear(4, 2), (torch.ones(1, 4),)).label == "model"


# --- Bytecode that Python runs in place of a text that is newer: it is noticed, and nothing else is.

OLD, NEW = "FACTOR = 2.0\n", "FACTOR = 0.5\n"
MODES = py_compile.PycInvalidationMode
TIMESTAMP, CHECKED, UNCHECKED = MODES.TIMESTAMP, MODES.CHECKED_HASH, MODES.UNCHECKED_HASH
NET = """
import torch
from layers_of_stale_bytecode import FACTOR

class Net(torch.nn.Module):
    def forward(self, x):
        return x * FACTOR

def net():
    return Net(), (torch.ones(1, 4),)
"""


def write(path: Path, text: str, seconds: int = 1_000_000_000) -> Path:
    path.write_text(text)
    os.utime(path, (seconds, seconds))
    return path


@pytest.mark.parametrize(
    ("mode", "seconds", "old"),
    [(TIMESTAMP, 10**9, True), (TIMESTAMP, 10**9 + 1, False), (UNCHECKED, 10**9 + 1, True), (CHECKED, 10**9, False)],
)
def test_bytecode_of_an_older_text_is_noticed_where_python_runs_it(
    tmp_path: Path, mode: py_compile.PycInvalidationMode, seconds: int, old: bool
) -> None:
    path = write(tmp_path / "layers.py", OLD)
    py_compile.compile(str(path), invalidation_mode=mode)
    write(path, NEW, seconds)
    if not old:
        check_bytecode([path])
        return
    with pytest.raises(UsageError, match=r"not made from what .*layers\.py says now") as caught:
        check_bytecode([path])
    assert caught.value.hint == f"remove {tmp_path / '__pycache__'}, and start it again"


def test_fresh_bytecode_and_that_of_an_edit_that_is_no_other_program_are_fine(tmp_path: Path) -> None:
    path = write(tmp_path / "layers.py", "x = 1  # one\n")
    for mode in (TIMESTAMP, CHECKED, UNCHECKED):
        py_compile.compile(str(path), invalidation_mode=mode)
        check_bytecode([path])
    py_compile.compile(str(path))
    check_bytecode([write(path, "x = 1  # two\n")])


@pytest.mark.parametrize("kept", [0, 5, 30, None])
def test_bytecode_that_python_does_not_run_is_no_matter_and_damaged_one_that_it_would_is(
    tmp_path: Path, kept: int | None
) -> None:
    path = write(tmp_path / "layers.py", OLD)
    bytecode = Path(str(py_compile.compile(str(path))))
    data = bytecode.read_bytes()
    bytecode.write_bytes(b"\0" * 4 + data[4:] if kept is None else data[:kept])
    if kept == 30:
        with pytest.raises(UsageError, match="not made from"):
            check_bytecode([path])
    else:
        check_bytecode([write(path, NEW), tmp_path / "missing.py"])


def test_a_model_that_is_not_what_its_files_say_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    layers = write(tmp_path / "layers_of_stale_bytecode.py", OLD)
    (tmp_path / "net.py").write_text(NET)
    name = f"{tmp_path / 'net.py'}:net"
    try:
        assert isinstance(load_model(name), TorchModel)
        assert layers in imported_files(tmp_path)
        for module in ("layers_of_stale_bytecode", "ethos_hil_model_net"):
            del sys.modules[module]
        write(layers, NEW)
        for load in (load_model, partial(load_function, what="--data")):
            with pytest.raises(UsageError, match=r"layers_of_stale_bytecode\.py says now"):
                load(name)
    finally:
        for module in ("layers_of_stale_bytecode", "ethos_hil_model_net", "ethos_hil_given_net"):
            sys.modules.pop(module, None)


def test_installed_packages_are_left_out() -> None:
    root = Path(pytest.__file__).parents[1]
    assert imported_files(root) == []


# --- The user's line in a stack trace: the innermost one that is not a framework's.

CONTAINER = f"{Path(torch.__file__).parent}/nn/modules/container.py"
TRACE = f"""  File "/home/me/project/net.py", line 12, in forward
    x = self.stem(x)
  File "{CONTAINER}", line 253, in forward
    input = module(input)
  File "/home/me/project/layers/blocks.py", line 7, in forward
    return self.conv(x)
  File "{Path(torch.__file__).parent}/nn/modules/conv.py", line 565, in forward
    return self._conv_forward(input, self.weight, self.bias)
  File "/opt/other/lib/python3.11/site-packages/executorch/backends/arm/_passes/rewrite_conv_pass.py", line 592, in call
  File "<eval_with_key>.12", line 5, in forward
"""


def test_the_innermost_own_frame_wins() -> None:
    assert Sources(Path("/home/me/project")).locate(TRACE) == "layers/blocks.py:7"
    assert Sources(Path("/elsewhere")).locate(TRACE) == Sources().locate(TRACE) == "blocks.py:7"
    traces = None, "", f'File "{CONTAINER}", line 3, in forward'
    assert [Sources().locate(trace) for trace in traces] == [None, None, None]


def test_only_the_frameworks_are_excluded() -> None:
    others = "/opt/lib/python3.11/site-packages/timm/models/resnet.py", "/home/me/torch/net.py"
    assert [is_framework_file(name) for name in (CONTAINER, "<string>", *others)] == [True, True, False, False]
