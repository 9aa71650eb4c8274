"""A test file for the plugin: each way in which upstream's tests end. Run by test_plugin.py, not collected by itself.

It marks its tests as upstream's common.py does, and starts an "FVP" through the function that the plugin watches.
The executable is a shell script on PATH, or not there. Of upstream only that function is loaded: importing the rest
takes seconds, and every test of the plugin runs this file again.
"""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import types
from collections.abc import Callable, Sequence

import pytest

from ethos_hil.suites.lab.prove.upstream.setting import tests_root

FVP = "FVP_Corstone_SSE-300_Ethos-U55"


def _runner_utils() -> types.ModuleType:
    """Upstream's runner_utils with nothing but `_run_cmd`, in packages that are empty."""
    path = tests_root() / "runner_utils.py"
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "_run_cmd"]
    name = "executorch.backends.arm.test.runner_utils"
    for end in (place for place, letter in enumerate(name + ".") if letter == "."):
        sys.modules[name[:end]] = types.ModuleType(name[:end])
    module = sys.modules[name]
    vars(module).update(__file__=str(path), subprocess=subprocess, List=list)
    exec(compile(tree, path, "exec"), vars(module))
    return module


utils = _runner_utils()

no_fvp = pytest.mark.xfail(
    condition=shutil.which(FVP) is None,
    raises=FileNotFoundError,
    reason="Did not find Corstone-300 FVP or executor_runner on path",
)


def device() -> None:
    utils._run_cmd([FVP, "-C", "cpu0.semihosting-cwd=."])


def wrong() -> None:
    raise ValueError("wrong")


@pytest.fixture
def broken() -> None:
    wrong()


def skip() -> None:
    pytest.skip("not today")


xfail = pytest.mark.xfail
CASES: dict[str, tuple[tuple[Callable[[], None], ...], tuple[pytest.MarkDecorator, ...]]] = {
    "reaches": ((device,), ()),
    "reaches_twice_and_fails": ((device, device, wrong), ()),
    "skipped": ((device,), (pytest.mark.skip(reason="never"),)),
    "passes_before": ((), ()),
    "fails_before": ((wrong,), ()),
    "skips_itself": ((skip,), ()),
    "expected_to_fail": ((wrong,), (xfail(raises=ValueError, strict=True),)),
    "expected_to_fail_otherwise": ((wrong,), (xfail(raises=KeyError, strict=True),)),
    "expected_to_fail_but_passes_strict": ((device,), (xfail(strict=True),)),
    "expected_to_fail_but_passes": ((device,), (xfail(reason="because"),)),
    "error_in_setup": ((device,), (pytest.mark.usefixtures("broken"),)),
}
"""What each test does, and its marks."""


def in_order(steps: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def test() -> None:
        for step in steps:
            step()

    return test


for _name, (_steps, _marks) in CASES.items():
    _test = in_order(_steps)
    for _mark in (*_marks, no_fvp):
        _test = _mark(_test)
    globals()[f"test_u55_{_name}"] = _test


def test_of_no_npu() -> None:
    pass
