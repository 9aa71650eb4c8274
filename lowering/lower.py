"""From a MODEL to an Artifact."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.environment import version
from ethos_hil.base.errors import UsageError, raise_if_interrupted
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import CPU_ALONE, CPU_BESIDE, CPU_FLOAT, LoweringOptions
from ethos_hil.lowering.artifact import Artifact, LoweredMethod
from ethos_hil.lowering.bare.lower_bare import BARE, lower_bare, require_plain
from ethos_hil.lowering.cache.key import ModelIdentity, identity
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.cache.versions import check_source_unchanged, versions
from ethos_hil.lowering.conditions.process import (
    Progress,
    collecting_seldom,
    one_torch_thread,
    quiet,
    silent,
    tell,
    telling,
)
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.model.quantisation import AS_GIVEN, quantizer_of, require_unquantised_options, scheme_text
from ethos_hil.lowering.model.torch_model import HostModules, Method, ProgramFile, TorchModel, load_model
from ethos_hil.lowering.output.etrecord import etrecord_of
from ethos_hil.lowering.upstream import cortex_m
from ethos_hil.lowering.upstream.cpu_calls import (
    Leavable,
    Locate,
    delegated_operators,
    lines_of,
    placement,
    require_known,
)
from ethos_hil.lowering.upstream.delegation import Border, by_backend_id, by_partitioner
from ethos_hil.lowering.upstream.explain import explain
from ethos_hil.lowering.upstream.export import export, output_names
from ethos_hil.lowering.upstream.graph_repairs import finish
from ethos_hil.lowering.upstream.patches.patch import UpstreamUnfit, apply, bare, go_bare, require_fitting
from ethos_hil.lowering.upstream.patches.table import FUNCTIONS, OF_LOWERING, ORDERS, SPEED
from ethos_hil.lowering.upstream.pytorch_answers import evaluate, evaluate_in_double, frozen
from ethos_hil.lowering.upstream.reasons.rules import BY_CPU_ALONE, BY_METHOD
from ethos_hil.lowering.upstream.refusals import refuse_complex, refuse_integer_loops, refuse_integer_powers
from ethos_hil.lowering.upstream.state import find_lost, find_other_starts, keep_first_values, written_buffers
from ethos_hil.lowering.upstream.toolchain import (
    EthosUToolchain,
    Toolchain,
    TosaToolchain,
    import_executorch,
    toolchain_for,
)
from ethos_hil.lowering.user_code.user_function import Sources
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup

if TYPE_CHECKING:
    import torch


def lower(
    model: str | TorchModel | ProgramFile,
    target: EthosU | TosaSpec,
    *,
    options: LoweringOptions | None = None,
    memory_mode: MemoryMode | None = None,
    vela: VelaSetup | None = None,
    whole: bool = False,
    cache: Cache | None = None,
    progress: Progress = silent,
    hosts: Callable[[str, HostModules], None] | None = None,
    etrecord: bool = False,
    **fields: Any,
) -> Artifact:
    """Compile a model for an NPU, or to TOSA alone, or take a compiled one from the cache.

    Args:
        model: a MODEL as on the command line, or the result of `load_model` or `from_module`.
        target: the NPU to compile for, or the TOSA to lower to; a .pte must be compiled for it.
        options: what is asked: the scheme, what is left to the CPU in all methods (on top of what each method leaves:
            `ethos_hil.lowering.upstream.cpu_calls`), and so on. A float TOSA is not quantised. Its NPU, its options of
            Vela and how it says to change the model are for the caller, who has made `target`, `vela` and `model`.
        memory_mode: where the program's parts are placed, by default ExecuTorch's choice for that NPU; if it is given,
            a .pte must be compiled for it.
        vela: what Vela is asked, the NPU and the memory mode included; by default what ExecuTorch asks.
        whole: delegate all of each method, by the backend's id (`ethos_hil.lowering.upstream.delegation`); a quantised
            method then has integer inputs and outputs, as have the artifact's example inputs and quantised answers. By
            default a partitioner picks the operators to delegate.
        cache: the cache of artifacts; by default the user's.
        progress: called with what is being done (`ethos_hil.lowering.conditions.process.Progress`). File descriptors 1
            and 2 are redirected while a stage runs, so show progress on a duplicate of them.
        hosts: called with each method's name and modules, as `host_modules` has them, if the model is lowered now and
            not taken from the cache.
        etrecord: whether the artifact has ExecuTorch's ETRecord too, if the model is lowered here and not `whole`. It
            takes a second and megabytes for a model of megabytes.
        fields: fields of `options`, by their names: `scheme="a16w8"`.

    Returns:
        The artifact. Its `npu_ops` are empty when nothing could be delegated, or when it is a .pte of unknown origin.

    Raises:
        UsageError: the model can't be loaded or isn't for this NPU; CompileError when it can't be compiled;
        ToolError when the disk is full or a tool is missing.
    """
    cache = cache if cache is not None else Cache()
    options = replace(options or LoweringOptions(""), **fields)
    if isinstance(model, str):
        progress("loading the model")
        model = load_model(model)
    try:
        return _lower(
            model, target, options, memory_mode, vela, cache, progress, hosts, whole=whole, etrecord=etrecord
        )  # fmt: skip
    except UpstreamUnfit as unfit:
        if bare():
            raise
        go_bare(unfit.message)
        return _lower(model, target, options, memory_mode, vela, cache, progress, None, whole=whole, etrecord=False)


def _lower(
    model: TorchModel | ProgramFile,
    target: EthosU | TosaSpec,
    options: LoweringOptions,
    memory_mode: MemoryMode | None,
    vela: VelaSetup | None,
    cache: Cache,
    progress: Progress,
    hosts: Callable[[str, HostModules], None] | None,
    *,
    whole: bool,
    etrecord: bool,
) -> Artifact:
    if isinstance(model, ProgramFile):
        if isinstance(target, TosaSpec):
            raise UsageError(f"{model.label} is compiled already", hint="give the model it was made from")
        if vela is not None and vela.key:
            raise UsageError(
                f"{model.label} is compiled already, so {' '.join(vela.told)} says nothing",
                hint="leave it out, or give the model it was made from",
            )
        given = options.flags(("leave", "cpu"))
        if given:
            raise UsageError(
                f"{model.label} is compiled already, so {given[0]} says nothing",
                hint=f"give the model it was made from, or leave out {given[0]}",
            )
        return _from_program(model, target, memory_mode if vela is None else vela.mode, cache)
    left = {name: method.leave for name, method in model.methods.items() if method.leave}
    if whole and options.leave:
        left["--leave"] = options.leave
    if whole and left:
        names = ", ".join(f"{name} leaves {', '.join(operators)}" for name, operators in left.items())
        raise UsageError(f"{model.label} cannot be lowered whole: {names} to the CPU", hint="leave out --whole")
    particular = [name for name, method in model.methods.items() if method.leave or method.int16]
    cortex_m.require_suitable(options, particular, model.label, whole=whole)
    if vela is None and memory_mode is not None and isinstance(target, EthosU):
        vela = VelaSetup.default(target, memory_mode)
    toolchain = toolchain_for(target, options, vela, int16=any(method.int16 for method in model.methods.values()))
    progress("exporting")
    # Patches of torchao come later: they import it, and nothing else does if the artifact is in the cache.
    with telling(progress), apply([patch for patch in SPEED if patch.package == "torch"]), collecting_seldom():
        with _stage("exporting the model", model.sources):
            exported = {name: export(method.fresh, method.example_inputs) for name, method in model.methods.items()}
            early = {} if bare() else _quantise_by_users(model, exported, toolchain)
            etrecord = etrecord and not whole
            leave = ("leave", *sorted(set(options.leave))) if options.leave else ()
            asked = (*(("whole",) if whole else ()), *leave)
            programs = {name: ready.program for name, ready in early.items()}
            target_key = (*toolchain.key, *asked, *(("etrecord",) if etrecord else ()))
            known = identity(exported, model, target_key, (*toolchain.wishes, *asked), quantised=programs)

        def make() -> Artifact:
            tell("loading ExecuTorch")
            if bare():
                method = require_plain(model, options.leave, options.cpu, whole=whole)
                with _stage("lowering the model", model.sources), one_torch_thread():
                    return _compile_bare(model, method, toolchain, known)
            toolchain.start()
            with _executorch(toolchain, model.sources):
                return _compile(
                    model, exported, early, toolchain, known,
                    whole=whole, hosts=hosts, etrecord=etrecord,
                )  # fmt: skip

        artifact, _ = cache.get_or_make(known.key, make)
    return artifact.rename(model.label)


def host_modules(
    model: TorchModel, method: str, options: LoweringOptions, *, progress: Progress = silent
) -> HostModules:
    """Return a method's float and quantised modules, as `lower` has them on its way.

    Args:
        model: the model.
        method: the name of the method.
        options: what is asked, the NPU included.
        progress: as for `lower`.

    Raises:
        UsageError: the model can't be exported or quantised.
    """
    toolchain = EthosUToolchain(VelaSetup.of(options), options)
    chosen = model.methods[method]
    with apply([patch for patch in SPEED if patch.package == "torch"]), _stage("exporting the model", model.sources):
        exported = export(chosen.fresh, chosen.example_inputs)
    with telling(progress), _executorch(toolchain, model.sources):
        ready = _prepare(method, chosen, exported, toolchain, model.sources)
    return _hosts(ready, model.sources)


def _from_program(model: ProgramFile, npu: EthosU, memory_mode: MemoryMode | None, cache: Cache) -> Artifact:
    artifact = Artifact.of_program(model.data, model.label, model.ptd)
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
    return known.rename(model.label) if known is not None else replace(artifact, notes=model.notes)


@contextmanager
def _stage(name: str, sources: Sources) -> Iterator[None]:
    """Run a stage without its output; any exception becomes one clear error, with its cause attached."""
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


def _compile_bare(model: TorchModel, method: Method, toolchain: Toolchain, known: ModelIdentity) -> Artifact:
    ini = toolchain.vela.ini if isinstance(toolchain, EthosUToolchain) else None
    pte, lowered, unrounded = lower_bare(model.default_name, method, toolchain.compile_spec, ini, toolchain.scheme)
    artifact = _artifact(model, toolchain, known, [lowered], pte, notes=(f"{BARE}: {bare()}", *toolchain.notes))
    return _with_bounds(artifact, {lowered.name: unrounded}) if ini is not None else artifact


def _artifact(
    model: TorchModel,
    toolchain: Toolchain,
    known: ModelIdentity,
    methods: Sequence[LoweredMethod],
    pte: bytes,
    *,
    notes: tuple[str, ...],
    etrecord: bytes = b"",
) -> Artifact:
    ethosu = toolchain if isinstance(toolchain, EthosUToolchain) else None
    check_source_unchanged()
    return Artifact.of_methods(
        methods,
        key=known.key,
        question=known.question,
        model=model.label,
        npu=ethosu.vela.npu if ethosu is not None else None,
        memory_mode=ethosu.vela.mode if ethosu is not None else None,
        tosa=toolchain.spec if isinstance(toolchain, TosaToolchain) else None,
        pte=pte,
        etrecord=etrecord,
        versions=versions(),
        vela_flags=tuple(toolchain.compile_spec.compiler_flags),
        vela_ini=ethosu.vela.ini.text if ethosu is not None and ethosu.vela.user_ini else "",
        notes=notes,
    )


@contextmanager
def _executorch(toolchain: Toolchain, sources: Sources) -> Iterator[None]:
    """Import ExecuTorch. While inside, upstream is patched, and torch computes with one thread."""
    with _stage("loading ExecuTorch", sources):
        try:
            import_executorch()
        except ImportError as error:
            raise UpstreamUnfit(f"executorch {version('executorch')} lacks what is known of it: {error}") from error
        require_fitting(OF_LOWERING)
        toolchain.compile_spec  # noqa: B018 - importing its class takes seconds
    with apply(SPEED if toolchain.as_upstream else (*SPEED, *FUNCTIONS, *ORDERS)), one_torch_thread():
        yield


@dataclass(frozen=True)
class _Ready:
    """A method that is ready to be lowered, and PyTorch's answers to its example inputs."""

    program: torch.export.ExportedProgram
    host: torch.export.ExportedProgram
    """What computes the float answers."""
    floating: tuple[np.ndarray, ...]
    quantised: tuple[np.ndarray, ...]
    notes: tuple[str, ...]
    scheme: str | None = None
    kept: tuple[Any, ...] = ()
    """Operators that the Cortex-M backend needs undecomposed."""
    unrounded: tuple[np.ndarray, ...] = ()
    """Those of the quantised module without the roundings that the program drops; nothing if it drops none."""


