"""The model that writes: what it learns, that it reads and writes alike, and its cache on the device."""

from __future__ import annotations

import copy
import functools
from pathlib import Path

import pytest
import torch

import ethos_hil
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.engine import Engine
from ethos_hil.lowering.cache import trained_weights
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.suites.models import writer

SMALL = """
from ethos_hil.lowering.model import Method
from ethos_hil.suites.models import writer


def small():
    prompt = (writer.encode("Now ")[None],)
    return Method(writer.train(60)[0], prompt, (prompt,) * 12, repeat=20, text="character")
"""


def test_the_zen_is_that_of_this_python() -> None:
    text = writer.zen()
    assert "Beautiful is better than ugly." in text
    assert text.isascii()
    assert writer.PROMPT not in text


def test_training_repeats_and_learns() -> None:
    model, losses = writer.train(12)
    other, again = writer.train(12)
    assert losses == again
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), other.parameters(), strict=True))
    assert losses[0] > 4.5, "it knows nothing at first: the logarithm of 128 is 4.9"
    assert losses[-1] < losses[0] - 0.4


def test_it_reads_a_whole_text_as_it_writes_one() -> None:
    """So what it is trained for is what it does with its cache, also once that is full."""
    model, _ = writer.train(4)
    text = writer.encode(writer.zen()[:50])
    stepwise = copy.deepcopy(model)
    with torch.no_grad():
        whole = model.read(torch.nn.functional.pad(text[None, :-1].long(), (1, 0)))[0]
        steps = torch.stack([stepwise(text[None])["logits"][0] for _ in text])
    torch.testing.assert_close(whole, steps, atol=1e-4, rtol=1e-4)


def test_it_writes_the_prompt_and_goes_on_with_its_own_characters() -> None:
    model, _ = writer.train(4)
    prompt = writer.encode("To be")[None]
    with torch.no_grad():
        calls = [model(prompt) for _ in range(8)]
    written = [int(call["character"]) for call in calls]
    assert bytes(written[:5]) == b"To be"
    assert written[5:] == [int(call["logits"].argmax()) for call in calls[5:]]
    assert (int(model.written), int(model.last)) == (8, written[-1])


def test_weights_are_kept_and_made_again_where_the_file_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path))
    calls: list[int] = []

    def train() -> dict[str, object]:
        calls.append(1)
        return {"w": torch.ones(3).numpy()}

    def weights(source: str = "a") -> list[float]:
        arrays = trained_weights.trained_weights("net", (source,), train)  # type: ignore[arg-type]
        return list(arrays["w"])

    assert weights() == weights() == [1, 1, 1]
    assert len(calls) == 1
    (file,) = (tmp_path / "trained").iterdir()
    file.write_bytes(file.read_bytes()[:-30])
    assert weights() == [1, 1, 1]
    assert len(calls) == 2
    weights("b")
    assert len(calls) == 3


def test_the_model_is_found_with_and_without_the_packages_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "train", functools.partial(writer.train, 2))
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # no folder `suites` here
    for name in ("suites.models:tiny_writer", "ethos_hil.suites.models:tiny_writer"):
        model = load_model(name)
        assert isinstance(model, TorchModel)
        method = model.methods["forward"]
        assert (method.repeat, method.text) == (223, "character")


class Forgetful(Engine):
    """An NPU that finds its cache empty in one of the steps."""

    jobs = 0

    def run(self, job: NpuJob) -> JobResult:
        self.jobs += 1
        if self.jobs == 21:  # two jobs in each step
            self._memory.write(self._memory.locate(job.bases[1]), bytes(8 << 10))
        return super().run(job)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_twenty_steps_are_verified_and_a_cache_that_is_lost_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "net.py").write_text(SMALL)
    model = f"{tmp_path / 'net.py'}:small"
    result = ethos_hil.run(model, npu="ethos-u85-256").assert_verified()
    text = "".join(chr(int(result.named_outputs(0, step)["character"][0])) for step in range(20))
    assert text.startswith("Now ")
    assert result.record.text == text
    assert result.record.executions == 20
    compared = {output.name: output.compared for output in result.record.outputs}
    assert (compared["character"], compared["logits"]) == (20, 20 * 128)

    real = VirtualTarget.__init__
    monkeypatch.setattr(VirtualTarget, "__init__", functools.partialmethod(real, engine=Forgetful))
    broken = ethos_hil.run(model, npu="ethos-u85-256")
    assert broken.verdict is Verdict.FAILED
    assert broken.failure is not None
    assert broken.failure.kind is FailureKind.MISMATCH
    assert "repeat 10" in broken.failure.message
