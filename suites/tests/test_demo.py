"""The demo: the device agrees with the host on every digit, and every row of the profile names the right source."""

from __future__ import annotations

import inspect

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.run import run
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.lowering.model.torch_model import load_model
from ethos_hil.suites import demo
from ethos_hil.suites.models.digits import DigitsNet

MODEL = "ethos_hil.suites.models.digits:digits"
NPU = EthosU.parse("ethos-u55-128")


def test_the_demo_agrees_on_every_digit(capfd: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    printed = capfd.readouterr().out
    assert printed.startswith("verified")
    assert "host and device agree on 200 of 200 digits" in printed
    accuracies = [line.split() for line in printed.splitlines() if line.startswith(("float", "quantised"))]
    assert len(accuracies) == 3
    for words in accuracies:
        assert int(words[2]) >= 185, "the network has learnt its digits"
    assert accuracies[1][2:] == accuracies[2][2:]


def line_that_calls(name: str) -> str:
    """Return where DigitsNet.forward calls its child `name`."""
    lines, first = inspect.getsourcelines(DigitsNet.forward)
    (number,) = [first + index for index, line in enumerate(lines) if f"self.{name}(" in line]
    return f"digits.py:{number}"


@pytest.fixture(scope="module")
def report() -> Report:
    return run(Question(load_model(MODEL), npu=str(NPU), strict=True))


def test_every_npu_op_is_mapped_to_the_line_and_module_it_came_from(report: Report) -> None:
    record = report.record
    assert record.verdict == "verified"
    modules = dict(DigitsNet().named_modules())
    for op in record.ops:
        assert op.module in modules, op
        assert op.source == line_that_calls(op.module.split(".")[0]), op
        assert op.aten_ops, op
        assert op.tosa_op, op
    assert {op.module.split(".")[0] for op in record.ops} == {"stem", "depthwise", "pointwise", "pool", "head"}
    layers = {"stem.0": "aten.conv2d.default", "pool": "aten.max_pool2d.default", "head": "aten.linear.default"}
    for module, operator in layers.items():
        assert operator in next(op.aten_ops for op in record.ops if op.module == module)
