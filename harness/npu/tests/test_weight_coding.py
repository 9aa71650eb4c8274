"""Protects the weight decoders. Of Vela's process there is one, no stream ends this process with it, and none is left
behind; ours, of plain MLW streams and of FWD coding, say what Vela's says, and no stream does harm."""

from __future__ import annotations

import _ctypes
import concurrent.futures
import random
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
from ethos_hil.harness.npu.weights.weight_coding import CorruptStream

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
    assert [str(result) for result in results if isinstance(result, CorruptStream)] == [ENDLESS, ENDLESS]
    assert [type(result) for result in results] == [np.ndarray] * 2 + [CorruptStream, np.ndarray] * 2
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


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python process of its own."""
    before = "import os\nfrom ethos_hil.harness.npu.tests.test_weight_coding import *\n"
    command = [sys.executable, "-W", "error", "-c", before + textwrap.dedent(program)]
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


# --- Plain streams. ---

RNG = np.random.default_rng(0)
SPREAD = {
    "8 bits": RNG.integers(-127, 128, 70_000),
    "9 bits": RNG.integers(-255, 256, 3001),
    "5 bits": RNG.integers(-15, 16, 3001),
    "two weights": RNG.choice([-3, 100], 999),
    "some weights": RNG.choice(np.arange(1, 97, 3), 5000),
    "more than a palette has": RNG.choice(np.arange(1, 200, 5), 5000),
    "one weight": RNG.integers(-127, 128, 1),
    "a few coded ones between": np.r_[RNG.integers(1, 128, 9000), RNG.geometric(0.1, 99), RNG.integers(1, 128, 9000)],
}
PLAIN = ("8 bits", "9 bits", "5 bits", "two weights", "some weights", "a few coded ones between")


@pytest.mark.parametrize("name", SPREAD)
def test_weights_without_a_shape(name: str) -> None:
    values = SPREAD[name]
    plain = weight_coding.parse(mlw(values), len(values))
    assert plain is not None or name not in PLAIN
    assert plain is None or plain.weights().tolist() == values.tolist()
    coded = [bool(piece.coded) for piece in plain.slices] if plain else []
    assert (coded == [False, True, False]) == (name == "a few coded ones between")


@pytest.mark.parametrize("divisor", range(6))
@pytest.mark.parametrize("truncated", [0, 1])
def test_numbers_of_variable_width(divisor: int, truncated: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written down bit by bit, with any units and remainders, as Vela's decoder reads them."""
    monkeypatch.setattr(weight_coding, "MOST_CODED", 1)
    draw = random.Random(divisor)
    for count in (1, 11, 12, 13, 100):
        header = [(6, 3), (count - 1, 15), (divisor, 3), (truncated, 1), (1, 1), (3, 5), (0, 5), (6, 3)]
        # Units of 0 or 1 in the most part, so that no number is too large; enough bits for all chunks.
        chunks = [(draw.choice([0, 1, 0x111, 0x421]), 12) for _ in range(3)] + [(0, 12)] * 30
        text = sum_of_bits(header) | sum_of_bits(chunks) << 36
        bits = weight_coding._Bits(text.to_bytes(100, "little"))
        piece = next(weight_coding._slices(bits, count))
        whole = text & ((1 << bits.at) - 1) | 7 << bits.at
        stream = whole.to_bytes(-(-(bits.at + 3) // 8), "little")
        (expected,) = weight_coding.decode([(stream, count)])
        assert isinstance(expected, np.ndarray)
        assert piece.palette.weights(np.array(piece.coded, np.uint16)).tolist() == expected.tolist()


def sum_of_bits(fields: list[tuple[int, int]]) -> int:
    """Fields of (value, width), the first lowest."""
    text = at = 0
    for value, width in fields:
        text |= value << at
        at += width
    return text


def test_streams_with_more_to_them_are_left() -> None:
    for values in (np.zeros(500), RNG.integers(-127, 128, 5000) * (RNG.random(5000) < 0.5), RNG.laplace(0, 9, 5000)):
        whole = np.round(values).clip(-255, 255)
        assert weight_coding.parse(mlw(whole), len(whole)) is None


def test_no_damage_does_harm() -> None:
    """Damaged streams are left, or decoded as Vela's decoder does."""
    draw, decoded = random.Random(1), 0
    streams = [(mlw(SPREAD[name][:700]), min(700, len(SPREAD[name]))) for name in PLAIN]
    for _ in range(400):
        stream, count = draw.choice(streams)
        damaged = bytearray(stream)
        for _ in range(draw.choice([1, 1, 3])):
            damaged[draw.choice([draw.randrange(8), draw.randrange(len(damaged))])] = draw.randrange(256)
        if draw.random() < 0.2:
            del damaged[draw.randrange(len(damaged)) :]
        plain = weight_coding.parse(bytes(damaged), count)
        if plain is not None:
            (expected,) = weight_coding.decode([(bytes(damaged), count)])
            assert isinstance(expected, np.ndarray)
            assert plain.weights().tolist() == expected.tolist()
            decoded += 1
    assert decoded > 100


# --- Protects the decoder of FWD coding: it decodes every kind of stream, and none can do harm.


def folded(value: int) -> int:
    """A table entry: the sign lowest."""
    return abs(value) << 1 | (value < 0)


def encoded(values: list[int], *, adjustment: int = 0, table: list[int] | None = None) -> bytes:
    """A stream of raw weights, or of indices into a table, written down bit by bit."""
    raw, small = table is None, table is not None and len(table) <= 4
    header = raw | small << 1 | (adjustment & 0xFF) << 104
    for number, entry in enumerate(table or []):
        header |= folded(entry) << 112 + 9 * number
    bits = 8 if raw else 2 if small else 4
    payload = 0
    for number, value in enumerate(values):
        coded = (value + adjustment) & 0xFF if table is None else table.index(value)
        payload |= coded << bits * number
    size = -(-len(values) * bits // 256) * 32
    return header.to_bytes(32, "little") + payload.to_bytes(size, "little")


@pytest.mark.parametrize("count", [0, 1, 3, 31, 32, 33, 64, 127, 1000])
@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [("raw", -128, 127), ("below", -255, 0), ("above", 0, 255), ("small", -2, 1), ("large", -200, 201)],
)
def test_every_kind_of_stream(kind: str, low: int, high: int, count: int) -> None:
    rng = np.random.default_rng(count)
    table = {"small": [-255, 0, 3, 255], "large": [int(v) for v in np.linspace(low, high, 16)]}.get(kind)
    values = [int(v) for v in (rng.integers(low, high + 1, count) if table is None else rng.choice(table, count))]
    adjustment = {"below": 127, "above": -128}.get(kind, 0)
    decoded = weight_coding.decode_fwd(encoded(values, adjustment=adjustment, table=table), count)
    assert decoded.tolist() == values


REFUSED = {
    "empty": (b"", 0, "0 bytes are too few"),
    "header cut off": (bytes(31), 0, "31 bytes are too few"),
    "no payload": (bytes([1]) + bytes(31), 1, "32 bytes where 1 weights in FWD coding take 64"),
    "payload cut off": (encoded([1] * 33)[:-32], 33, "64 bytes where 33 weights in FWD coding take 96"),
    "too much payload": (encoded([1] * 33), 32, "96 bytes where 32 weights in FWD coding take 64"),
    "far too many weights": (encoded([1] * 33), 1 << 40, "1099511627776 weights in FWD coding take"),
    "reserved bit": (bytes([1, 1]) + bytes(62), 1, "0101.* no known meaning"),
    "last reserved bit": (bytes([1]) + bytes(11) + b"\x80" + bytes(51), 1, "no known meaning"),
    "raw and small": (bytes([3]) + bytes(63), 1, "03.* no known meaning"),
    "adjusted table": (bytes(13) + b"\x01" + bytes(50), 1, "01, which has no known meaning"),
}


@pytest.mark.parametrize(("stream", "count", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_malformed_stream_is_refused(stream: bytes, count: int, message: str) -> None:
    with pytest.raises(CorruptStream, match=message):
        weight_coding.decode_fwd(stream, count)
