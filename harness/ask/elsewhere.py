"""The process that lowers in another environment, from the inside: one request after the other.

`ethos_hil.lowering.native.serve` calls `answer` with what `ethos_hil.harness.subjects.process` asks. A request and its
answer are JSON and blocks of bytes; an artifact goes through the cache, by its key.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.dataclasses import asdict
from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.question import Question
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE
from ethos_hil.lowering.cache.versions import versions

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.model.torch_model import HostModules

Message = tuple[dict[str, Any], list[bytes]]


def answer(header: dict[str, Any], blocks: Sequence[bytes]) -> Message:
    """Answer a request. An error that is meant for the user is an answer, too."""
    os.chdir(header["cwd"])
    os.environ[CACHE_VARIABLE] = header["cache"]
    try:
        return _ASKED[header["ask"]](header, blocks)
    except EthosHilError as error:
        classes = [cls.__name__ for cls in type(error).__mro__ if issubclass(cls, EthosHilError)]
        return {"error": {"classes": classes, "message": error.message, "hint": error.hint, "kind": error.kind}}, []


def _hello(header: dict[str, Any], blocks: Sequence[bytes]) -> Message:
    return {"versions": versions()}, []


def _answers(header: dict[str, Any], blocks: Sequence[bytes]) -> Message:
    """Answer inputs in PyTorch, by the float and the quantised module."""
    from ethos_hil.lowering.artifact import arrays, packed

    answers = _hosts_of(header).answers(arrays(blocks[0]))
    return {"answers": list(answers)}, [packed(outputs) for outputs in answers.values()]


def _compare_layers(header: dict[str, Any], blocks: Sequence[bytes]) -> Message:
    """Compare the two modules layer by layer: begin, count an input set, or say which lose most."""
    from ethos_hil.lowering.artifact import arrays

    key = (Question.from_json(header["question"]).digest, header["method"])
    if header["step"] == "begin":
        _layers[key] = _hosts_of(header).layers
        return {"are": _layers[key] is not None}, []
    if header["step"] == "add":
        _layers[key].add(arrays(blocks[0]))
        return {}, []
    return {"layers": [asdict(layer) for layer in _layers[key].worst_first()]}, []


def _hosts_of(header: dict[str, Any]) -> HostModules:
    """Return the modules of a question's method, which are made once."""
    question = Question.from_json(header["question"])
    key = (question.digest, header["method"])
    if key not in _hosts:
        from ethos_hil.harness.ask.lower_question import as_asked
        from ethos_hil.lowering.lower import host_modules
        from ethos_hil.lowering.model.torch_model import TorchModel, load_model

        model = as_asked(load_model(question.label, trust=question.trust_model), question)
        assert isinstance(model, TorchModel)
        _hosts[key] = host_modules(model, header["method"], question, progress=header["tell"])
    return _hosts[key]


_hosts: dict[tuple[str, str], HostModules] = {}
_layers: dict[tuple[str, str], Any] = {}


def _lower(header: dict[str, Any], blocks: Sequence[bytes]) -> Message:
    """Lower a question's model. The answer is what its `LoweredModel` tells, and the artifact's key."""
    from ethos_hil.harness.ask.lower_question import lower_question
    from ethos_hil.lowering.formats.tosa_spec import TosaSpec

    question = Question.from_json(header["question"])
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        if header["methods"]:
            question = question.but(model=_model(header, blocks, Path(folder)))
        spec = TosaSpec.parse(header["tosa"]) if header["tosa"] else None
        lowered = lower_question(question, spec, progress=header["tell"], whole=header["whole"])
    return {"key": lowered.artifact.key, **lowered.told}, []


def _tensor(array: np.ndarray, stride: Sequence[int]) -> torch.Tensor:
    """Return a tensor whose memory is in the order that it had: channels last, for instance."""
    import torch

    values = torch.from_numpy(np.array(array))
    if 0 in stride:  # several elements have one place
        return values
    return torch.empty_strided(values.shape, tuple(stride), dtype=values.dtype).copy_(values)


def _model(header: dict[str, Any], blocks: Sequence[bytes], folder: Path) -> Any:
    """Return a model that was in the memory of the process that asks: exported programs, and their inputs."""
    from ethos_hil.lowering.artifact import arrays
    from ethos_hil.lowering.model.exported_file import load_exported
    from ethos_hil.lowering.model.torch_model import Method, TorchModel
    from ethos_hil.lowering.user_code.user_function import Sources

    methods = {}
    for number, (name, about) in enumerate(header["methods"].items()):
        path = folder / f"{number}.pt2"
        path.write_bytes(blocks[2 * number])
        exported = load_exported(path)
        tensors = zip(arrays(blocks[2 * number + 1]), about["strides"], strict=True)
        flat = iter([_tensor(array, stride) for array, stride in tensors])
        count = about["inputs"]
        sets = [tuple(next(flat) for _ in range(count)) for _ in range(1 + about["calibrations"])]
        fields: dict[str, Any] = {
            field: tuple(value) if isinstance(value, list) else value for field, value in about["fields"].items()
        }
        methods[name] = Method(exported.module(check_guards=False), sets[0], tuple(sets[1:]), **fields)
    root = header["root"]
    return TorchModel(header["label"], methods, Sources(Path(root) if root else None))


def _fit(header: dict[str, Any], blocks: Sequence[bytes]) -> Message:
    """Say of each patch that decides what an artifact says why it does not fit; "" where it fits."""
    from ethos_hil.lowering.upstream.patches.table import OF_LOWERING

    return {"patches": {patch.name: patch.problem for patch in OF_LOWERING}}, []


_ASKED = {"hello": _hello, "fit": _fit, "lower": _lower, "answers": _answers, "layers": _compare_layers}
