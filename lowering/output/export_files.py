"""The files that `ethos-hil lower` writes: a program, its delegates' blobs or TOSA programs, and files to inspect; and
its text for people.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, get_args

import numpy as np

from ethos_hil.base.errors import CompileError, OracleError
from ethos_hil.base.plain_text import count_of
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.formats.array_archive import packed_arrays
from ethos_hil.lowering.formats.pte_model import archive_names
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.program.placement import CpuCall, group_calls

Product = Literal["tosa", "vela", "pte"]
PRODUCTS: tuple[str, ...] = get_args(Product)
MANIFEST = "lowering.json"
"""The manifest in the folder of artefacts; it marks the folder as ours."""
SCHEMA_VERSION = 1


def products(artifact: Artifact, product: Product) -> dict[str, bytes]:
    """Return the contents of the product's files, by the part that distinguishes their names: "" for a single file.

    Raises:
        CompileError: the product is blobs, and nothing could be delegated.
    """
    if product == "pte":
        return {"": artifact.pte}
    contents = [
        (method.name, delegate.index, _content(delegate, product))
        for method in artifact.methods
        for delegate in method.delegates
    ]
    if not contents:
        raise CompileError(
            f"nothing of {artifact.model} could be delegated to {target(artifact)}: {'; '.join(summary(artifact))}",
            hint="--to pte gives a program for the CPU",
        )
    several = len(artifact.methods) > 1
    names = [f"{method}-{index}" if several else str(index) for method, index, _ in contents]
    return {name if len(contents) > 1 else "": content for name, (*_, content) in zip(names, contents, strict=True)}


def _content(delegate: Delegate, product: Product) -> bytes:
    if product == "vela":
        return delegate.vela
    assert delegate.tosa is not None, "it was lowered here"
    return delegate.tosa


def artefacts(artifact: Artifact) -> dict[str, bytes]:
    """Return the files of the folder of artefacts, by name; docs/lowering.md describes them.

    Where tosa_reference_model gives no answer, the files of its outputs are missing, and the manifest states why.
    """
    files = {"model.pte": artifact.pte}
    missing: list[str] = []
    for method in artifact.methods:
        prefix = f"{method.name}." if len(artifact.methods) > 1 else ""
        for delegate in method.delegates:
            if delegate.tosa is not None:
                files[f"{prefix}delegate-{delegate.index}.tosa"] = delegate.tosa
            if delegate.vela:
                files[f"{prefix}delegate-{delegate.index}.vela"] = delegate.vela
        inputs, names = method.example_inputs, method.input_names
        names = names if len(names) == len(inputs) else tuple(f"input_{at}" for at in range(len(inputs)))
        files[f"{prefix}inputs.npz"] = packed_arrays(dict(zip(names, inputs, strict=True)))
        answers = {f"float_{at}": value for at, value in enumerate(method.floating)}
        files[f"{prefix}pytorch.npz"] = packed_arrays(
            answers | {f"quantised_{at}": value for at, value in enumerate(method.quantised)}
        )
        try:
            files[f"{prefix}reference.npz"] = packed_arrays(_reference(artifact.of(method.name)))
        except OracleError as error:
            missing.append(f"{prefix}reference.npz: {error.message}")
    if artifact.npu is not None:
        files["delegate-map.json"] = _json(_by_delegate(artifact, _map))
        files["vela-summary.json"] = _json(_by_delegate(artifact, lambda delegate: dict(delegate.summary)))
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "model": artifact.model,
        "target": target(artifact),
        "sha256": artifact.sha256,
        "versions": dict(artifact.versions),
        "vela_flags": artifact.vela_flags,
        "notes": artifact.notes,
        "files": sorted((*files, MANIFEST)),
        "missing": missing,
    }
    return files | {MANIFEST: _json(manifest)}


def _reference(artifact: Artifact) -> dict[str, np.ndarray]:
    run = Reference(artifact).run(artifact.example_inputs)
    arrays = dict(zip(archive_names(artifact.outputs), run.outputs, strict=True))
    for instruction, outputs in run.delegate_outputs.items():
        arrays |= {f"instruction_{instruction}_output_{at}": output for at, output in enumerate(outputs)}
    return arrays


def _map(delegate: Delegate) -> dict[str, Any]:
    return {
        "defects": list(delegate.defects),
        "repaired": delegate.compiled is not None,
        "ops": [asdict(op) for op in delegate.npu_ops],
    }


def _by_delegate(artifact: Artifact, content: Any) -> dict[str, Any]:
    methods = {
        method.name: [
            {"delegate": delegate.index, "instruction": delegate.instruction, **content(delegate)}
            for delegate in method.delegates
        ]
        for method in artifact.methods
    }
    return {"schema_version": SCHEMA_VERSION, "methods": methods}


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


# A summary for people.

_MOST_LEFT = 20
"""How many operators on the CPU a summary lists."""


def summary(artifact: Artifact) -> list[str]:
    """Return a line for part method: what is delegated, and what stays on the CPU."""
    lines = []
    for part in artifact.methods:
        method = artifact.of(part.name)
        rows = f", {len(method.npu_ops)} NPU operations" if artifact.npu is not None else ""
        kernels = ", ".join(dict.fromkeys(method.cpu_ops)) or "nothing"
        lines.append(f"{part.name}: {count_of(len(part.delegates), 'delegate')}{rows}; on the CPU: {kernels}")
        placed = part.placement
        lines.append(
            f"{part.name}: {count_of(placed.delegated, 'operator')} delegated, {len(placed.on_cpu)} not, with "
            f"{count_of(placed.conversions, 'conversion')} between numbers and integers"
        )
        lines += [f"  {_cpu_line(call, count)}" for call, count in group_calls(placed.on_cpu)[:_MOST_LEFT]]
        if len(group_calls(placed.on_cpu)) > _MOST_LEFT:
            lines.append(f"  and {len(group_calls(placed.on_cpu)) - _MOST_LEFT} more; --json has all of them")
    return lines


def _cpu_line(call: CpuCall, count: int) -> str:
    many = f"{count} x " if count > 1 else ""
    place = f" {call.place}" if call.place else ""
    return f"on the CPU: {many}{call.operator}{place}: {call.reason}" + (f" ({call.remedy})" if call.remedy else "")


def target(artifact: Artifact) -> str:
    """Return the name of the target that the artifact was lowered for."""
    if artifact.tosa is not None:
        return str(artifact.tosa)
    return f"{artifact.npu}, {artifact.memory_mode}" if artifact.npu is not None else "the CPU"
