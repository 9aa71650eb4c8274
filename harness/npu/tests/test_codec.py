"""Protects the weight decoder's process: there is one, no stream ends this process with it, and none is left behind."""

from __future__ import annotations

import _ctypes
import concurrent.futures
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from ethosu import mlw_codec

from ethos_hil.base.errors import ToolError
from ethos_hil.base.testing.processes import left_of
from ethos_hil.harness.npu.tests.encoded import mlw
from ethos_hil.harness.npu.weights import codec
from ethos_hil.lowering.native.worker import NativeCrash

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


def arrays(results: list[codec.Weights | codec.CorruptStream]) -> list[np.ndarray]:
    """The results, none of which is an error."""
    assert all(isinstance(result, np.ndarray) for result in results), results
    return results  # type: ignore[return-value]


@pytest.fixture
def fresh() -> Iterator[None]:
    """Run a test that disturbs the worker with none before and none after it."""
    codec.DECODER.stop()
    yield
    codec.DECODER.stop()


def worker() -> int | None:
    """The worker's process id, if there is one."""
    running = codec.DECODER._process
    return None if running is None else running.process.pid


def test_the_worker_decodes_as_the_python_function_does() -> None:
    streams = [stream(count, count) for count in (1, 16, 1000, 40000)]
    for (compressed, _), decoded in zip(streams, arrays(codec.decode(streams)), strict=True):
        assert decoded.tolist() == list(mlw_codec.decode(bytearray(compressed)))


def test_no_streams_need_no_process(fresh: None) -> None:
    assert codec.decode([]) == []
    assert worker() is None


def test_one_worker_serves_all_calls(fresh: None) -> None:
    codec.DECODER.start()
    first = worker()
    for seed in range(20):
        (decoded,) = arrays(codec.decode([stream(50, seed)]))
        assert np.array_equal(decoded, some_weights(50, seed))
    assert worker() == first


def test_a_batch_is_decoded_while_nobody_waits(fresh: None) -> None:
    batch = codec.Batch([stream(30000, seed) for seed in range(8)])
    batch.start()
    assert np.array_equal(batch.take(0), some_weights(30000, 0))  # type: ignore[arg-type]
    concurrent.futures.wait(batch._results.values(), 20)
    assert all(result.done() for result in batch._results.values())  # without being asked for
    for index in (7, 3, 1, 2):
        assert np.array_equal(batch.take(index), some_weights(30000, index))  # type: ignore[arg-type]


def test_a_result_is_handed_out_once() -> None:
    batch = codec.Batch([stream(10)])
    batch.take(0)
    with pytest.raises(AssertionError, match="once"):
        batch.take(0)


def test_batches_may_be_asked_in_any_order(fresh: None) -> None:
    batches = [codec.Batch([stream(2000, 10 * n), stream(500, 10 * n + 1)]) for n in range(3)]
    for batch in batches:
        batch.start()
    for n in (2, 0, 1):
        assert np.array_equal(batches[n].take(1), some_weights(500, 10 * n + 1))  # type: ignore[arg-type]
        assert np.array_equal(batches[n].take(0), some_weights(2000, 10 * n))  # type: ignore[arg-type]


def test_an_answer_leaves_no_memory_behind(fresh: None) -> None:
    batch = codec.Batch([stream(100000)])
    reference = weakref.ref(batch.take(0))
    assert reference() is None


