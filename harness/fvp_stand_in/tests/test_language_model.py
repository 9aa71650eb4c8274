"""A decoder with a cache of keys and values, made and run as ExecuTorch's language models are: a token at a time."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ethos_hil.harness.fvp_stand_in.tests.conftest import CORSTONE_320, Board
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.upstream.patches.patch import apply
from ethos_hil.lowering.upstream.patches.table import CALLS_OF_VELA

TOKENS, LENGTH, WIDTH = 24, 12, 32


class Decoder(nn.Module):
    """The next token's scores for a token and its position."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, TOKENS)
        self.register_buffer("positions", torch.arange(LENGTH, dtype=torch.int32))
        self.register_buffer("turns", torch.rand(LENGTH, WIDTH))
        self.register_buffer("k_cache", torch.zeros(1, 1, LENGTH, WIDTH))
        self.register_buffer("v_cache", torch.zeros(1, 1, LENGTH, WIDTH))

    def forward(self: Any, token: Any, position: Any) -> Any:
        x = self.embedding(token)
        turn = self.turns[position]
        query, key, value = (layer(x).view(1, 1, 1, WIDTH) * turn for layer in (self.query, self.key, self.value))
        self.k_cache[:, :, position] = key
        self.v_cache[:, :, position] = value
        scores = torch.where(self.positions <= position, query @ self.k_cache.transpose(2, 3), -1e9)
        return self.head(x + (torch.softmax(scores, -1) @ self.v_cache).view(1, 1, WIDTH))


def step(token: int, position: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([[token]], dtype=torch.int32), torch.tensor([position], dtype=torch.int32)


@pytest.fixture(scope="module")
def decoder() -> Artifact:
    """Its linear layers are on an Ethos-U85, with 16-bit activations; no memory is planned for its inputs."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec, EthosUPartitioner
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_a16w8_quantization_config
    from executorch.exir import ExecutorchBackendConfig, to_edge_transform_and_lower
    from executorch.exir.passes import MemoryPlanningPass
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    spec = EthosUCompileSpec("ethos-u85-256", "Ethos_U85_SYS_DRAM_High", "Dedicated_Sram_512KB")
    quantizer = EthosUQuantizer(spec)
    quantizer.set_module_type(nn.Linear, get_symmetric_a16w8_quantization_config())
    prepared = prepare_pt2e(
        torch.export.export(Decoder().eval().requires_grad_(False), step(0, 0)).module(check_guards=False), quantizer
    )
    for position in range(LENGTH):
        prepared(*step(position, position))
    quantised = torch.export.export(convert_pt2e(prepared), step(0, 0))
    tosa_of: dict[bytes, bytes] = {}

    def watching(vela: Any) -> Any:
        def watched(tosa: bytes, *args: Any, **kwargs: Any) -> Any:
            compiled = vela(tosa, *args, **kwargs)
            tosa_of[bytes(getattr(compiled, "processed_bytes", compiled))] = bytes(tosa)
            return compiled

        return watched

    with apply(CALLS_OF_VELA, watching):
        edge = to_edge_transform_and_lower(quantised, partitioner=[EthosUPartitioner(spec)])
    planning = MemoryPlanningPass(alloc_graph_input=False)
    program = edge.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    artifact = Artifact.of_program(bytes(program.buffer), "decoder.pte")
    delegates = tuple(replace(delegate, tosa=tosa_of[delegate.vela]) for delegate in artifact.delegates)
    return replace(artifact, delegates=delegates)


def test_a_boot_runs_one_token_after_the_other_exactly_and_keeps_what_it_has_seen(
    decoder: Artifact, launchers: Path, tmp_path: Path
) -> None:
    elf = tmp_path / "runner.elf"
    elf.write_bytes(find_firmware("corstone-320"))
    board = Board(CORSTONE_320, launchers, elf, tmp_path)
    (tmp_path / "program.pte").write_bytes(decoder.pte)
    reference = Reference(decoder)
    token, console = 1, ""
    words = "-m program.pte -o out -i i0.bin -i i1.bin --server_mode true"
    for number, value in enumerate(step(token, 0)):
        (tmp_path / f"i{number}.bin").write_bytes(value.numpy().tobytes())
    with subprocess.Popen(
        board.command(words, seconds=60), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for position in range(LENGTH):
            inputs = [value.numpy() for value in step(token, position)]
            for number, array in enumerate(inputs):
                (tmp_path / f"i{number}.bin").write_bytes(array.tobytes())
            process.stdin.write("go\n")
            process.stdin.flush()
            while not (line := process.stdout.readline()).endswith(f"SERVER_INFERENCE_DONE {position}\n"):
                assert line.startswith("I "), line
                console += line
            answer = np.fromfile(tmp_path / "out-0.bin", np.float32)
            (right,) = reference.run(inputs).outputs
            assert np.array_equal(answer, right.reshape(-1)), f"token {position}"
            token = int(answer.argmax())
        assert not np.array_equal(Reference(decoder).run(inputs).outputs, [right]), "a program that has seen nothing"
        process.stdin.close()
        console += process.stdout.read()
    assert process.returncode == 0
    assert "fast_scratch:              524288\n" in console, "as much as it was compiled for"
    delegations = f"NPU delegations: {len(decoder.delegates)} ("
    assert console.count(delegations) == LENGTH, "the counters are those of one job"
