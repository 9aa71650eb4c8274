"""Protects the weight decoder's process: there is one, no stream ends this process with it, and none is left behind."""

from __future__ import annotations

import _ctypes
import concurrent.futures
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.base.testing.processes import left_of
from ethos_hil.harness.npu.tests.encoded import mlw
from ethos_hil.harness.npu.weights import weight_coding

ENDLESS = "the decoder did not finish"


def some_weights(count: int, seed: int = 0) -> np.ndarray:
    """Weights with runs of zeros and both extremes of 9 bits."""
    rng = np.random.default_rng(seed)
    values = rng.integers(-255, 256, count) * (rng.random(count) < 0.6)
    values[: count // 3] = 0
    return values


def stream(count: int, seed: int = 0) -> tuple[bytes, int]:
    """A stream and its length in weights."""
    return mlw(some_weights(count, seed)), count


def arrays(results: list[weight_coding.Weights | weight_coding.CorruptStream]) -> list[np.ndarray]:
    """The results, none of which is an error."""
    assert all(isinstance(result, np.ndarray) for result in results), results
    return results  # type: ignore[return-value]


@pytest.fixture
def fresh() -> Iterator[None]:
    """Run a test that disturbs the worker with none before and none after it."""
    weight_coding.DECODER.stop()
    yield
    weight_coding.DECODER.stop()


def worker() -> int | None:
    """The worker's process id, if there is one."""
    running = weight_coding.DECODER._process
    return None if running is None else running.process.pid


def test_a_batch_is_decoded_while_nobody_waits(fresh: None) -> None:
    batch = weight_coding.Batch([stream(30000, seed) for seed in range(8)])
    batch.start()
    assert np.array_equal(batch.take(0), some_weights(30000, 0))  # type: ignore[arg-type]
    concurrent.futures.wait(batch._results.values(), 20)
    assert all(result.done() for result in batch._results.values())  # without being asked for
    for index in (7, 3, 1, 2):
        assert np.array_equal(batch.take(index), some_weights(30000, index))  # type: ignore[arg-type]


def test_a_corrupt_stream_leaves_its_neighbours_alone() -> None:
    good, count = stream(500)
    streams = [(good, count), (b"", 0), (good[: len(good) // 2], count), (good, count), (b"\0" * 64, 9), (good, count)]
    results = weight_coding.decode(streams)
    assert [str(result) for result in results if isinstance(result, weight_coding.CorruptStream)] == [ENDLESS, ENDLESS]
    assert [type(result) for result in results] == [np.ndarray] * 2 + [weight_coding.CorruptStream, np.ndarray] * 2
    assert all(np.array_equal(results[i], results[0]) for i in (3, 5))  # type: ignore[arg-type]
    assert results[1].size == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("expected", [0, 499, 501, 1 << 26])
def test_a_wrong_number_of_weights_is_an_error(expected: int) -> None:
    good, _ = stream(500)
    wrong, right = weight_coding.decode([(good, expected), (good, 500)])
    assert str(wrong) == f"it decodes to 500 weights where the registers describe {expected}"
    assert np.array_equal(right, some_weights(500))  # type: ignore[arg-type]


def test_an_interruption_does_not_mix_up_answers(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = weight_coding.Batch([stream(1000, seed) for seed in range(3)])
    batch.start()

    def interrupted(future: object, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(concurrent.futures.Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        batch.take(0)
    monkeypatch.undo()
    for index in range(3):
        assert np.array_equal(batch.take(index), some_weights(1000, index))  # type: ignore[arg-type]


def run(program: str, *, flags: tuple[str, ...] = ("-W", "error")) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python process of its own."""
    modules = "ethos_hil.harness.npu.weights import weight_coding", "ethos_hil.harness.npu.tests.test_codec import *"
    before = "import os\n" + "".join(f"from {module}\n" for module in modules)
    command = [sys.executable, *flags, "-c", before + textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_forked_process_has_a_worker_of_its_own() -> None:
    done = run(
        """
        batch = weight_coding.Batch([stream(100, seed) for seed in range(3)])
        batch.start()
        batch.take(0)
        mine = worker()
        child = os.fork()
        assert np.array_equal(batch.take(1), some_weights(100, 1))
        if child == 0:
            assert worker() != mine
            weight_coding.DECODER.stop()
            os._exit(7)
        assert worker() == mine
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert np.array_equal(batch.take(2), some_weights(100, 2))
        print(worker())
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert left_of([int(done.stdout)]) == []


@pytest.mark.parametrize(("library", "error"), [(None, "not installed"), (_ctypes.__file__, "mlw_decode")])
def test_a_decoder_that_is_missing_or_another_is_named(
    fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str | None, error: str
) -> None:
    (tmp_path / "ethosu").mkdir()
    (tmp_path / "ethosu" / "__init__.py").touch()
    if library is not None:
        (tmp_path / "ethosu" / "mlw_codec.so").symlink_to(library)
    monkeypatch.setattr(weight_coding.DECODER, "_path", (str(tmp_path), *sys.path))
    with pytest.raises(ToolError, match=f"cannot be used: .*{error}"):
        weight_coding.decode([(b"x", 1)])


def test_a_stream_that_expands_without_end_is_stopped(fresh: None) -> None:
    """The worker's memory is limited: zero runs of a damaged stream may describe gigabytes."""
    weight_coding.DECODER.start()
    weight_coding.decode([stream(10)])
    limits = Path(f"/proc/{worker()}/limits").read_text().splitlines()
    (address_space,) = (line for line in limits if line.startswith("Max address space"))
    assert address_space.split()[3] == str(1 << 30)
