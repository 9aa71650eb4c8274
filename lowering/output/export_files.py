"""The files that `ethos-hil lower` writes: a program, its delegates' blobs or TOSA programs, and files to inspect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, get_args

import numpy as np

from ethos_hil.base.errors import CompileError, OracleError
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.formats.array_archive import packed_arrays
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.output.text_summary import listing, summary, target
from ethos_hil.lowering.program.output_names import archive_names

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
    files = {"model.pte": artifact.pte, "listing.txt": listing(artifact).encode()}
    missing: list[str] = []
    for method in artifact.methods:
        prefix = f"{method.name}." if len(artifact.methods) > 1 else ""
        for delegate in method.delegates:
            if delegate.tosa is not None:
                files[f"{prefix}delegate-{delegate.index}.tosa"] = delegate.tosa
            if delegate.vela:
                files[f"{prefix}delegate-{delegate.index}.vela"] = delegate.vela
        files[f"{prefix}inputs.npz"] = packed_arrays(_by_name(method.input_names, method.example_inputs))
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


def _by_name(names: Sequence[str], arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    known = names if len(names) == len(arrays) else [f"input_{at}" for at in range(len(arrays))]
    return dict(zip(known, arrays, strict=True))


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
