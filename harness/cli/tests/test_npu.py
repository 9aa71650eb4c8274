"""Protects `ethos-hil npu`: what Vela wrote runs, outputs are right, and bad files are one line."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.testing.command import Run, check_errors, check_session
from ethos_hil.harness.testing.compiled_graph import compile_graph
from ethos_hil.harness.verdict.run_delegate import NetworkRunner
from ethos_hil.lowering.formats.npu_network import read_tflite
from ethos_hil.lowering.formats.vela_blob import pack
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.tflite_graph import Generator, TfliteGraph, TfliteTensor, compile_tflite
from ethos_hil.lowering.vela.compiler import flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode

NPU = EthosU.parse("ethos-u55-128")
DATA = Path(__file__).with_name("data")


@pytest.fixture
def ethos_hil(ethos_hil: Run) -> Run:
    """Runs `ethos-hil npu` in an empty folder."""
    return partial(ethos_hil, "npu")


SHAPE = (1, 4, 6, 8)


class MapGraph(TfliteGraph):
    """A network of int8 maps of one shape and quantisation. Vela leaves a mirroring to the CPU."""

    def map(self) -> TfliteTensor:
        return self.tensor(SHAPE, "int8", 0.5, 1)

    def maps(self, count: int) -> list[TfliteTensor]:
        """Add inputs."""
        return [self.input(SHAPE, "int8", 0.5, 1) for _ in range(count)]

    def choose(self, operator: str, first: TfliteTensor, second: TfliteTensor) -> TfliteTensor:
        """Add a MAXIMUM or MINIMUM."""
        result = self.map()
        self.add(operator, [first, second], [result], "MaximumMinimumOptions")
        return result

    def mirror(self, source: TfliteTensor) -> TfliteTensor:
        result, lengths = self.map(), self.constant(np.array([6], np.int32))
        self.add("REVERSE_SEQUENCE", [source, lengths], [result], "ReverseSequenceOptions", seq_dim=2, batch_dim=0)
        return result


def maximum(*, and_a_round: bool = False) -> bytes:
    """The larger of two int8 maps; or between them and the output a rounding that Vela leaves to the CPU."""
    graph = MapGraph()
    larger = graph.choose("MAXIMUM", *graph.maps(2))
    if not and_a_round:
        return graph.output(larger).serialize()
    return graph.output(graph.choose("MINIMUM", graph.mirror(larger), larger)).serialize()


def left_in_the_arena() -> bytes:
    """Three operators of an Ethos-U55 with one of the CPU between each two. The second's result is for the third alone,
    so Vela's file does not have it: that operator has no output.
    """
    graph = MapGraph()
    first, second, third = graph.maps(3)
    mirrored = graph.mirror(graph.choose("MINIMUM", first, third))
    larger = graph.choose("MAXIMUM", mirrored, second)
    return graph.output(graph.choose("MINIMUM", larger, graph.mirror(mirrored))).serialize()


def joined() -> bytes:
    """An output that two operators write in turn, each a half, with one of the CPU between them."""
    graph = MapGraph()
    first, second = graph.maps(2)
    mirrored = graph.mirror(graph.choose("MAXIMUM", first, second))
    halves = [graph.choose("MINIMUM", first, second), graph.choose("MINIMUM", mirrored, second)]
    result = graph.tensor((1, 4, 6, 16), "int8", 0.5, 1)
    graph.add("CONCATENATION", halves, [result], "ConcatenationOptions", axis=3)
    return graph.output(result).serialize()


def maps(count: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.integers(-128, 128, SHAPE).astype(np.int8) for _ in range(count)]


@pytest.mark.parametrize("generator", Generator)
def test_outputs_are_written_and_shown(ethos_hil: Run, generator: Generator) -> None:
    Path("net").write_bytes(compile_tflite(maximum(), NPU, generator=generator))
    first, second = maps()
    np.savez("x.npz", a=first, b=second)
    status, out, err = ethos_hil("net", "--inputs", "x.npz", "--outputs", "y.npz")
    assert (status, err) == (0, "")
    with np.load("y.npz") as arrays:
        (name,) = arrays.files
        assert np.array_equal(arrays[name], np.maximum(first, second))
    assert out.startswith("ran")
    assert "verified" not in out
    assert "ELEMENTWISE MAX" in out
    assert "cycles (modelled)" in out


def test_the_report_is_json(ethos_hil: Run, recorded: Recorded) -> None:
    Path("net.tflite").write_bytes(compile_tflite(maximum(), NPU))
    status, out, _ = ethos_hil("net.tflite", "--json", "-", "--memory-mode", "Sram_Only")
    assert status == 0
    recorded.check(json.loads(out))


def test_what_is_left_to_the_cpu_is_said_and_each_operator_runs_alone(ethos_hil: Run, recorded: Recorded) -> None:
    Path("net.tflite").write_bytes(compile_tflite(maximum(and_a_round=True), NPU))
    first, second = maps()
    np.savez("x.npz", tensor0=first, tensor1=second)
    check_session(recorded, ethos_hil, [
        "net.tflite --inputs x.npz --outputs y.npz --json r.json",
        "json r.json networks.inputs.name networks.inputs.source networks.outputs.name",
    ])  # fmt: skip
    with np.load("y.npz") as arrays:
        assert np.array_equal(arrays["tensor2"], np.maximum(first, second))


def test_what_an_operator_leaves_in_the_arena_is_there_for_the_next(ethos_hil: Run, recorded: Recorded) -> None:
    Path("net.tflite").write_bytes(compile_tflite(left_in_the_arena(), NPU))
    mirrored, second, twice = maps(3)
    np.savez("x.npz", tensor1=second, tensor4=mirrored, tensor7=twice)
    check_session(recorded, ethos_hil, [
        "net.tflite --inputs x.npz --outputs y.npz --json r.json",
        "json r.json networks.inputs.name networks.outputs.name",
    ])  # fmt: skip
    with np.load("y.npz") as arrays:
        assert np.array_equal(arrays["tensor9"], np.minimum(np.maximum(mirrored, second), twice))


def test_a_variable_that_the_npu_keeps_begins_with_what_means_zero() -> None:
    """Vela 5.2 compiled the largest of the last four inputs: READ_VARIABLE, CONCATENATION, MAX_POOL_2D, STRIDED_SLICE,
    ASSIGN_VARIABLE, in int8 with the zero point -7. Vela 5.1 leaves the variable to the CPU.
    """
    (network,) = read_tflite((DATA / "states.tflite").read_bytes(), "states.tflite").networks
    assert [(state.name, state.zero) for state in network.states] == [("0:s", -7)]
    rng, runner, last = np.random.default_rng(1), NetworkRunner(network), [np.full(16, -7)] * 3
    for _ in range(8):
        given = rng.integers(-60, 20, 16)
        last = [*last[-3:], given]
        outputs, _ = runner.run([given.astype(np.int8).reshape(1, 1, 1, 16)])
        named = dict(zip((tensor.name for tensor in network.outputs), outputs, strict=True))
        assert np.array_equal(named["tensor8"].ravel(), np.max(last, axis=0))


def test_an_output_that_two_operators_write_is_whole(ethos_hil: Run) -> None:
    Path("net.tflite").write_bytes(compile_tflite(joined(), NPU))
    first, second, mirrored = maps(3)
    np.savez("x.npz", tensor0=first, tensor1=second, tensor3=mirrored)
    status, out, _ = ethos_hil("net.tflite", "--inputs", "x.npz", "--outputs", "y.npz")
    assert (status, out.count("output  tensor7")) == (0, 2)
    with np.load("y.npz") as arrays:
        halves = np.split(arrays["tensor7"], 2, axis=3)
    assert np.array_equal(halves[0], np.minimum(first, second))
    assert np.array_equal(halves[1], np.minimum(mirrored, second))


def test_the_blob_that_lower_writes_runs(ethos_hil: Run) -> None:
    program = PROGRAMS["add"]
    output = run_vela(program.tosa, flags(NPU, MemoryMode.default(NPU)))
    Path("net.vela").write_bytes(output.blob)
    (_, inputs) = program.input_sets()[0]
    np.savez("x.npz", *inputs)
    status, _, err = ethos_hil("net.vela", "--inputs", "x.npz", "--outputs", "y.npz", "--strict")
    assert (status, err) == (0, "")
    with np.load("y.npz") as arrays:
        assert arrays["output0"].tobytes() == compile_graph(program.tosa, str(NPU)).run(inputs)[0][0]


def test_files_that_are_others_or_do_not_fit_or_are_not_there_are_one_line(ethos_hil: Run, recorded: Recorded) -> None:
    texts = {"empty": b"", "elf": b"\x7fELF", "npz": b"PK\x03\x04", "tflite": b"\x1c\0\0\0TFL3"}
    texts["vela"] = b"vela_bin_stream\0"
    for name, content in {**texts, "before": maximum(), "net": compile_tflite(maximum(), NPU)}.items():
        Path(name).write_bytes(content)
    first, second = maps()
    np.savez("one.npz", a=first)
    np.savez("shape.npz", a=first, b=second[0])
    np.savez("misspelt.npz", tensor1=first, tensr0=second)
    np.savez("type.npz", a=first.astype(np.uint8), b=second)
    check_errors(recorded, ethos_hil, "", [*texts, "before", "none.npz"])
    check_errors(recorded, ethos_hil, "net", [
        "--inputs one.npz", "--inputs shape.npz", "--inputs misspelt.npz", "--inputs type.npz", "--inputs none.npz",
        "--outputs no/y.npz", "--outputs net",
    ])  # fmt: skip


def test_a_fault_of_the_npu_is_a_failure(ethos_hil: Run, recorded: Recorded) -> None:
    blob = run_vela(PROGRAMS["add"].tosa, flags(NPU, MemoryMode.default(NPU))).parsed
    stream = blob.command_data[: blob.stream_offset] + b"\xff" * blob.stream_size
    Path("net.vela").write_bytes(pack(stream, blob.weights, blob.scratch_size, blob.inputs, blob.outputs))
    check_session(recorded, ethos_hil, ["net.vela"])