def _hosts(ready: _Ready, sources: Sources) -> HostModules:
    floating = ready.host.module(check_guards=False) if ready.floating else None
    quantised = ready.program.module(check_guards=False) if ready.quantised else None
    return HostModules(floating, quantised, sources)


def _quantise_by_users(
    model: TorchModel, exported: Mapping[str, torch.export.ExportedProgram], toolchain: Toolchain
) -> dict[str, _Ready]:
    """Quantise the methods that have a quantiser of the user's.

    What it does is only known from what it makes, so this comes before the artifact's key is made.
    """
    chosen = {name: method for name, method in model.methods.items() if method.quantizer is not None}
    if not chosen:
        return {}
    if toolchain.scheme is None:
        raise UsageError(
            f"a quantizer is given; {toolchain.product} is asked for in float", hint="ask for TOSA-1.0+INT"
        )
    toolchain.start()
    with _executorch(toolchain, model.sources):
        return {
            name: _prepare(name, method, exported[name], toolchain, model.sources) for name, method in chosen.items()
        }


def _compile(
    model: TorchModel,
    exported: Mapping[str, torch.export.ExportedProgram],
    early: Mapping[str, _Ready],
    toolchain: Toolchain,
    known: ModelIdentity,
    *,
    whole: bool,
    hosts: Callable[[str, HostModules], None] | None,
    etrecord: bool,
) -> Artifact:
    """Quantise, delegate and emit a model; ExecuTorch is imported, and upstream is patched."""
    ready = {
        name: early.get(name) or _prepare(name, method, exported[name], toolchain, model.sources)
        for name, method in model.methods.items()
    }
    if hosts is not None:
        for name, method in ready.items():
            hosts(name, _hosts(method, model.sources))
    programs = {name: method.program for name, method in ready.items()}
    cpu = toolchain.options.cpu
    on_cpu = {name: BY_METHOD for name, method in model.methods.items() if method.on_cpu}
    on_cpu |= {name: BY_CPU_ALONE for name in programs if cpu == CPU_ALONE and name not in on_cpu}
    given = {name: program for name, program in programs.items() if name not in on_cpu}
    borders: Mapping[str, Border] = {}
    tell(f"lowering to {toolchain.product}")
    leave = {name: (*method.leave, *toolchain.options.leave) for name, method in model.methods.items()}
    locate = {name: toolchain.sites(name, model.sources) for name in programs}
    with _stage("lowering the model", model.sources), toolchain.lowering(given, leave, locate) as partitioners:
        if whole:
            inputs = {name: method.example_inputs for name, method in model.methods.items()}
            edge, borders = by_backend_id(
                programs, partitioners, inputs, toolchain.enter, model.sources, toolchain.circumstances
            )
        else:
            kept = list(dict.fromkeys(operator for method in ready.values() for operator in method.kept))
            edge = by_partitioner(programs, partitioners, preserve=kept, etrecord=etrecord)
        _check_left(model, toolchain.options.leave, {name: edge.exported_program(name) for name in given}, locate)
        for name in programs:
            toolchain.finish(name, edge.exported_program(name))
            refuse_complex(edge.exported_program(name).graph_module, lines_of(locate[name]))
            refuse_integer_powers(edge.exported_program(name).graph_module, lines_of(locate[name]))
            if cpu != CPU_FLOAT and ready[name].scheme is not None:
                keeps_layout = cpu == CPU_ALONE and cortex_m.keeps_layout(model.methods[name].example_inputs)
                cortex_m.lower_rest(edge, name, keeps_layout=keeps_layout)
            if not toolchain.as_upstream:
                keep_first_values(edge.exported_program(name))
                finish(edge.exported_program(name))
        states = {
            name: _state(method, exported[name], ready[name].program, edge.exported_program(name))
            for name, method in model.methods.items()
        }
        tell("writing the program")
        written = _write(edge)
        pte = bytes(written.buffer)
        joined = etrecord_of(written) if etrecord else b""
        plans = Program.parse(pte, model.label)
        methods = [
            LoweredMethod(
                name,
                delegates=toolchain.delegates(plans.plan(name)),
                input_names=tuple(str(value) for value in exported[name].graph_signature.user_inputs),
                scheme=ready[name].scheme,
                delegated=delegated_operators(edge.exported_program(name)),
                placement=placement(plans.plan(name), written, edge, locate[name], on_cpu.get(name)),
                lost=states[name][0],
                frozen=states[name][1],
                output_names=output_names(exported[name].call_spec.out_spec),
                **_answers(model.methods[name], ready[name], borders.get(name)),
            )
            for name in programs
        ]
    notes = tuple(dict.fromkeys((*(note for method in ready.values() for note in method.notes), *toolchain.notes)))
    artifact = _artifact(model, toolchain, known, methods, pte, notes=notes, etrecord=joined)
    unrounded = {name: method.unrounded for name, method in ready.items()}
    return _with_bounds(artifact, unrounded) if isinstance(toolchain, EthosUToolchain) else artifact


