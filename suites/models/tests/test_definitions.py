"""The models match their descriptions, each is sensitive to its inputs, and the demo agrees with the host."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ethos_hil.base.errors import CompileError
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module, load_model
from ethos_hil.suites import demo
from ethos_hil.suites.declare.model_case import Model
from ethos_hil.suites.models import efficientnet, test_models
from ethos_hil.suites.models.layers import same
from ethos_hil.suites.models.mlperf_tiny import WINDOWS, Autoencoder, DsCnn, MobileNetV1, ResNet8, fold
from ethos_hil.suites.models.mobilenetv2 import MobileNetV2
from ethos_hil.suites.models.photographs import PHOTOGRAPHS, label
from ethos_hil.suites.models.seeded import NOTE, seed

MODELS = {name: value for name, value in vars(test_models).items() if isinstance(value, Model)}


def build_model(model: Model) -> TorchModel:
    loaded = load_model(model.factory)
    assert isinstance(loaded, TorchModel)
    return loaded


@pytest.mark.parametrize(
    ("network", "total"),
    [(DsCnn, 24_908), (MobileNetV1, 221_794), (ResNet8, 78_666), (Autoencoder, 269_992), (MobileNetV2, 3_538_984)],
)
def test_models_have_as_many_parameters_as_the_originals_in_keras(network: type[nn.Module], total: int) -> None:
    """Keras counts the statistics of batch normalisation as parameters."""
    module = network()
    statistics = (value for key, value in module.named_buffers() if key.endswith(("running_mean", "running_var")))
    assert sum(value.numel() for value in (*module.parameters(), *statistics)) == total


def test_folding_batch_normalisation_does_not_change_the_answer() -> None:
    network = Autoencoder()
    inputs = seed(network, *WINDOWS).example_inputs
    with torch.no_grad():
        before = network(*inputs)
        after = fold(network)(*inputs)
    assert not [part for part in network.modules() if isinstance(part, nn.BatchNorm1d)]
    # Ten layers of float32, each with a handful of roundings of 2**-24 of its largest value.
    assert (before - after).abs().max() < 100 * 2**-24 * before.abs().max()


def test_upstream_cannot_lower_the_autoencoder_as_it_is_to_float_tosa() -> None:
    """The reason for `fold`: FuseBatchNorm2dPass puts a convolution of images before every other batch norm, also
    where there is no image (https://github.com/pytorch/executorch/pull/11148). If this fails, remove `fold`.
    """
    layers = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)).eval()
    with pytest.raises(CompileError, match="pass fuse_batch_norm2d_pass"):
        lower(from_module(layers, (torch.ones(1, 8),)), TosaSpec("1.0", "FP"))


@pytest.mark.parametrize("name", ["ds_cnn", "autoencoder", "lstm"])
def test_seeded_weights_repeat_whatever_the_number_of_threads(name: str) -> None:
    """The key of a lowered model covers its weights."""
    threads = torch.get_num_threads()
    states = []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            states.append(build_model(MODELS[name]).default.module.state_dict())
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())


@pytest.mark.parametrize("name", ["ds_cnn", "mobilenet_v1", "resnet8", "autoencoder", "transformer_encoder", "lstm"])
def test_another_input_gives_another_answer(name: str) -> None:
    """The difference is far above the resolution of eight bits: a constant answer would verify nothing."""
    model = build_model(MODELS[name])
    with torch.no_grad():
        answers = torch.stack([model.default.module(*inputs) for inputs in model.default.calibration_inputs])
    resolution = (answers.max() - answers.min()) / 255
    assert answers.std(0).mean() > 5 * resolution


def test_same_padding_is_larger_below_and_to_the_right() -> None:
    for size, kernel, padding in (((49, 10), (10, 4), (1, 1, 4, 5)), ((96, 96), (3, 3), (0, 1, 0, 1))):
        (layer,) = same(size, kernel, stride=2)
        assert isinstance(layer, nn.ZeroPad2d)
        assert layer.padding == padding
    assert same((12, 12), (1, 1), stride=2) == []


def test_the_float_network_knows_what_the_photographs_show() -> None:
    """So weights, class numbers and preprocessing belong together."""
    network = efficientnet.network()
    for photograph in PHOTOGRAPHS:
        with torch.no_grad():
            scores = network(torch.from_numpy(photograph.prepare()))
        five = set(scores.topk(5).indices[0].tolist())
        assert not photograph.shows or photograph.shows & five, (photograph.name, [label(number) for number in five])


def test_a_model_that_nobody_trained_says_so_in_its_records() -> None:
    assert build_model(MODELS["lstm"]).notes == (NOTE,)
    network = Autoencoder()
    assert not from_module(network, (torch.zeros(WINDOWS),)).notes


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
