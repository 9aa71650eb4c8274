"""Protects `ethos-hil npu`: what Vela wrote runs, outputs are right, and bad files are one line."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.harness.testing.compiled_graph import compile_graph
from ethos_hil.harness.testing.snapshot import Snapshot
from ethos_hil.lowering.formats.vela_blob import pack
from ethos_hil.lowering.testing.programs.catalogue import PROGRAMS
from ethos_hil.lowering.testing.tflite_graph import Generator, TfliteGraph, compile_tflite
from ethos_hil.lowering.vela.compiler import flags, run_vela
from ethos_hil.lowering.vela.memory_mode import MemoryMode

NPU = EthosU.parse("ethos-u55-128")


@pytest.fixture
def ethos_hil(command_line: Run) -> Run:
    """Runs `ethos-hil npu` in an empty folder."""
    return partial(command_line, "npu")


def maximum(*, and_a_round: bool = False) -> bytes:
    """The larger of two int8 maps; or between them and the output a rounding that Vela leaves to the CPU."""
    graph = TfliteGraph()
    first, second = (graph.input((1, 4, 6, 8), "int8", 0.5, 1) for _ in range(2))
    larger = graph.tensor((1, 4, 6, 8), "int8", 0.5, 1)
    graph.add("MAXIMUM", [first, second], [larger], "MaximumMinimumOptions")
    if not and_a_round:
        return graph.output(larger).serialize()
    mirrored, last = graph.tensor((1, 4, 6, 8), "int8", 0.5, 1), graph.tensor((1, 4, 6, 8), "int8", 0.5, 1)
    lengths = graph.constant(np.array([6], np.int32))
    graph.add("REVERSE_SEQUENCE", [larger, lengths], [mirrored], "ReverseSequenceOptions", seq_dim=2, batch_dim=0)
    graph.add("MINIMUM", [mirrored, larger], [last], "MaximumMinimumOptions")
    return graph.output(last).serialize()


def maps() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.integers(-128, 128, (1, 4, 6, 8)).astype(np.int8) for _ in range(2)]


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


def test_the_report_is_json(ethos_hil: Run) -> None:
    Path("net.tflite").write_bytes(compile_tflite(maximum(), NPU))
    status, out, _ = ethos_hil("net.tflite", "--json", "-", "--memory-mode", "Sram_Only")
    report = json.loads(out)
    (network,) = report["networks"]
    assert (status, report["outcome"], report["cpu_operators"]) == (0, "ran", 0)
    assert (network["npu"], network["memory_mode"], network["provenance"]) == ("ethos-u55-128", "Sram_Only", "modelled")
    assert [(row["name"], row["source"]) for row in network["inputs"]] == [("tensor0", "drawn"), ("tensor1", "drawn")]
    assert sum(op["cycles"] for op in network["operations"]) == network["cycles"] > 0


def test_what_is_left_to_the_cpu_is_said_and_each_operator_runs_alone(ethos_hil: Run) -> None:
    Path("net.tflite").write_bytes(compile_tflite(maximum(and_a_round=True), NPU))
    first, second = maps()
    np.savez("x.npz", tensor0=first, tensor1=second)
    status, out, err = ethos_hil("net.tflite", "--inputs", "x.npz", "--outputs", "y.npz", "--json", "r.json")
    assert (status, err) == (0, "")
    assert "left to the CPU: 1 of 3 operators" in out
    report = json.loads(Path("r.json").read_text())
    sources = [{row["name"]: row["source"] for row in network["inputs"]} for network in report["networks"]]
    assert sources[0] == {"tensor0": "given", "tensor1": "given"}
    assert sorted(sources[1].values()) == ["drawn", "operator 0"]
    with np.load("y.npz") as arrays:
        assert np.array_equal(arrays["tensor2"], np.maximum(first, second))


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


def test_another_file_is_one_line(ethos_hil: Run) -> None:
    for name, content in {
        "empty": b"",
        "elf": b"\x7fELF....",
        "npz": b"PK\x03\x04",
        "tflite": b"\x1c\0\0\0TFL3",
        "vela": b"vela_bin_stream\0",
        "before": maximum(),
    }.items():
        Path(name).write_bytes(content)
    check_errors(ethos_hil, "", Snapshot("""
        empty: 2 ethos-hil: empty is neither a .tflite nor a blob (give what Vela wrote; a .pte or a model
            is for `ethos-hil run`)
        elf: 2 ethos-hil: elf is neither a .tflite nor a blob (give what Vela wrote; a .pte or a model is
            for `ethos-hil run`)
        npz: 2 ethos-hil: npz is neither a .tflite nor a blob (give what Vela wrote; a .pte or a model is
            for `ethos-hil run`)
        tflite: 2 ethos-hil: tflite is not a usable output of Vela: the offset at byte 0 leads to byte 28 of
            8 (compile the network again: vela NETWORK --accelerator-config NPU)
        vela: 2 ethos-hil: vela: not a usable Ethos-U delegate: 16 bytes end inside the header of block
            'vela_bin_stream' at byte 0 (the file is damaged or not made by ExecuTorch's Arm backend; lower
            the model again)
        before: 2 ethos-hil: before has no ethos-u operator, but 1 of TensorFlow Lite (give what Vela wrote
            of it: vela NETWORK --accelerator-config NPU)
    """))  # fmt: skip


def test_files_that_do_not_fit_or_are_not_there_are_one_line(ethos_hil: Run) -> None:
    Path("net.tflite").write_bytes(compile_tflite(maximum(), NPU))
    first, second = maps()
    np.savez("one.npz", a=first)
    np.savez("shape.npz", a=first, b=second[0])
    np.savez("misspelt.npz", tensor1=first, tensr0=second)
    np.savez("type.npz", a=first.astype(np.uint8), b=second)
    check_errors(ethos_hil, "net.tflite", Snapshot("""
        --inputs one.npz: 2 ethos-hil: one.npz: expected 2 arrays (tensor0 int8[1, 4, 6, 8], tensor1 int8[1,
            4, 6, 8]), found 1
        --inputs shape.npz: 2 ethos-hil: shape.npz: tensor1 is int8[1, 4, 6, 8], found int8[4, 6, 8]
        --inputs misspelt.npz: 2 ethos-hil: misspelt.npz: tensr0: not a name of the program's, where tensor1
            does (did you mean tensor0? The names are tensor0, tensor1; give all of them, or none: then the
            order in the file counts)
        --inputs type.npz: 2 ethos-hil: type.npz: tensor0 is int8[1, 4, 6, 8], found uint8[1, 4, 6, 8]
        --inputs none.npz: 2 ethos-hil: no such inputs file: none.npz
        --outputs no/y.npz: 2 ethos-hil: cannot write no/y.npz: No such file or directory (nothing was
            written there)
        --outputs net.tflite: 2 ethos-hil: --outputs and FILE are the same file, net.tflite (name another
            file for --outputs)
    """))  # fmt: skip
    check_errors(ethos_hil, "", Snapshot('none.npz: 2 ethos-hil: no such file: none.npz'))  # fmt: skip


def test_a_fault_of_the_npu_is_a_failure(ethos_hil: Run) -> None:
    blob = run_vela(PROGRAMS["add"].tosa, flags(NPU, MemoryMode.default(NPU))).parsed
    stream = blob.command_data[: blob.stream_offset] + b"\xff" * blob.stream_size
    Path("net.vela").write_bytes(pack(stream, blob.weights, blob.scratch_size, blob.inputs, blob.outputs))
    status, out, err = ethos_hil("net.vela")
    assert (status, out) == (1, "")
    assert "parse fault at 0x0" in err
