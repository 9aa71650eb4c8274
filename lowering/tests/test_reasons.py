"""Each reason for an operator on the CPU is that of the rule that failed, and each remedy works: what it says to write
instead is delegated.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.backends.arm.ethosu import EthosUPartitioner
from torch import nn
from torch.nn import functional

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.verdict.against_pytorch import against_example
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.upstream.reasons import by_operator, rules
from ethos_hil.lowering.upstream.reasons.quantised_by import QuantisedBy
from ethos_hil.lowering.upstream.reasons.reason import Circumstances, Origin, find_reasons, rule_of, without_schemas
from ethos_hil.lowering.upstream.reasons.rule import U55, U85, CpuRule, Example

RULES = (*rules.ASKED, *rules.RULES, *rules.OTHERS, *by_operator.OPERATORS)
NAMES = {"torch": torch, "nn": nn, "F": functional}


class Line(nn.Module):
    """A line of a model, as an example has it: its layers are made once."""

    def __init__(self, text: str, names: str) -> None:
        super().__init__()
        tree = ast.parse(text, mode="eval")
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Call(ast.Attribute(ast.Name("nn"), name)) as layer):
                    self.add_module(f"{name}_{layer.col_offset}", eval(ast.unparse(layer), NAMES))
                    node.func = ast.parse(f"self.{name}_{layer.col_offset}", mode="eval").body
        self.compute = eval(f"lambda self, {names}: {ast.unparse(tree)}", NAMES)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.compute(self, *inputs)


def tensors(text: str) -> list[torch.Tensor]:
    """Random values of the types and shapes "float32[1, 8]; int64[4]"; integers are 0, 1, 2, 3, 0 and so on."""
    made = []
    for entry in text.split("; "):
        kind, _, sizes = entry.rstrip("]").partition("[")
        dtype, shape = getattr(torch, kind), [int(size) for size in sizes.split(", ")]
        numbers = torch.randn(shape) if dtype.is_floating_point else torch.arange(math.prod(shape)) % 4
        made.append(numbers.reshape(shape).to(dtype))
    return made


class Lines(nn.Module):
    """Several lines, each with inputs of its own, as modules with the names of their cases."""

    def __init__(self, lines: dict[str, tuple[str, str]]) -> None:
        super().__init__()
        torch.manual_seed(0)
        inputs = {name: tensors(given) for name, (_, given) in lines.items()}
        self.counts = {name: len(given) for name, given in inputs.items()}
        self.inputs = tuple(tensor for given in inputs.values() for tensor in given)
        for name, (text, _) in lines.items():
            self.add_module(name, Line(text, ", ".join("xyzw"[: self.counts[name]])))

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        waiting = iter(inputs)
        answers: list[torch.Tensor] = []
        for name, count in self.counts.items():
            answer = getattr(self, name)(*(next(waiting) for _ in range(count)))
            answers += answer if isinstance(answer, tuple) else [answer]
        return tuple(answers)


def cases() -> Iterator[tuple[str, CpuRule, Example]]:
    for rule in RULES:
        for number, example in enumerate(rule.examples):
            yield f"{rule.name.replace('-', '_')}_{number}", rule, example


def lowered(lines: dict[str, tuple[str, str]], npu: str, cache: Cache, **options: Any) -> Artifact:
    module = Lines(lines).eval()
    return lower(from_module(module, module.inputs), EthosU.parse(npu), cache=cache, **options)


def test_a_line_in_the_place_of_another_computes_the_same_or_says_that_it_does_not() -> None:
    """In float, of the same inputs. Lines with weights, or other inputs, are not compared."""
    compared = 0
    for name, _, example in cases():
        inputs = tensors(example.inputs)
        lines = [Line(text, ", ".join("xyzw"[: len(inputs)])) for text in (example.before, example.after)]
        if example.given or any(list(line.parameters()) for line in lines):
            continue
        before, after = (line(*inputs) for line in lines)
        before = before[0] if isinstance(before, tuple) else before
        # Sums of up to 70,000 numbers around 1, and functions with a slope of at most 2: 2^-24 of each number.
        same = before.shape == after.shape and torch.allclose(before.float(), after.float(), 1e-5, 2e-3)
        assert same is example.alike, (name, before, after)
        compared += 1
    assert compared > 40


ALONE = ("nonzero_0", "free_shape_0", "uint8_0")
"""Lines whose answer has a shape that depends on the values: ExecuTorch fails if others are with them. For the last, a
whole delegate is refused.
"""


@pytest.mark.slow
@pytest.mark.parametrize("npu", [U55, U85])
def test_each_line_is_left_for_its_reason(npu: str, recorded: Recorded, tmp_path: Path) -> None:
    """As upstream lowers it: of what is rewritten before, the reasons are those of `--as-upstream`."""
    met = {name: (rule, example) for name, rule, example in cases() if example.npu == npu}
    lines = {name: (example.before, example.inputs) for name, (_, example) in met.items()}
    groups = [[name for name in lines if name not in ALONE], *([name] for name in ALONE if name in lines)]
    shown = []
    for group in groups:
        artifact = lowered({name: lines[name] for name in group}, npu, Cache(tmp_path), as_upstream=True)
        said: dict[str, dict[str, str]] = {name: {} for name in group}
        added: dict[str, str] = {}
        for call in artifact.placement.on_cpu:
            # A cast that upstream adds behind an input is in no module.
            texts = said.get(call.module.partition(".")[0], added)
            texts[f"{call.reason} -> {call.remedy}"] = call.aten
        for name, texts in said.items():
            rule, example = met[name]
            shown += [example.before, *(f"    {aten}: {text}" for text, aten in texts.items())]
            assert any(text.endswith(f" -> {rule.remedy}") for text in (*texts, *added)), (name, texts)
    recorded.check("\n".join(shown))


@pytest.mark.slow
@pytest.mark.parametrize("npu", [U55, U85])
def test_each_remedy_works(npu: str, tmp_path: Path) -> None:
    """The line in its place is delegated whole, and the program computes what PyTorch does."""
    done = {name: example for name, _, example in cases() if (example.other or example.npu) == npu}
    lines = {name: (example.after, example.given or example.inputs) for name, example in done.items()}
    artifact = lowered(lines, npu, Cache(tmp_path))
    assert [(call.aten, call.place, call.reason) for call in artifact.placement.on_cpu] == []
    assert against_example(artifact, Reference(artifact).run(artifact.example_inputs).outputs).failure is None


# --- What upstream says.


def said_by_upstream() -> Iterator[str]:
    """All texts that upstream's checks report, with a 7 for what is filled in."""
    arm = Path(inspect.getfile(EthosUPartitioner)).parents[1]
    for file in (*sorted(arm.glob("operator_support/*.py")), arm / "tosa/partitioner.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(ast.Attribute(attr="report_reject" | "wrap_check"), [_, ast.Constant(str(text)), *_]):
                    yield text
                case ast.Call(ast.Attribute(attr="report_reject" | "wrap_check"), [_, ast.JoinedStr(parts), *_]):
                    kinds = ((part, "torch.t7" if "type" in ast.dump(part) else "7") for part in parts)
                    yield "".join(str(part.value) if isinstance(part, ast.Constant) else kind for part, kind in kinds)


def test_every_report_of_upstream_has_a_rule_or_is_shown_as_it_is(recorded: Recorded) -> None:
    """What no ordinary model meets, or what is plain enough, is shown as upstream says it."""
    rules_of = ((text, rule_of(text, ("aten.add.Tensor",))) for text in said_by_upstream())
    recorded.check("\n".join(f"{text}\n    {rule.name if rule is not None else '-'}" for text, rule in rules_of))


def test_a_schema_is_cut_out_of_a_report_and_nothing_else() -> None:
    gather = "aten::gather(Tensor self, int dim, *, bool sparse_grad=False) -> Tensor"
    for schema in (
        gather,
        "aten::topk(Tensor a) -> (Tensor values, Tensor b)",
        "x(a) -> Tensor[]",
        "x(a) -> Tensor(a!)",
    ):
        text = f"<EdgeOpOverload: aten.gather.default>: schema = {schema}: got\n   dim=0, rank 2."
        assert without_schemas(text) == "aten.gather.default: got dim=0, rank 2."


# --- Who quantised, and what is beside an operator.


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 6, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def arms(spec: Any, module: str, **options: Any) -> Any:
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config

    return EthosUQuantizer(spec, **options).set_module_name(module, get_symmetric_quantization_config())


def only_second(spec: Any) -> Any:
    return arms(spec, "second")


def misspelt(spec: Any) -> Any:
    return arms(spec, "secnd")


def misspelt_of_old(spec: Any) -> Any:
    return arms(spec, "secnd", use_composable_quantizer=False)


def of_xnnpack(spec: Any) -> Any:
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer

    del spec
    return xnnpack_quantizer.XNNPACKQuantizer().set_global(xnnpack_quantizer.get_symmetric_quantization_config())


def left(model: TorchModel, npu: str, cache: Cache) -> list[tuple[str, str, str, str]]:
    calls = lower(model, EthosU.parse(npu), cache=cache).placement.on_cpu
    return [(call.aten.removesuffix(".default"), call.module, call.reason, call.remedy) for call in calls]


@pytest.mark.parametrize(
    ("quantizer", "why", "remedy"),
    [
        (only_second, "the quantizer only_second leaves it in float, and ExecuTorch's own would quantise it",
         "let only_second quantise it (set_global, or a filter that finds it)"),
        *((function, f"the quantizer {function.__name__} leaves it in float: its filter for module names: secnd "
           "finds nothing in the model", "name what the model has: first, second")
          for function in (misspelt, misspelt_of_old)),
        (of_xnnpack, "of_xnnpack (XNNPACKQuantizer) quantised it, and ExecuTorch's partitioner takes what its Arm "
         "quantiser marked only", "let the quantizer be an EthosUQuantizer"),
    ],
)  # fmt: skip
def test_what_a_quantizer_of_the_users_decided_is_told(quantizer: Any, why: str, remedy: str, cache: Cache) -> None:
    model = from_module(TwoLayers(), (torch.rand(1, 3, 8, 8),))
    chosen = replace(model, methods={"forward": replace(model.default, quantizer=quantizer)})
    calls = left(chosen, U55, cache)
    modules = {module for _, module, *_ in calls}
    assert modules == ({"first"} if quantizer is only_second else {"first", "second", ""})
    assert {call[2:] for call in calls} == {(why, remedy)}


def test_the_npu_of_the_run_is_named_and_an_operator_beside_another_names_it(cache: Cache) -> None:
    """A convolution of a bare Sequential has no line. Sees red: "an Ethos-U55", "see that operator", "at in 0"."""
    model = from_module(nn.Sequential(nn.Conv2d(3, 3, 3, stride=4, padding=1), nn.ReLU()), (torch.rand(1, 3, 9, 9),))
    first, second = lower(model, EthosU.parse("ethos-u65-256"), cache=cache).placement.on_cpu
    assert first.reason == "its stride is 4 with a padding of 1, and an Ethos-U65 takes at most 3 there"
    assert second.reason == "its input is in float: it is made by aten.conv2d in module 0, which is on the CPU"
    assert second.remedy == "mend aten.conv2d in module 0 first"
    assert [call.place for call in (first, second)] == ["in module 0", "in module 1"]


def test_a_node_that_cannot_be_read_has_the_reason_as_upstream_says_it() -> None:
    graph = torch.fx.Graph()
    node = graph.call_function(torch.ops.aten.convolution.default, (graph.placeholder("x"),))
    text = "Failed condition on stride, pad and dilation combination."
    circumstances = Circumstances("an Ethos-U55", QuantisedBy(), lambda _: Origin("", ""))
    (reason,) = find_reasons({node: text}, circumstances).values()
    assert reason.why == f"ExecuTorch's partitioner says: {text}"
    assert "docs/on-the-cpu.md" in reason.remedy


def test_a_node_without_inputs_has_a_reason() -> None:
    graph = torch.fx.Graph()
    node = graph.call_function(torch.ops.aten.scalar_tensor.default, (1.0,))
    circumstances = Circumstances("an Ethos-U55", QuantisedBy(), lambda _: Origin("", ""))
    for rule in (*rules.RULES, *rules.IN_GENERAL):
        (reason,) = find_reasons({node: rule.said.replace("\\", "")}, circumstances).values()
        assert reason.why
