"""Protects streams of Vela's Python generator (`ethosu.vela.api`), which most programs before 2026 came from.

It writes fewer registers than the generator that compiles TOSA: what an operation does not use keeps an older value.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest
from ethosu.vela import api

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.npu.isa.operations import Pool
from ethos_hil.harness.npu.tests.streams import U55, U85, compiled, patched

HEIGHT, WIDTH, DEPTH = 6, 8, 16
MIDDLE, END = 0x1000, 0x2000  # where the convolution's and the pool's outputs lie in region 1
U55_128 = api.NpuAccelerator.Ethos_U55_128


def feature_map(shape: tuple[int, int, int], address: int, zero_point: int) -> api.NpuFeatureMap:
    result = api.NpuFeatureMap()
    result.data_type = api.NpuDataType.INT8
    result.region = 1
    result.shape = api.NpuShape3D(*shape)
    result.tiles = api.NpuTileBox(shape[0], 0, shape[1], [address, 0, 0, 0])
    result.quantization = api.NpuQuantization(1.0, zero_point)
    return result


def block_of(op: api.NpuBlockOperation) -> api.NpuBlockOperation:
    op.block_config = api.npu_find_block_configs(op, U55_128)[0]
    return op


def convolution(multiplier: int, shift: int) -> tuple[api.NpuConv2DOperation, bytes]:
    """A 1x1 convolution that copies each channel, scaled; and region 0, its weights and scales."""
    op = api.NpuConv2DOperation()
    op.ifm, op.ofm = feature_map((HEIGHT, WIDTH, DEPTH), 0, 0), feature_map((HEIGHT, WIDTH, DEPTH), MIDDLE, 0)
    op.kernel, op.padding = api.NpuKernel(1, 1), api.NpuPadding(0, 0, 0, 0)
    op.block_traversal = api.NpuBlockTraversal.DEPTH_FIRST
    block_of(op)
    identity = np.eye(DEPTH, dtype=np.int16).reshape(DEPTH, 1, 1, DEPTH)
    weights = bytes(
        api.npu_encode_weights(U55_128, identity, (1, 1), 8, op.block_config.depth, False, op.block_traversal)
    )
    scales = b"".join(bytes(api.npu_encode_bias(np.int64(0), multiplier, shift)) for _ in range(DEPTH))
    op.weights = [api.NpuAddressRange(0, 0, len(weights))]
    op.biases = [api.NpuAddressRange(0, len(weights), len(scales))]
    return op, weights + scales


def pooling(mode: api.NpuPoolingOp, zero_point: int = 0) -> api.NpuPoolingOperation:
    """A 2x2 pool of the convolution's output."""
    op = api.NpuPoolingOperation(mode)
    op.ifm = feature_map((HEIGHT, WIDTH, DEPTH), MIDDLE, zero_point)
    op.ofm = feature_map((HEIGHT // 2, WIDTH // 2, DEPTH), END, zero_point)
    op.kernel, op.padding = api.NpuKernel(2, 2, 2, 2), api.NpuPadding(0, 0, 0, 0)
    return block_of(op)


def stream_of(*operations: api.NpuOperation) -> bytes:
    words = api.npu_generate_register_command_stream(list(operations), U55_128)
    return struct.pack(f"<{len(words)}I", *words)


@pytest.mark.parametrize("zero_point", [0, -7])
def test_a_maximum_behind_a_convolution_is_not_scaled(zero_point: int) -> None:
    """For MAX it neither sets OFM_PRECISION's bit for OFM_SCALE nor writes scales: the convolution's remain."""
    first, constants = convolution(1, 1)
    npu = Npu(EthosU.parse(U55), strict=True)
    program = npu.decode(stream_of(first, pooling(api.NpuPoolingOp.MAX, zero_point)))
    values = np.random.default_rng(0).integers(-128, 128, (HEIGHT, WIDTH, DEPTH)).astype(np.int8)
    memory = np.zeros(0x3000, np.uint8)
    memory[: values.size] = values.view(np.uint8).ravel()
    npu.run(program, {0: np.frombuffer(constants, np.uint8), 1: memory})
    halved = np.floor((values.astype(int) + 1) / 2).clip(-128, 127)
    expected = halved.reshape(HEIGHT // 2, 2, WIDTH // 2, 2, DEPTH).max(axis=(1, 3))
    output = memory[END : END + expected.size].view(np.int8).reshape(expected.shape)
    assert np.array_equal(output, expected)


def test_a_maximum_reads_no_scales() -> None:
    """It needs no scale registers: here nothing has written them."""
    stream = stream_of(pooling(api.NpuPoolingOp.MAX))
    (op,) = Npu(EthosU.parse(U55)).decode(stream).ops
    assert isinstance(op, Pool)
    assert (op.channel_scales, op.scale.is_one) == (None, True)
    assert {access.register for access in op.accesses} == {"IFM_BASE0", "OFM_BASE0"}


@pytest.mark.parametrize(
    ("multiplier", "shift"), [(1, 0), (1 << 30, 30), (0x71C71C73, 34)], ids=["1", "2**30 >> 30", "1/9"]
)
def test_an_average_divides_by_valid_taps_alone(multiplier: int, shift: int) -> None:
    """Velas 4.0 to 5.0 write the third for networks of TensorFlow Lite, padded or not; 5.1 writes the second."""
    values = np.random.default_rng(0).integers(-128, 128, (1, 16, 15, 19)).astype(np.int8)
    plain = compiled("average pool padded", U85)
    scaled = patched(plain, OFM_SCALE=1 << 45 | shift << 32 | multiplier)
    assert scaled.run([values])[0] == plain.run([values])[0]