def _write(edge: Any) -> Any:
    """Return upstream's manager of a program that is written."""
    import torch
    from executorch.exir import ExecutorchBackendConfig

    # State that is computed from parameters would require gradients once it is written, and ExecuTorch fail in its next
    # pass (executorch 1.4.1: "a leaf Variable that requires grad is being used in an in-place operation").
    with torch.no_grad():
        return edge.to_executorch(ExecutorchBackendConfig(extract_delegate_segments=False))


def _check_left(
    model: TorchModel,
    asked: Sequence[str],
    lowered: Mapping[str, torch.export.ExportedProgram],
    locate: Mapping[str, Locate],
) -> None:
    """Check that everything that is left to the CPU is there: in any method, or in the one that leaves it."""
    if not asked and not any(method.leave for method in model.methods.values()):
        return
    there = {name: Leavable.of(program, locate[name]) for name, program in lowered.items()}
    require_known(asked, there, model.label)
    for name, method in model.methods.items():
        require_known(method.leave, {name: there[name]} if name in there else {}, name)


def _with_bounds(artifact: Artifact, unrounded: Mapping[str, tuple[np.ndarray, ...]]) -> Artifact:
    """Return the artifact with how far each of its methods may be from PyTorch.

    Args:
        artifact: without that.
        unrounded: of each method, `_Ready.unrounded`.
    """
    from ethos_hil.lowering.oracle.bounds.program import worst_case

    tell("bounding the distance from PyTorch")
    methods = [
        replace(method, allowed=worst_case(artifact.of(method.name), unrounded[method.name]))
        for method in artifact.methods
    ]
    first, *others = methods
    return replace(artifact, allowed=first.allowed, others=tuple(others))


