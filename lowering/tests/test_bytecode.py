"""Bytecode that Python runs in place of a text that is newer: it is noticed, and nothing else is."""

from __future__ import annotations

import os
import py_compile
import sys
from pathlib import Path

import pytest
import torch

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.lowering.user_code.user_function import (
    Sources,
    check_bytecode,
    imported_files,
    is_framework_file,
    load_function,
)

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
        with pytest.raises(UsageError, match=r"layers_of_stale_bytecode\.py says now"):
            load_model(name)
    finally:
        for module in ("layers_of_stale_bytecode", "ethos_hil_model_net"):
            sys.modules.pop(module, None)


@pytest.mark.parametrize("option", ["--data", "--metric", "--calibrate", "--quantizer"])
def test_so_is_any_function_of_the_users(option: str, tmp_path: Path) -> None:
    name = f"layers_for_{option.strip('-')}"
    layers = write(tmp_path / f"{name}.py", OLD)
    py_compile.compile(str(layers))
    write(layers, NEW)
    (tmp_path / "given.py").write_text(f"from {name} import FACTOR\ndef function():\n    return FACTOR\n")
    try:
        with pytest.raises(UsageError, match=rf"{name}\.py says now"):
            load_function(f"{tmp_path / 'given.py'}:function", option)
    finally:
        for module in (name, "ethos_hil_given_given"):
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
