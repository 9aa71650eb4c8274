"""Modules and tensors of declarations: the same in every session, and nothing but layers and functions of tensors."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.bench.points import BenchInput
from ethos_hil.harness.declared import declared_digest
from ethos_hil.harness.testing.refusals import refusal
from ethos_hil.lowering.cache.versions import source_digest

FOLDER = Path(__file__).parents[1]


def digest_of(name: str) -> str:
    """The SHA-256 of all numbers of a layer and its inputs, drawn for a declaration of that name."""
    from ethos_hil.harness.declared.modules import new_layer, random_inputs, seed

    seed(name)
    layer = new_layer("BatchNorm2d", (3,), {})
    example, calibration = random_inputs(
        (BenchInput((1, 3, 4, 4), channels_last=True), BenchInput((5,), "int8", -9, 9))
    )
    tensors = [*layer.state_dict().values(), *example, *(tensor for inputs in calibration for tensor in inputs)]
    return hashlib.sha256(b"".join(tensor.contiguous().numpy().tobytes() for tensor in tensors)).hexdigest()


def test_numbers_come_from_the_name_and_stay_as_they_are() -> None:
    """Caches and recordings of operator tests know a model by its numbers: drawn in another order, all are void."""
    assert digest_of("one") == digest_of("one") != digest_of("two")
    assert digest_of("one")[:16] == "e0eb978c9a7c5ba9"


def test_the_example_is_one_of_the_calibration_sets_and_keeps_its_limits() -> None:
    from ethos_hil.harness.declared.modules import random_inputs

    example, calibration = random_inputs((BenchInput((1, 8, 5, 7), low=0.5, high=2, channels_last=True),))
    assert len(calibration) == 3
    assert calibration[0] is example
    assert 0.5 <= example[0].min() < 0.7 < 1.8 < example[0].max() <= 2
    assert example[0].stride() == (280, 1, 56, 8)


def test_norms_do_something() -> None:
    from ethos_hil.harness.declared.modules import new_layer

    norm = new_layer("LayerNorm", (64,), {}).state_dict()
    assert norm["weight"].std() > 0.1
    assert norm["bias"].std() > 0.1


def test_functions_of_tensors_and_layers_are_found_and_nothing_else(recorded: Recorded) -> None:
    """A grid is a file that others may have written: `save` with an option would write where it says."""
    from ethos_hil.harness.declared.modules import new_layer, tensor_function

    for name in ("mul", "cat", "nn.functional.gelu", "linalg.vector_norm", "ops.aten.slice"):
        assert callable(tensor_function(name))
    bad = ("save", "load", "compile", "os.system", "hub.load", "serialization.os.system", "nn.functional.torch", "pi")
    lines = [refusal(tensor_function, name) for name in bad]
    lines += [refusal(new_layer, name, (), {}) for name in ("init", "Module.eval", "Relu")]
    recorded.check("\n".join(lines))


def test_what_is_kept_is_kept_for_this_source(tmp_path: Path) -> None:
    assert declared_digest() == source_digest(FOLDER)
    copy = shutil.copytree(FOLDER, tmp_path / "declared")
    with (copy / "seed.py").open("a") as stream:
        stream.write("# changed\n")
    assert source_digest(copy) != declared_digest()
