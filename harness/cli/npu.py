"""`ethos-hil npu`: what Vela compiled, from any framework, on the functional NPU."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ethos_hil.base.console import add_row, console, plain
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import opened, read_bytes, unreadable
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, write_out
from ethos_hil.harness.image.inputs import in_order
from ethos_hil.harness.npu import Execution
from ethos_hil.harness.verdict.run_delegate import NetworkMemory, NetworkRunner
from ethos_hil.lowering.formats.array_archive import BadArchive, packed_arrays, read_arrays
from ethos_hil.lowering.formats.npu_network import MAGIC, NetworkTensor, NpuNetwork, read_blob, read_tflite
from ethos_hil.lowering.formats.vela_blob import BLOB_MAGIC
from ethos_hil.lowering.vela.memory_mode import MemoryMode

SCHEMA_VERSION = 1
_MOST = 1 << 30
"""Largest size of a file, bytes."""
_SEED = 0
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class NetworkRun:
    """An operator of the file, after it ran.

    Attributes:
        network: the operator.
        mode: the memory mode that its cycles are modelled for.
        execution: the NPU's report.
        sources: of each input by its name: "given", "drawn", or the operator that it is an output of.
        outputs: by name.
    """

    network: NpuNetwork
    mode: MemoryMode
    execution: Execution
    sources: Mapping[str, str]
    outputs: Arrays


def npu(
    file: Path,
    *,
    inputs: Path | None,
    outputs: Path | None,
    memory_mode: str | None,
    strict: bool,
    json_file: Path | None,
) -> None:
    """Run each operator of a file, in their order, and show what came out.

    Raises:
        UsageError: a file cannot be used or written, or an input does not fit.
        Fault: the NPU cannot execute a command stream.
    """
    check_distinct({"--outputs": outputs, "--json": json_file}, {"FILE": file, "--inputs": inputs})
    networks, others = _read(file)
    given = {} if inputs is None else _read_arrays(inputs, networks)
    runs: list[NetworkRun] = []
    memory = NetworkMemory(networks)
    for network in networks:
        mode = MemoryMode.chosen(memory_mode, network.npu)
        runs.append(_run(NetworkRunner(network, mode=mode, strict=strict, memory=memory), given, runs))
    arrays = {name: array for run in runs for name, array in run.outputs.items()}
    if outputs is not None:
        write_out(outputs, packed_arrays(arrays))
    if json_file is not None:
        text = json.dumps(_document(file, runs, others), indent=1) + "\n"
        if json_file == STDOUT:
            sys.stdout.write(text)
            return
        write_out(json_file, text)
    console().print(_text(file, runs, others))


def _read(file: Path) -> tuple[tuple[NpuNetwork, ...], int]:
    """Return the operators of the NPU in a file, and how many are left to the CPU."""
    try:
        data = read_bytes(file, most=_MOST)
    except FileNotFoundError:
        raise UsageError(f"no such file: {file}") from None
    except OSError as error:
        raise unreadable(error, file) from error
    if data[4:8] == MAGIC:
        model = read_tflite(data, str(file))
        if not model.networks:
            raise UsageError(
                f"{file} has no ethos-u operator, but {model.others} of TensorFlow Lite",
                hint="give what Vela wrote of it: vela NETWORK --accelerator-config NPU",
            )
        return model.networks, model.others
    if data.startswith(BLOB_MAGIC):
        return (read_blob(data, str(file)),), 0
    raise UsageError(
        f"{file} is neither a .tflite nor a blob", hint="give what Vela wrote; a .pte or a model is for `ethos-hil run`"
    )


def _read_arrays(path: Path, networks: Sequence[NpuNetwork]) -> dict[str, np.ndarray]:
    """Return the arrays of a file by the names of the inputs that they are for. Raises UsageError."""
    try:
        with opened(path) as file:
            arrays = read_arrays(file)
    except FileNotFoundError:
        raise UsageError(f"no such inputs file: {path}") from None
    except (OSError, BadArchive) as error:
        raise UsageError(
            f"{path} is not a readable .npz of plain arrays: {error}", hint="write it with numpy.savez"
        ) from error
    known = {tensor.name: tensor for network in networks for tensor in network.inputs}
    listed = ", ".join(f"{name} {tensor}" for name, tensor in known.items()) or "none"
    if len(networks) == 1 and not set(arrays) <= set(known):
        if len(arrays) != len(known):
            raise UsageError(f"{path}: expected {len(known)} arrays ({listed}), found {len(arrays)}")
        ordered = in_order(path, tuple(arrays), tuple(known))
        arrays = {own: arrays[name] for own, name in zip(known, ordered, strict=True)}
    for name, array in arrays.items():
        if name not in known:
            raise UsageError(f"{path}: array {name!r} is not an input of the network", hint=f"inputs: {listed}")
        if array.shape != known[name].shape or array.dtype != known[name].dtype:
            raise UsageError(f"{path}: {name} is {known[name]}, found {array.dtype}{list(array.shape)}")
    return arrays


def _run(runner: NetworkRunner, given: Arrays, before: Sequence[NetworkRun]) -> NetworkRun:
    network = runner.network
    rng = np.random.default_rng(_SEED)
    computed = {name: (run.network.name, array) for run in before for name, array in run.outputs.items()}
    values, sources = [], {}
    for tensor in network.inputs:
        drawn = _draw(tensor, rng)
        source, value = computed.get(tensor.name, ("drawn", drawn))
        if tensor.name in given:
            source, value = "given", given[tensor.name]
        values.append(value)
        sources[tensor.name] = source
    outputs, execution = runner.run(values)
    names = [tensor.name for tensor in network.outputs]
    return NetworkRun(network, runner.mode, execution, sources, dict(zip(names, outputs, strict=True)))


def _draw(tensor: NetworkTensor, rng: np.random.Generator) -> np.ndarray:
    """Return a random input: any number of an integer type."""
    if tensor.dtype.kind not in "iu":
        return rng.integers(0, 2, tensor.shape).astype(tensor.dtype)
    ends = np.iinfo(tensor.dtype)
    return rng.integers(ends.min, ends.max, tensor.shape, tensor.dtype, endpoint=True)


def _text(file: Path, runs: Sequence[NetworkRun], others: int) -> RenderableType:
    npus = ", ".join(dict.fromkeys(str(run.network.npu) for run in runs))
    parts: list[RenderableType] = [
        Text.assemble(("ran", "bold yellow"), plain(f"  {file} for {npus} on the functional NPU")),
        plain("Nothing here says whether the outputs are right: compare them with those of another implementation."),
    ]
    if others:
        whole = others + len(runs)
        parts.append(plain(f"Not run, as left to the CPU: {others} of {whole} operators. What they compute was drawn."))
    for run in runs:
        facts = Table.grid(padding=(0, 2))
        for tensor in run.network.inputs:
            add_row(facts, "input", tensor.name, str(tensor), run.sources[tensor.name])
        for tensor in run.network.outputs:
            array = run.outputs[tensor.name]
            add_row(facts, "output", tensor.name, str(tensor), f"from {array.min()} to {array.max()}")
        if not run.network.outputs:
            add_row(facts, "output", "none", "for another operator", "it stays in the arena")
        parts += ["", plain(f"{run.network.name}, {run.mode}"), facts, "", _operations(run.execution)]
    return Group(*parts)


def _operations(execution: Execution) -> Table:
    table = Table(show_footer=True, box=None, pad_edge=False, header_style="bold")
    for name, footer in (("offset", "total"), ("operation", f"{len(execution.ops):,}"), ("output", "")):
        table.add_column(name, footer=footer)
    table.add_column("cycles (modelled)", justify="right", footer=f"{execution.cycles:,}")
    table.add_column("share", justify="right")
    for op in execution.ops:
        shape = "x".join(map(str, op.ofm_shape))
        share = f"{op.cycles / max(execution.cycles, 1):.1%}"
        add_row(table, f"{op.offset:#x}", op.name, shape, f"{op.cycles:,}", share)
    return table


def _document(file: Path, runs: Sequence[NetworkRun], others: int) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "outcome": "ran",
        "file": str(file),
        "cpu_operators": others,
        "networks": [
            {
                "name": run.network.name,
                "npu": str(run.network.npu),
                "memory_mode": run.mode.name,
                "inputs": [{**_describe(tensor), "source": run.sources[tensor.name]} for tensor in run.network.inputs],
                "outputs": [_describe(tensor) for tensor in run.network.outputs],
                "cycles": run.execution.cycles,
                "provenance": "modelled",
                "operations": [
                    {"offset": op.offset, "name": op.name, "output": list(op.ofm_shape), "cycles": op.cycles}
                    for op in run.execution.ops
                ],
            }
            for run in runs
        ],
    }


def _describe(tensor: NetworkTensor) -> dict[str, Any]:
    return {"name": tensor.name, "dtype": str(tensor.dtype), "shape": list(tensor.shape)}