def test_a_corrupt_stream_leaves_its_neighbours_alone() -> None:
    good, count = stream(500)
    streams = [(good, count), (b"", 0), (good[: len(good) // 2], count), (good, count), (b"\0" * 64, 9), (good, count)]
    results = codec.decode(streams)
    assert [str(result) for result in results if isinstance(result, codec.CorruptStream)] == [ENDLESS, ENDLESS]
    assert [type(result) for result in results] == [np.ndarray] * 2 + [codec.CorruptStream, np.ndarray] * 2
    assert all(np.array_equal(results[i], results[0]) for i in (3, 5))  # type: ignore[arg-type]
    assert results[1].size == 0  # type: ignore[union-attr]


@pytest.mark.parametrize("expected", [0, 499, 501, 1 << 26])
def test_a_wrong_number_of_weights_is_an_error(expected: int) -> None:
    good, _ = stream(500)
    wrong, right = codec.decode([(good, expected), (good, 500)])
    assert str(wrong) == f"it decodes to 500 weights where the registers describe {expected}"
    assert np.array_equal(right, some_weights(500))  # type: ignore[arg-type]


def damaged(generator: random.Random, good: bytes) -> bytes:
    """A stream with bits flipped, cut short, or made up."""
    changed = bytearray(good)
    kind = generator.randrange(3)
    if kind == 0:
        for _ in range(generator.randint(1, 3)):
            at = generator.randrange(len(changed) * 8)
            changed[at // 8] ^= 1 << at % 8
    elif kind == 1:
        del changed[generator.randrange(len(changed)) :]
    else:
        changed = bytearray(generator.randbytes(generator.choice((1, 16, 300))))
    return bytes(changed)


def test_damaged_streams_end_in_weights_or_an_error() -> None:
    generator = random.Random(3)
    good, count = stream(300)
    results = codec.decode([(damaged(generator, good), count) for _ in range(60)])
    assert {type(result) for result in results} == {np.ndarray, codec.CorruptStream}
    (original,) = arrays(codec.decode([(good, count)]))
    weights = [result for result in results if isinstance(result, np.ndarray)]
    assert sum(np.array_equal(result, original) for result in weights) < len(weights) // 2  # padding changes nothing


def test_a_worker_that_was_ended_is_replaced(fresh: None) -> None:
    codec.decode([stream(10)])
    first = worker()
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert np.array_equal(arrays(codec.decode([stream(20)]))[0], some_weights(20))
    assert worker() != first


def test_a_worker_that_ended_is_no_zombie(fresh: None) -> None:
    codec.decode([stream(10)])
    first = worker()
    assert first is not None
    codec.decode([(b"\0" * 64, 9)])
    with pytest.raises(ChildProcessError):
        os.waitpid(first, os.WNOHANG)


def test_an_interruption_does_not_mix_up_answers(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = codec.Batch([stream(1000, seed) for seed in range(3)])
    batch.start()

    def interrupted(future: object, timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(concurrent.futures.Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        batch.take(0)
    monkeypatch.undo()
    for index in range(3):
        assert np.array_equal(batch.take(index), some_weights(1000, index))  # type: ignore[arg-type]


def test_an_interrupted_start_is_made_again(fresh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(codec.DECODER, "start", interrupted)
    batch = codec.Batch([stream(100)])
    with pytest.raises(KeyboardInterrupt):
        batch.start()
    monkeypatch.undo()
    assert np.array_equal(batch.take(0), some_weights(100))  # type: ignore[arg-type]


def test_threads_may_decode_at_once() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        for turn in range(20):
            batch = codec.Batch([stream(200, seed + turn), stream(90, turn)])
            batch.start()
            first, second = batch.take(0), batch.take(1)
            if not np.array_equal(first, some_weights(200, seed + turn)) or len(second) != 90:  # type: ignore[arg-type]
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(100 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def run(program: str, *, flags: tuple[str, ...] = ("-W", "error")) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python process of its own."""
    before = "from ethos_hil.harness.npu.weights import codec\nfrom ethos_hil.harness.npu.tests.test_codec import *\n"
    command = [sys.executable, *flags, "-c", before + textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("end", ["", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)", "raise KeyboardInterrupt"])
def test_the_worker_ends_with_this_process(end: str) -> None:
    done = run(f"codec.decode([stream(10)])\nprint(worker(), flush=True)\n{end}")
    assert left_of([int(done.stdout)]) == []
    if not end:
        assert (done.returncode, done.stderr) == (0, "")  # no ResourceWarning either


def test_a_forked_process_has_a_worker_of_its_own() -> None:
    done = run(
        """
        batch = codec.Batch([stream(100, seed) for seed in range(3)])
        batch.start()
        batch.take(0)
        mine = worker()
        child = os.fork()
        assert np.array_equal(batch.take(1), some_weights(100, 1))
        if child == 0:
            assert worker() != mine
            codec.DECODER.stop()
            os._exit(7)
        assert worker() == mine
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert np.array_equal(batch.take(2), some_weights(100, 2))
        print(worker())
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert left_of([int(done.stdout)]) == []


def test_ctrl_c_does_not_reach_the_worker() -> None:
    """A terminal sends it to the whole foreground process group."""
    done = run(
        """
        os.setpgid(0, 0)
        codec.decode([stream(10)])
        first = worker()
        try:
            os.killpg(0, signal.SIGINT)
            time.sleep(1)
        except KeyboardInterrupt:
            pass
        codec.decode([stream(10)])
        print(first == worker())
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_a_decoder_that_does_not_answer_is_a_corrupt_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(header: object, blocks: object, *, seconds: int) -> None:
        raise NativeCrash(f"did not end within {seconds} seconds of CPU time")

    monkeypatch.setattr(codec.DECODER, "call", endless)
    assert str(codec.decode([(b"x", 1)])[0]) == ENDLESS


def test_a_process_that_cannot_be_started_is_an_error_of_its_own(
    fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = len(list(Path("/proc/self/fd").iterdir()))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolError, match=r"cannot be started: .*No such file"):
        codec.decode([(b"x", 1)])
    assert len(list(Path("/proc/self/fd").iterdir())) == files


@pytest.mark.parametrize(("library", "error"), [(None, "not installed"), (_ctypes.__file__, "mlw_decode")])
def test_a_decoder_that_is_missing_or_another_is_named(
    fresh: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str | None, error: str
) -> None:
    (tmp_path / "ethosu").mkdir()
    (tmp_path / "ethosu" / "__init__.py").touch()
    if library is not None:
        (tmp_path / "ethosu" / "mlw_codec.so").symlink_to(library)
    monkeypatch.setattr(codec.DECODER, "_path", (str(tmp_path), *sys.path))
    with pytest.raises(ToolError, match=f"cannot be used: .*{error}"):
        codec.decode([(b"x", 1)])


def test_a_stream_that_expands_without_end_is_stopped(fresh: None) -> None:
    """The worker's memory is limited: zero runs of a damaged stream may describe gigabytes."""
    codec.DECODER.start()
    codec.decode([stream(10)])
    limits = Path(f"/proc/{worker()}/limits").read_text().splitlines()
    (address_space,) = (line for line in limits if line.startswith("Max address space"))
    assert address_space.split()[3] == str(1 << 30)