def _state(
    method: Method,
    exported: torch.export.ExportedProgram,
    quantised: torch.export.ExportedProgram,
    lowered: torch.export.ExportedProgram,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return `lost` and `frozen` of an artifact: what a program does not keep of the model's state."""
    if not method.changed and method.steady:
        return (), ()
    gone = {**find_other_starts(exported, lowered), **find_lost(exported, lowered), **find_lost(exported, quantised)}
    if method.steady or not frozen(exported, method.fresh, method.example_inputs):
        return tuple(gone.values()), ()
    kept = written_buffers(exported)
    names = tuple(f"its attribute {name}" for name in method.changed if name not in kept)
    return tuple(gone.values()), names or (() if kept else ("something outside of the module",))


def _answers(method: Method, ready: _Ready, border: Border | None) -> dict[str, tuple[np.ndarray, ...]]:
    """Return a method's example inputs and PyTorch's answers to them, in the types of its inputs and outputs."""
    inputs = tuple(tensor.detach().contiguous().numpy() for tensor in method.example_inputs)
    if border is None or border.floats:
        return {"example_inputs": inputs, "floating": ready.floating, "quantised": ready.quantised}
    return {
        "example_inputs": border.of_inputs(inputs),
        "floating": (),  # a float answer has no integer form
        "quantised": border.of_outputs(ready.quantised),
    }


def _prepare(
    name: str, method: Method, exported: torch.export.ExportedProgram, toolchain: Toolchain, sources: Sources
) -> _Ready:
    """Quantise a method if the target needs it and the user has not done it."""
    from ethos_hil.lowering.upstream.dropped_roundings import unrounded_answers
    from ethos_hil.lowering.upstream.ethosu import identifier
    from ethos_hil.lowering.upstream.graph_repairs import SEPARATED, prepare, rewrite_graphs, separate
    from ethos_hil.lowering.upstream.names.operators import is_quantised
    from ethos_hil.lowering.upstream.quantizers import function_name, grouped_notes, quantise
    from ethos_hil.lowering.upstream.reasons.quantised_by import examine
    from ethos_hil.lowering.upstream.single_precision import in_float32

    if is_quantised(exported.graph_module):
        return _as_given(name, method, exported, exported.module(check_guards=False), toolchain, sources)
    with _stage("preparing the model", sources):
        widened: tuple[str, ...] = ()
        if not toolchain.as_upstream and (toolchain.scheme is not None or method.on_cpu):
            exported, widened = in_float32(exported, method.example_inputs)
        floating = exported.module(check_guards=False)
        floats = evaluate_in_double(floating, method.example_inputs)
        refuse_integer_loops(floating, sources.line_of)
        if method.on_cpu:
            return _Ready(exported, exported, floats, (), widened)
        notes = prepare(
            floating,
            quantised=toolchain.scheme is not None,
            as_upstream=toolchain.as_upstream,
            u55=bool(toolchain.compile_spec.tosa_spec.is_U55_subset),
            calibration=method.calibration_inputs,
            locate=sources.line_of,
        )
        toolchain.observe(name, floating, sources)
    cpu = toolchain.options.cpu
    with _stage("exporting the model", sources):  # again, where what was prepared is needed as a program
        needed = bool(notes) if toolchain.scheme is None else cpu != CPU_FLOAT
        unquantised = export(floating, method.example_inputs) if needed else exported
    if toolchain.scheme is None:
        return _Ready(unquantised, exported, floats, (), notes)
    tell("quantising")
    with _stage("quantising the model", sources):
        alone = cpu == CPU_ALONE and method.quantizer is None
        quantiser = (
            cortex_m.quantizer_alone(method.example_inputs)
            if alone
            else quantizer_of(name, method, toolchain.scheme, toolchain.compile_spec, floating)
        )
        if alone:
            notes = (*notes, *cortex_m.notes(floating, None, sources))
        elif method.quantizer is None:
            notes = (*notes, *grouped_notes(floating, sources))
        else:
            toolchain.quantised_by[name] = examine(
                quantiser, function_name(method.quantizer), floating, toolchain.compile_spec, identifier
            )
        module, program = quantise(floating, method.calibration_inputs, quantiser, sources.line_of)
        left = toolchain.calls_left(name, program, method.leave, sources) if cpu == CPU_BESIDE else frozenset()
        floating = unquantised.module(check_guards=False) if cpu != CPU_FLOAT else floating
        kept = cortex_m.preserved(floating, cpu, left)
        if left and method.quantizer is None:
            quantiser = quantizer_of(name, method, toolchain.scheme, toolchain.compile_spec, floating)
            notes = (*notes, *cortex_m.notes(floating, left, sources))
            module, program = quantise(
                floating, method.calibration_inputs, cortex_m.add_quantizer(quantiser, left), sources.line_of
            )
        if not toolchain.as_upstream and rewrite_graphs(module, separate):
            program, notes = export(module, method.calibration_inputs[0]), (*notes, SEPARATED)
        scheme = scheme_text(method, toolchain.scheme)
        unrounded = unrounded_answers(module, method.example_inputs)
        answers = evaluate(module, method.example_inputs)
        return _Ready(program, exported, floats, answers, (*widened, *notes), scheme, kept, unrounded)


def _as_given(
    name: str,
    method: Method,
    exported: torch.export.ExportedProgram,
    floating: torch.fx.GraphModule,
    toolchain: Toolchain,
    sources: Sources,
) -> _Ready:
    """Take a method that the user has quantised as it is."""
    from ethos_hil.lowering.upstream.dropped_roundings import unrounded_answers
    from ethos_hil.lowering.upstream.graph_repairs import SEPARATED, rewrite_graphs, separate
    from ethos_hil.lowering.upstream.reasons.quantised_by import QuantisedBy

    if toolchain.scheme is None:
        raise UsageError(
            f"method {name} is quantised already; {toolchain.product} is asked for in float",
            hint="give the float model, or ask for TOSA-1.0+INT",
        )
    require_unquantised_options(name, method, toolchain.scheme)
    toolchain.quantised_by[name] = QuantisedBy("given", "the model's quantiser")
    toolchain.observe(name, floating, sources)
    notes: tuple[str, ...] = ()
    if not toolchain.as_upstream and rewrite_graphs(floating, separate):
        exported, notes = export(floating, method.example_inputs), (SEPARATED,)
    kept, inputs = cortex_m.preserved(floating, toolchain.options.cpu), method.example_inputs
    answers, unrounded = evaluate(floating, inputs), unrounded_answers(floating, inputs)
    return _Ready(exported, exported, (), answers, notes, AS_GIVEN, kept, unrounded)
