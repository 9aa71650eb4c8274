"""A .pt2 is data: real ones load as they did, and one with more in it is refused by name and runs nothing.

Started as a program, with a FILE and a number, it puts hostile values into every field of the file's documents, and
loads each that is a multiple of the number. It prints how many there are, and a line for each that executed something
or raised anything but a UsageError.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.model.exported_file import load_exported
from ethos_hil.lowering.model.torch_model import load_model
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.tests.conftest import MODELS, U55, quantised_by_upstream, refusals
from ethos_hil.lowering.upstream.names.operators import register_operators


class Buffers(nn.Module):
    """Buffers of both kinds, one that is broadcast, one that is transposed, an empty one, and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        wide = {"ones": torch.ones(4), "broadcast": torch.ones(1).expand(4), "turned": torch.randn(4, 3).t()}
        for name, tensor in {**wide, "empty": torch.zeros(0, 4), "scalar": torch.tensor(3)}.items():
            self.register_buffer(name, tensor)
        self.register_buffer("temporary", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        net: Any = self
        y = self.linear(x) + net.ones + net.temporary + net.broadcast
        result: torch.Tensor = y + net.turned[:1] + net.empty.sum() + net.scalar
        return result


def constant(x: torch.Tensor) -> Any:
    """A constant that torch.export lifts, and a dictionary as output."""
    return x + torch.tensor([1.0, 2.0, 3.0, 4.0]), {"a b": x * 2}


def no_gradient(net: Any, x: torch.Tensor) -> torch.Tensor:
    """A part that torch.export wraps into an operator of higher order."""
    with torch.no_grad():
        y = net.linear(x)
    return y + 1


def texts(x: torch.Tensor) -> torch.Tensor:
    """Operators with texts as arguments, and an argument that is not finite."""
    y = nn.functional.gelu(x, approximate="tanh") + torch.div(x, 2, rounding_mode="floor")
    return torch.einsum("ij,ij->ij", y, nn.functional.pad(x, (1, 1), value=float("inf"))[..., 1:-1])


def shared() -> nn.Module:
    """Two names for one weight."""
    embedding, out = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
    out.weight = embedding.weight
    return nn.Sequential(embedding, out)


class Halves(nn.Module):
    """Computes with its sizes."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return x.reshape(x.shape[0] * 2, -1) + y[:, : x.shape[1] // 2].sum(), x.mean(0) / x.shape[0]


def free() -> torch.export.ExportedProgram:
    """Export a program with three free dimensions."""
    sizes = {
        "x": {0: torch.export.Dim("batch", min=1, max=8), 1: torch.export.Dim.AUTO},
        "y": {1: torch.export.Dim.AUTO},
    }
    return torch.export.export(Halves(), (torch.rand(2, 8), torch.rand(3, 8)), dynamic_shapes=sizes)


def _exported(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(module_of(function).eval(), inputs)


CONVOLUTIONS = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)
PROGRAMS: dict[str, Callable[[], torch.export.ExportedProgram]] = {
    # Two graphs inside the graph.
    "branch": lambda: _exported(
        lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)), torch.randn(2, 4)
    ),
    "buffers": lambda: _exported(Buffers(), torch.randn(2, 4)),
    "constant": lambda: _exported(constant, torch.randn(2, 4)),
    "convolutions": lambda: _exported(
        nn.Sequential(*CONVOLUTIONS, nn.Flatten(), nn.Linear(8 * 16, 5)), torch.randn(1, 3, 8, 8)
    ),
    "free": free,
    "encoder": lambda: _exported(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), torch.randn(1, 5, 16)),
    "lstm": lambda: _exported(nn.LSTM(4, 8, batch_first=True), torch.randn(1, 3, 4)),
    "no_gradient": lambda: _exported(keeping(no_gradient, linear=nn.Linear(4, 4)), torch.randn(2, 4)),
    "quantised": lambda: quantised_by_upstream(f"{MODELS}:known", U55)[1],
    "shared": lambda: _exported(shared(), torch.tensor([[1, 2]])),
    "texts": lambda: _exported(texts, torch.randn(2, 4)),
}


def save(name: str, folder: Path) -> Path:
    """Write one of the programs into a folder, and return the .pt2."""
    path = folder / f"{name}.pt2"
    torch.export.save(PROGRAMS[name](), path)
    return path


# --- Change what is in a .pt2.

PROGRAM = "models/model.json"
INPUTS = "data/sample_inputs/model.pt"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


def contents(path: Path) -> dict[str, bytes]:
    """The members of a .pt2, without the name of their folder."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path: Path, members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """Write a .pt2 of these members."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(f"model/{name}", data)
    return path


def changed(path: Path, member: str, change: Callable[[Any], object]) -> Path:
    """Write `evil.pt2` beside a .pt2, with one document changed in place by a function."""
    members = contents(path)
    document = json.loads(members[member])
    change(document)
    members[member] = json.dumps(document).encode()
    return write(path.with_name("evil.pt2"), members)


def replaced(path: Path, member: str, data: bytes) -> Path:
    """Write `evil.pt2` beside a .pt2, with one member replaced or added."""
    return write(path.with_name("evil.pt2"), {**contents(path), member: data})


# --- What is in one, and what is refused.


class Shell:
    """A pickle of it runs a command when it is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> Any:
        return os.system, (self.command,)


@pytest.fixture(scope="session")
def buffers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("buffers", tmp_path_factory.mktemp("pt2"))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, dict):
        value = tuple(value.values())
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, tuple | list) else [value]


def graph(document: Any) -> Any:
    return document["graph_module"]["graph"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_real_one_loads_as_torch_loads_it(tmp_path: Path, name: str) -> None:
    register_operators()
    path = save(name, tmp_path)
    ours, theirs = load_exported(path), torch.export.load(path)
    assert ours.graph_module.code == theirs.graph_module.code
    assert str(ours.graph_signature) == str(theirs.graph_signature)
    assert ours.example_inputs is not None
    arguments = ours.example_inputs[0]
    answers = [leaves(program.module(check_guards=False)(*arguments)) for program in (ours, theirs)]
    assert all(torch.equal(output, other) for output, other in zip(*answers, strict=True))
    keys = ("stack_trace", "nn_module_stack", "torch_fn")
    for node, other in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        assert [node.meta.get(key) for key in keys] == [other.meta.get(key) for key in keys]


def in_a_size(document: Any) -> None:
    size = next(iter(graph(document)["tensor_values"].values()))["sizes"]
    size[0] = {"as_expr": {"expr_str": "__import__('os').system('touch OWNED') or 2", "hint": {"as_int": 2}}}


def in_a_name(document: Any) -> None:
    name = "x=__import__('os').system('touch OWNED')"
    document.update(json.loads(json.dumps(document).replace('{"name": "x"}', json.dumps({"name": name}))))
    values = graph(document)["tensor_values"]
    values[name] = values.pop("x")


def pickled() -> bytes:
    stream = io.BytesIO()
    torch.save(((torch.ones(2, 4), Shell("touch OWNED")), {}), stream)
    return stream.getvalue()


def pickled_weight(document: Any) -> None:
    document["config"]["linear.weight"].update(path_name="weight_9", use_pickle=True)


def opaque(document: Any) -> None:
    document["config"]["evil"] = {
        "path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None,
    }  # fmt: skip


ATTACKS: dict[str, Callable[[Path], Path]] = {
    "size": lambda path: changed(path, PROGRAM, in_a_size),
    "name": lambda path: changed(path, PROGRAM, in_a_name),
    "inputs": lambda path: replaced(path, INPUTS, pickled()),
    "weight": lambda path: replaced(changed(path, WEIGHTS, pickled_weight), "data/weights/weight_9", pickled()),
    "constant": lambda path: replaced(
        changed(path, CONSTANTS, opaque), "data/constants/opaque_obj_0", pickle.dumps(Shell("touch OWNED"))
    ),
}
"""Each writes a .pt2 that touches OWNED if it is loaded without a check."""


@pytest.mark.parametrize("kind", ATTACKS)
def test_code_runs_only_where_the_file_is_trusted(buffers: Path, kind: str) -> None:
    evil = ATTACKS[kind](buffers)
    with pytest.raises(UsageError, match=r"evil\.pt2 is more than data, at ") as caught:
        load_model(str(evil))
    assert "--trust-model" in str(caught.value.hint)
    assert not Path("OWNED").exists()
    # The attack is a real one: without the check it works.
    with contextlib.suppress(UsageError):
        load_model(str(evil), trust=True)
    assert Path("OWNED").exists()


OPERATORS = (
    "torch.os.system", "torch.hub.load", "torch.ops.aten.from_file.default", "torch.ops.aten.save.default",
    "torch.ops.aten._unsafe_index.Tensor", "torch.ops.higher_order.inline_asm_elementwise", "_operator.methodcaller",
    "torch.ops.quantized.add.default", "#ext:op", "os.system", "torch.ops.aten.no_such.default", "torch.load",
)  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS)
def test_only_operators_that_compute_with_tensors_are_accepted(buffers: Path, operator: str) -> None:
    evil = changed(buffers, PROGRAM, lambda document: graph(document)["nodes"][0].update(target=operator))
    with pytest.raises(UsageError, match=r"models/model\.json\['graph_module'\].*the operator"):
        load_exported(evil)


OTHER_CONTAINER = '[1, {"type": "collections.defaultdict", "context": "{}", "children_spec": []}]'


def call(document: Any) -> Any:
    return document["graph_module"]["module_call_graph"][0]["signature"]


def of_x(document: Any) -> Any:
    return graph(document)["tensor_values"]["x"]


def parameter(document: Any) -> Any:
    return document["graph_module"]["signature"]["input_specs"][0]["parameter"]


def huge(document: Any) -> None:
    meta = document["config"]["linear.weight"]["tensor_meta"]
    meta.update(sizes=[{"as_int": 2**62}, {"as_int": 4}], strides=[{"as_int": 0}, {"as_int": 0}])


CHANGES: dict[str, Callable[[Any], object]] = {
    "a name with a blank": lambda d: graph(d)["nodes"][0].update(name="a b"),
    "an argument that is code": lambda d: call(d).update(forward_arg_names=["x=print()"]),
    "another container": lambda d: call(d).update(in_spec=OTHER_CONTAINER),
    "a custom object": lambda d: graph(d)["custom_obj_values"].update(x={"name": "x", "class_fqn": "x"}),
    "another device": lambda d: of_x(d)["device"].update(type="cuda"),
    "a type that is a list": lambda d: of_x(d).update(dtype=[7]),
    "a size that is a text": lambda d: of_x(d)["sizes"].append({"as_int": "4"}),
    "a private parameter": lambda d: parameter(d).update(parameter_name="__class__.x"),
}
DATA: dict[str, tuple[str, bytes]] = {
    "deep": (PROGRAM, b"[" * 100_000 + b"]" * 100_000),
    "a long number": (PROGRAM, b'{"a": ' + b"9" * 10_000 + b"}"),
    "no text": (PROGRAM, b"\xff\xfe"),
    "another version": ("archive_version", b"9"),
}


def twice_one_name(path: Path) -> Path:
    evil = write(path.with_name("evil.pt2"), contents(path))
    with zipfile.ZipFile(evil, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(f"model/{PROGRAM}", b"{}")
    return evil


DAMAGES: dict[str, Callable[[Path], Path]] = {
    **{how: partial(changed, member=PROGRAM, change=change) for how, change in CHANGES.items()},
    **{how: partial(replaced, member=member, data=data) for how, (member, data) in DATA.items()},
    "more elements than are stored": partial(changed, member=WEIGHTS, change=huge),
    "two members of one name": twice_one_name,
    "compressed": lambda path: write(path.with_name("evil.pt2"), contents(path), zipfile.ZIP_DEFLATED),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_each_part_has_to_be_of_its_kind(buffers: Path, how: str, recorded: Recorded) -> None:
    recorded.check(refusals(partial(load_exported, DAMAGES[how](buffers)), folder=buffers.parent))


def test_other_models_and_files_never_reach_torch(buffers: Path) -> None:
    evil = replaced(buffers, "models/other.json", b"not json")
    load_exported(replaced(evil, "data/sample_inputs/other.pt", pickled()))
    assert not Path("OWNED").exists()


def test_the_second_wall_stands_only_while_torch_loads(buffers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    load_exported(buffers)
    assert os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1"
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


@pytest.mark.parametrize(
    "text",
    [
        "Symbol('s0', integer=__import__('os'))", "Symbol(open('OWNED', 'w'))", "Symbol('s0').__class__",
        "Pow(Integer(9), Integer(99999999))", "(lambda: 1)()", "Add(*[1])", "Add(Symbol('s0'), evaluate=False)",
        "Integer('1')", "eval(1)",
        f"Integer(1){' ' * 5000}, open('OWNED', 'w')", "Add(" * 400 + ")" * 400,
    ],
)  # fmt: skip
def test_a_size_is_an_expression_of_sizes(text: str, tmp_path: Path) -> None:
    def put(document: Any) -> None:
        document["graph_module"]["graph"]["tensor_values"]["x"]["sizes"][0]["as_expr"]["expr_str"] = text

    with pytest.raises(UsageError, match="not the expression of a size"):
        load_exported(changed(save("free", tmp_path), PROGRAM, put))
    assert not Path("OWNED").exists()


# --- No value in any field executes anything, or raises anything but a clear error.

TOUCH = "__import__('os').system('touch OWNED')"
TEXTS = (
    TOUCH, f"x={TOUCH}", f"x): {TOUCH} #", f"'; {TOUCH} #", "torch.os.system", "torch.ops.aten.from_file.default",
    "__class__", "../../etc/passwd", "10**10000", "Pow(Integer(10), Integer(99999999))", "(" * 5000 + ")" * 5000,
    "a" * 200_000, "\x00", "\ud800", "",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    10**30, -1, 2**62, 1e308, None, True, [TOUCH], {"as_expr": {"expr_str": TOUCH, "hint": None}}, [], {},
    {"as_expr": {"expr_str": "Symbol('s0')", "hint": None}},
)  # fmt: skip
STARTS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.remove", "socket.connect")
Path_ = tuple[Any, ...]


def fields(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, bool]]:
    """Yield the path of each leaf, and of each key of an object (True)."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), True
            yield from fields(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from fields(item, (*path, index))
    else:
        yield path, False


def changes(document: Any) -> Iterator[Any]:
    """Yield the document with one change. Fields that differ only by their place in a list count as one."""
    seen = set()
    for path, is_key in fields(document):
        kind = tuple("#" if isinstance(step, int) else step for step in path), is_key
        if kind in seen:
            continue
        seen.add(kind)
        for value in TEXTS if is_key else TEXTS + OTHERS:
            changed = copy.deepcopy(document)
            place = changed
            for step in path[:-1]:
                place = place[step]
            if is_key:
                place[value] = place.pop(path[-1])
            else:
                place[path[-1]] = value
            yield changed


def main() -> None:
    """Try the changes."""
    register_operators()
    load_model(sys.argv[1])  # torch imports more of itself, and makes its folders
    members, every, count = contents(Path(sys.argv[1])), int(sys.argv[2]), 0
    started: list[str] = []
    armed = False

    def watch(event: str, arguments: Any) -> None:
        if armed and (event in STARTS or (event == "exec" and "OWNED" in repr(arguments[0].co_consts))):
            started.append(f"{event} {ascii(arguments)[:100]}")

    sys.addaudithook(watch)
    for member in (PROGRAM, WEIGHTS, CONSTANTS):
        for changed in changes(json.loads(members[member])):
            count += 1
            if count % every:
                continue
            write(Path("evil.pt2"), {**members, member: json.dumps(changed).encode()})
            armed = True
            try:
                load_model("evil.pt2")
            except UsageError:
                pass
            except BaseException as error:
                sys.stdout.write(f"change {count}: {type(error).__name__}: {ascii(error)[:200]}\n")
            armed = False
            if started or Path("OWNED").exists():
                sys.stdout.write(f"change {count}: executed {started}\n")
                started.clear()
    sys.stdout.write(f"{count} changes with torch {torch.__version__.partition('+')[0]}\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "every"), [pytest.param("buffers", 53, marks=pytest.mark.proof), ("branch", 92), ("free", 92)]
)
def test_no_field_executes_anything(tmp_path: Path, name: str, every: int) -> None:
    path = save(name, tmp_path)
    command = [sys.executable, "-m", "ethos_hil.lowering.model.tests.test_exported_file", str(path), str(every)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 1, lines[:5]
    assert int(lines[0].split()[0]) > 1000
    assert not (tmp_path / "OWNED").exists()


if __name__ == "__main__":
    main()
