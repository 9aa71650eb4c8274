"""`ethos-hil run --trace FILE`: the NPU's operations as JSON lines, each with its place in the model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ethos_hil.base.file_error import writable
from ethos_hil.base.files import write_whole
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.npu.timing.memory_system import DEFAULT_PORTS, MODES, memory_system
from ethos_hil.harness.npu.trace import records
from ethos_hil.lowering.artifact import Artifact, Delegate, row_at


def lines(artifact: Artifact, npu: EthosU) -> Iterator[dict[str, Any]]:
    """Return a record for each operation of each delegate, in the order of the calls.

    Raises Fault where a command stream cannot be decoded.
    """
    decoder = Npu(artifact.npu or npu)
    ports = DEFAULT_PORTS if artifact.memory_mode is None else MODES[artifact.memory_mode.kind]
    system = artifact.system
    memories = None if system is None else memory_system(system, decoder.configuration.family)
    for delegate in sorted(artifact.delegates, key=lambda one: one.instruction):
        program = decoder.decode(delegate.blob.command_stream)
        for record in records(program, program.timing(ports, memories)):
            yield {"delegate": delegate.instruction, **record, **_origin(delegate, record["offset"])}


def write(artifact: Artifact, npu: EthosU, path: Path) -> None:
    """Write the file, whole or not at all.

    Raises:
        UsageError: the file cannot be written.
        Fault: a command stream cannot be decoded.
    """
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines(artifact, npu))
    with writable(path):
        write_whole(path, text)


def _origin(delegate: Delegate, offset: int) -> dict[str, Any]:
    """Return the delegate map's row for an offset in the stream; empty for a .pte lowered elsewhere."""
    index = row_at(delegate.npu_ops, offset)
    if index is None:
        return {}
    row = delegate.npu_ops[index]
    return {
        "id": row.id,
        "npu_op": row.npu_op,
        "tosa_op": row.tosa_op,
        "aten_ops": list(row.aten_ops),
        "module": row.module,
        "source": row.source,
        "tensor": row.tensor,
    }
