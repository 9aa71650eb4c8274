"""A module may take and return dictionaries, lists, None and numbers: its program has the tensors in them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import ethos_hil
from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.model.torch_model import TorchModel, calibrate, from_module, load_model


class Decoder(nn.Module):
    """Takes what a language model takes, and returns what one returns."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.head = nn.Linear(8, 4)

    def forward(
        self, ids: Tensor, mask: Tensor | None = None, past: Any = None, scale: float = 1.0, labels: None = None
    ) -> dict[str, Any]:
        x = self.embedding(ids)
        if mask is not None:
            x = x * mask[..., None].float()
        if past is not None:
            x = torch.cat([past[0]["k"], x], 1)
        return {"loss": labels, "logits": self.head(x) * scale, "past": None if past is None else [{"k": x, "v": None}]}


IDS = torch.tensor([[3, 1, 4]])
MASK = torch.tensor([[1, 0, 1]])
PAST = [{"k": torch.linspace(-1, 1, 16).reshape(1, 2, 8)}]
FORMS: dict[str, tuple[Any, list[str], list[str]]] = {
    "tensors": ((IDS, MASK), ["ids", "mask"], ["logits"]),
    "a list in a tuple, None and a number": ((IDS, None, PAST, 2), ["ids", "past_0_k"], ["logits", "past.0.k"]),
    "a dictionary of keywords": ({"ids": IDS, "mask": MASK}, ["ids", "mask"], ["logits"]),
    "containers by keyword": ({"past": PAST, "ids": IDS, "labels": None}, ["past_0_k", "ids"], ["logits", "past.0.k"]),
}


def called(value: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    module = Decoder().eval()
    answer: dict[str, Any] = module(**value) if isinstance(value, dict) else module(*value)
    return answer


@pytest.mark.parametrize("form", FORMS)
def test_a_program_takes_and_gives_the_tensors_under_their_names(form: str) -> None:
    value, inputs, outputs = FORMS[form]
    torch.manual_seed(0)
    module = Decoder()
    result = ethos_hil.run(module, value, npu="ethos-u55-128", int16="head")
    assert result.verified, result.record.failure
    assert list(result.output_names) == outputs
    assert list(result.artifact.input_names) == inputs
    answer = called(value)
    right = [answer["logits"], *([answer["past"][0]["k"]] if "past.0.k" in outputs else [])]
    assert [output.shape for output in result.outputs] == [tuple(tensor.shape) for tensor in right]
    for output, tensor in zip(result.outputs, right, strict=True):
        noise = ((output - tensor.detach().numpy()) ** 2).mean()
        assert 10 * np.log10((tensor.detach().numpy() ** 2).mean() / noise) > 20, "dB"
    assert type(module) is Decoder, "the user's module is as it was"


def test_an_exported_program_may_take_them_too(tmp_path: Path) -> None:
    torch.manual_seed(0)
    for number, (value, inputs, outputs) in enumerate(FORMS.values()):
        args, kwargs = ((), value) if isinstance(value, dict) else (value, {})
        path = tmp_path / f"{number}.pt2"
        torch.export.save(torch.export.export(Decoder().eval(), args, kwargs), path)
        loaded = load_model(str(path))
        assert isinstance(loaded, TorchModel)
        module = loaded.default.module
        answer = module(*loaded.default.example_inputs)
        assert list(answer) == [name.partition(".")[0] for name in outputs]
        assert len(loaded.default.example_inputs) == len(inputs)


def test_each_calibration_set_is_arranged_alike() -> None:
    model = from_module(Decoder(), {"ids": IDS, "mask": MASK}, [{"ids": IDS, "mask": MASK * 0}])
    assert [len(entry) for entry in model.default.calibration_inputs] == [2]
    assert calibrate(model, "forward", [{"ids": IDS, "mask": MASK}] * 3, "mine").default.calibration_inputs
    with pytest.raises(UsageError, match="is arranged otherwise than the example inputs"):
        calibrate(model, "forward", [{"ids": IDS, "past": MASK}], "mine")


def test_what_is_neither_a_tensor_nor_a_constant_is_refused_by_its_place() -> None:
    with pytest.raises(UsageError, match=r"example_inputs\['past'\]\[0\] is a PosixPath, expected a tensor"):
        from_module(Decoder(), {"ids": IDS, "past": [Path()]})
    with pytest.raises(UsageError, match="has no tensor"):
        from_module(Decoder(), {"ids": None})


def test_a_module_of_a_structure_can_be_copied_and_keeps_state() -> None:
    class Sum(nn.Module):
        total: Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, pair: dict[str, Tensor]) -> Tensor:
            self.total += pair["a"] * pair["b"]
            return self.total.clone()

    method = from_module(Sum(), ({"a": torch.ones(2), "b": torch.full((2,), 3.0)},)).default
    assert method.changed == ("total",)
    twin = copy.deepcopy(method.module)
    assert [twin(*method.example_inputs).tolist() for _ in range(2)] == [[3.0, 3.0], [6.0, 6.0]]
    assert method.fresh(*method.example_inputs).tolist() == [3.0, 3.0]
