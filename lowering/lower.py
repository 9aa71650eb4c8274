"""From what the user calls a model to an Artifact."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from lowering.artifact import Artifact, Delegate
from lowering.cache import Cache
from lowering.errors import UsageError, raise_if_interrupted
from lowering.explain import explain
from lowering.key import model_key
from lowering.memory_mode import MemoryMode
from lowering.model import ProgramFile, TorchModel, load_model
from lowering.profile import Npu
from lowering.program import DelegateCall, Program
from lowering.provenance import versions
from lowering.quiet import quiet
from lowering.source import Sources

if TYPE_CHECKING:
    import torch

Progress = Callable[[str], None]


def _silent(stage: str) -> None:
    pass


def lower(
    model: str | TorchModel | ProgramFile,
    npu: Npu,
    *,
    memory_mode: MemoryMode | None = None,
    cache: Cache | None = None,
    progress: Progress = _silent,
) -> Artifact:
    """Compiles a model for an NPU, or finds it compiled already.

    Args:
        model: a MODEL as on the command line, or what `load_model` or `from_module` gave for one.
        npu: the NPU to compile for; a .pte must be compiled for it.
        memory_mode: where the program's parts shall lie, by default as ExecuTorch has it for that NPU; a .pte must be
            compiled for it, if it is given.
        cache: where artifacts are kept; by default the user's cache folder.
        progress: called with a few words at the start of each stage. File descriptors 1 and 2 are redirected while
            a stage runs, so show progress on a duplicate of them.

    Returns:
        The artifact. Its `npu_ops` are empty when nothing could be delegated, or when it is a .pte of unknown origin.

    Raises:
        UsageError: the model can't be loaded or isn't for this NPU; CompileError when it can't be compiled;
        ToolError when the disk is full or a tool is missing.
    """
    cache = cache if cache is not None else Cache()
    if isinstance(model, str):
        progress("loading the model")
        model = load_model(model)
    if isinstance(model, ProgramFile):
        return _from_program(model, npu, memory_mode, cache)
    mode = memory_mode or MemoryMode.default(npu)
    progress("exporting")
    with _stage("exporting the model", model.sources):
        import torch

        exported = torch.export.export(model.module, model.example_inputs)
        key = model_key(exported, model.calibration_inputs, npu, mode, model.sources)
    artifact, _ = cache.get_or_make(key, lambda: _compile(model, exported, npu, mode, key, progress))
    return artifact.called(model.label)


def _from_program(model: ProgramFile, npu: Npu, memory_mode: MemoryMode | None, cache: Cache) -> Artifact:
    artifact = Artifact.of_program(model.data, model.label)
    compiled_for = artifact.memory_mode
    if None not in (memory_mode, compiled_for) and memory_mode != compiled_for:
        raise UsageError(
            f"{model.label} is compiled for memory mode {compiled_for}, not {memory_mode}",
            hint=f"use --memory-mode {compiled_for}, or lower the model again for {memory_mode}",
        )
    if artifact.npu is not None and artifact.npu != npu:
        raise UsageError(
            f"{model.label} is compiled for {artifact.npu}, not for {npu}",
            hint=f"use --npu {artifact.npu}, or lower the model again for {npu}",
        )
    known = cache.find_by_pte(artifact.sha256)
    return known.called(model.label) if known is not None else artifact


@contextmanager
def _stage(name: str, sources: Sources) -> Iterator[None]:
    """Runs a stage without its chatter; any exception leaves as one clear error, its cause attached."""
    try:
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except Exception as error:
        raise_if_interrupted(error)
        explained = explain(name, error, sources)
        if explained is error:
            raise
        raise explained from error


def _compile(
    model: TorchModel,
    exported: torch.export.ExportedProgram,
    npu: Npu,
    memory_mode: MemoryMode,
    key: str,
    progress: Progress,
) -> Artifact:
    with _stage("loading ExecuTorch", model.sources):
        from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower

        from lowering import ethosu
        from lowering.prepare import prepare
        from lowering.quantize import quantise

        spec = ethosu.compile_spec(npu, memory_mode)
    progress("quantising")
    with _stage("quantising the model", model.sources):
        floating = exported.module(check_guards=False)
        prepared = prepare(floating)
        calls = ethosu.collect_calls(floating.graph, model.sources)
        _, quantised = quantise(floating, model.calibration_inputs, spec)
        surviving = {ethosu.identifier(node) for node in quantised.graph.nodes if node.op == "call_function"}
    progress("lowering to TOSA and Vela")
    capture = ethosu.Capture(calls, frozenset(key for key in surviving if key is not None))
    with _stage("lowering the model", model.sources), ethosu.capturing(capture):
        edge = to_edge_transform_and_lower(
            quantised,
            partitioner=[ethosu.partitioner(spec)],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
        blobs = [module.processed_bytes for module in ethosu.adopt(edge.exported_program())]
        pte = bytes(edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=False)).buffer)
    return Artifact(
        key=key,
        model=model.label,
        npu=npu,
        memory_mode=memory_mode,
        pte=pte,
        delegates=_delegates(pte, capture, blobs, model.label),
        example_inputs=tuple(_array(tensor, index) for index, tensor in enumerate(model.example_inputs)),
        input_names=tuple(str(name) for name in exported.graph_signature.user_inputs),
        versions=versions(),
        vela_flags=tuple(spec.compiler_flags),
        notes=tuple(dict.fromkeys((*prepared, *capture.notes))),
    )


def _delegates(pte: bytes, capture: Any, blobs: Sequence[bytes], label: str) -> tuple[Delegate, ...]:
    plan = Program.parse(pte, label).plan()
    calls = [(at, call) for at, call in enumerate(plan.instructions) if isinstance(call, DelegateCall)]
    delegates = []
    for number, (at, call) in enumerate(calls):
        data = plan.delegates[call.delegate].data
        # Calls are emitted in graph order. The graph's own object tells partitions with equal blobs apart.
        blob = blobs[number] if number < len(blobs) and blobs[number] == data else data
        compiled = capture.compiled(blob)
        delegates.append(
            Delegate(
                call.delegate, at, compiled.tosa, data, compiled.npu_ops, compiled.summary, hoisted=compiled.hoisted
            )
        )
    return tuple(delegates)


def _array(tensor: torch.Tensor, index: int) -> np.ndarray:
    try:
        return tensor.detach().cpu().contiguous().numpy()
    except TypeError:
        raise UsageError(
            f"input {index} has type {tensor.dtype}, which NumPy lacks", hint="cast it to float32"
        ) from None
