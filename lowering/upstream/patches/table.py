"""All patches of upstream. CONTRIBUTING.md says how to add a row, and how to renew a fingerprint.

The gains compare the CPU time of a whole lowering for an Ethos-U55-128 with all patches and with all but these: medians
of seven lowerings that alternate in one process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ethos_hil.lowering.upstream.patches.in_executorch import (
    any_order,
    observe,
    parts_in_order,
    table_of,
    tables_first,
    traced,
    vela_elsewhere,
    with_edge_functions,
    with_functions,
)
from ethos_hil.lowering.upstream.patches.in_torch import (
    collected_once,
    decomposed_once,
    folded,
    generated_on_demand,
    remembered_overrides,
    searched_by_numbers,
    shared_history,
)
from ethos_hil.lowering.upstream.patches.patch import Patch
from ethos_hil.lowering.upstream.patches.retracing import remembered_calls, without_texts
from ethos_hil.lowering.upstream.patches.versions import VERSIONS

Known = str | tuple[str, ...]
"""The fingerprint of a source that is the same in all versions below, or those of each form that it has in them."""
_VELA_COMPILE = "3ce4afd357fe3588", "42e1f836be724a9d"
"""It returns an object since 1.5. Vela is called as before."""
_ARM_PASSES = "executorch.backends.arm._passes"
_EXPORTED = "torch.export.exported_program"
_GRAPH_MODULE = "torch.fx.graph_module.GraphModule"
_PARTITIONER = "executorch.backends.arm.tosa.partitioner"
_PASS_BASE = "executorch.exir.pass_base"
_SDPA = "executorch.backends.transforms.decompose_sdpa.DecomposeScaledDotProductAttention"
_COLLECTION = (
    ("torch._export.utils._collect_all_valid_cia_ops_for_namespace", "10e01e3ec33ff3ea"),
    ("torch._export.utils._collect_all_valid_cia_ops_for_aten_namespace", "bef06673f7016b9b"),
    ("torch._export.utils._materialize_cpp_cia_ops", "2d470f71a4b7570b"),
    ("torch._export.utils._is_preservable_cia_op", "4f7c75b8b9940fe6"),
)


def _row(
    name: str,
    package: str,
    make: Callable[..., Any],
    target: str,
    fingerprint: Known,
    *others: tuple[str, Known],
    why: str,
    gain: str,
    changes_result: bool = False,
    adds: bool = False,
) -> Patch:
    """A row for the versions above: `target` and `others` are dotted, each with its fingerprints; "" if it has none."""
    owner, _, attribute = target.rpartition(".")
    given = (*([(target, fingerprint)] if fingerprint else []), *others)
    covered = tuple((name, (known,) if isinstance(known, str) else known) for name, known in given)
    return Patch(name, package, VERSIONS[package], owner, attribute, make, covered, why, gain, changes_result, adds)


SPEED = (
    *(
        _row(
            f"composites of {what}", "torch", collected_once,
            f"{module}._collect_all_valid_cia_ops", "2c619eaa62c86419",
            *_COLLECTION,
            why=f"torch goes through all registered operators whenever it {when}",
            gain="without them a lowering takes 1.3 to 2.0 times as long (add, conv2d, softmax)",
        )
        for what, module, when in (
            ("decompositions", "torch.export.decomp_utils", "reads a table of decompositions"),
            ("programs", _EXPORTED, "decomposes a program"),
        )
    ),
    _row(
        "overrides", "torch", remembered_overrides,
        f"{_EXPORTED}._override_composite_implicit_decomp", "267e32daf40ce6b2",
        (f"{_EXPORTED}._split_decomp_table_to_cia_and_python_decomp", "c0c9995789e84075"),
        (f"{_EXPORTED}._get_decomp_for_cia", "cad212b4112a463a"),
        why="torch makes a dozen Python kernels for each composite operator whenever it decomposes a program",
        gain="without it a lowering takes 1.3 to 1.7 times as long (add, conv2d, softmax)",
    ),
    _row(
        "generation", "torch", generated_on_demand,
        f"{_GRAPH_MODULE}.recompile", "1b1ebcbaff23c4d2",
        (f"{_GRAPH_MODULE}._recompile_submodules", "5e3a42bd7ea13673"),
        why="torch generates Python code for every graph module, and few of them are called",
        gain="without it a lowering takes 1.2 to 1.5 times as long (add, conv2d, softmax)",
    ),
    _row(
        "history", "torch", shared_history,
        "torch.fx.traceback.NodeSource.__deepcopy__", "",
        ("torch.fx.traceback.NodeSource", "a9bee091176c6836"),
        why="torch copies the whole history of a node to each node that is made of it",
        gain="without it a lowering takes 1.2 times as long (add, conv2d, softmax), 1.3 times for MobileNetV1 0.25",
        adds=True,
    ),
    _row(
        "decomposed programs", "torch", decomposed_once,
        f"{_EXPORTED}.ExportedProgram.run_decompositions", "ed8d4905731e3fb4",
        (f"{_EXPORTED}._decompose_exported_program", "10672f3e2e98c4fa"),
        (f"{_EXPORTED}._decompose_and_get_gm_with_new_signature_constants", "39d1835aa5603901"),
        ("torch.fx.traceback.set_current_meta", "2f08859ea6ff1105"),
        why="torch traces a whole program to decompose it, also where nothing of it is to be decomposed",
        gain="without it and the next, MobileNetV2 takes up to 1.6 times as long, EfficientNet-B0 1.8, an operator 1.3",
    ),
    _row(
        "calls of operators", "executorch", remembered_calls,
        f"{_PASS_BASE}._ExportPassBase._fx", "cc967677ee34ee7c",
        (f"{_PASS_BASE}._ExportPassBase.ExportTracer.set_metadata", "1a5c45eb889d1b29"),
        (f"{_PASS_BASE}._ExportPassBase.ExportTracer.create_arg", "41e4b20cd1af0888"),
        ("torch.fx.proxy.TracerBase.create_proxy", "14a51ab3ee1742b8"),
        ("torch.fx.proxy.TracerBase.create_node", "8000aecac35cdf7f"),
        ("torch.fx.experimental.proxy_tensor.PythonKeyTracer.create_node", "bac6590e3343ed5a"),
        ("torch.fx.interpreter.Interpreter.call_function", "64588279b8f5a891"),
        why="each of ExecuTorch's passes calls every operator of the graph with fake tensors again",
        gain="see decomposed programs: most of it",
    ),
    _row(
        "texts of nodes", "executorch", without_texts,
        f"{_PASS_BASE}._ExportPassBase.ExportInterpreter.run_node", "b40e58ac87e12fc4",
        ("torch.fx.interpreter.Interpreter.run_node", "5f590ecd61b11b3a"),
        why="each of ExecuTorch's passes writes every node as a text, for messages that no Arm pass has",
        gain="without it and the search for symbols in calls of operators, a Swin-T takes 1.2 times as long",
    ),
    _row(
        "ranges of histograms", "torchao", searched_by_numbers,
        "torchao.quantization.pt2e.observer.HistogramObserver._non_linear_param_search", "6e4df4c38a62111a",
        why="torchao compares tensors of one number, up to 200,000 of them for each range of a small tensor",
        gain="without it a small network takes 1.3 to 2.2 times as long (DS-CNN, tests), MobileNetV2 as long",
    ),
)  # fmt: skip
"""What torch, torchao and ExecuTorch do many times in a lowering and need not do."""


def _origins(operators: str, target: str, fingerprint: Known, *others: tuple[str, Known]) -> Patch:
    """The row of a pass that takes `operators` apart; `target` is its `call` in ExecuTorch's folder of Arm passes."""
    return _row(
        f"origins of {operators}", "executorch", traced, f"{_ARM_PASSES}.{target}", fingerprint, *others,
        why="upstream's quantiser drops where the nodes come from that it puts in place of such operators",
        gain="the NPU operations that compute them have a line, a module and an operator of the model",
        changes_result=True,
    )  # fmt: skip


ORIGINS = (
    _origins("embedding", "decompose_embedding_pass.DecomposeEmbeddingPass.call", "181923dbee679840"),
    _origins(
        "attention", "decompose_sdpa_pass.DecomposeScaledDotProductAttentionPass.call", "e90d357dbeb527bd",
        (f"{_SDPA}._decompose_sdpa_node", "a5765581941d844d"),
    ),
    _origins(
        "matmul, einsum and index_copy", "get_decomposition_pass.GetDecompositionPass.call", "4fb9c79b7f799bdc"
    ),
    _origins(
        "rsub", "scalars_to_attribute_pass.ScalarsToAttributePass.call", "91601746193ff8eb",
        (f"{_ARM_PASSES}.scalars_to_attribute_pass.ScalarsToAttributePass._convert_scalar_args", "d5d5c73020bc66c2"),
    ),
)  # fmt: skip
"""What keeps the map of NPU operations complete."""

TABLES_FIRST = (
    _row(
        "tables first", "executorch", tables_first,
        f"{_ARM_PASSES}.arm_pass_manager._registered_pass_insertions", "",
        (f"{_ARM_PASSES}.arm_pass_manager.ArmPassManager._configure_pass_insertions", "01ab5f3b7ccc5d49"),
        (f"{_ARM_PASSES}.arm_pass_manager.PassInsertions", "1dbfa84103dfe528"),
        why="in upstream's order of passes, lowering fails on an average pool that is fed by a look-up",
        gain="such models can be lowered; it is applied only after upstream's own order has failed",
        changes_result=True,
    ),
)  # fmt: skip

_TABLE_OPS = f"{_ARM_PASSES}.insert_table_ops.TableOps"
_SUPPORT = "executorch.backends.arm.operator_support.tosa_supported_operators"


def _functions(what: str, make: Callable[..., Any], target: str, *others: tuple[str, Known]) -> Patch:
    """The row of a place where ExecuTorch's Arm backend lists functions of one number; others have the sources."""
    return _row(
        f"functions that are {what}", "executorch", make, target, "", *others,
        why="upstream has no table of softplus, mish, log_sigmoid and the like, and leaves them to the CPU, in float",
        gain="each is one operation of the NPU; not with --as-upstream",
        changes_result=True,
    )  # fmt: skip


FUNCTIONS = (
    _functions(
        "quantised", with_functions, "executorch.backends.arm.quantizer.arm_quantizer.TOSA_QUANTIZER_SUPPORT_DICT",
        ("executorch.backends.cortex_m.quantizer.pattern_matcher.PatternMatcher.__init__", "bde94f97d61604ab"),
    ),
    _functions(
        "tables", with_edge_functions, f"{_TABLE_OPS}.special_table_ops",
        (f"{_TABLE_OPS}.__contains__", "0d47a6f42f45005b"),
    ),
    _functions(
        "computed", table_of, f"{_TABLE_OPS}.__getitem__", (f"{_TABLE_OPS}.__getitem__", "6249a300a44a5554")
    ),
    _functions(
        "delegated", with_edge_functions, f"{_SUPPORT}.TOSA_PRO_INT_SupportList",
        (f"{_SUPPORT}.TOSAProINTSupportList", "96da998d2de11e86"),
    ),
)  # fmt: skip
"""What makes a look-up table of each function of one number (`in_executorch.TABLES_OF`)."""

PARTS = (
    _row(
        "parts of partitions", "executorch", parts_in_order,
        f"{_PARTITIONER}._find_connected_components", "7802fc12443492e2",
        (f"{_PARTITIONER}.TOSAPartitioner._tag_module", ("6da12d8e27f46de5", "7d85f148aa3d8825")),
        why="upstream numbers the parts of a partition that it splits by the addresses of nodes in memory",
        gain="a model with attention (Swin, MobileViT) becomes the same program in every process",
        changes_result=True,
    ),
)  # fmt: skip

ORDERS = (
    *(
        _row(
            f"orders of memory of casts, {when}", "executorch", any_order,
            f"executorch.exir.passes.{module}.get_memory_format", "817ac3f2d6c12210",
            why="upstream fails on a cast of a tensor whose order of memory is neither rows nor channels_last",
            gain="permuted examples that are cast are lowered; not with --as-upstream",
            changes_result=True,
        )
        for when, module in (("traced", "dim_order_ops_registry"), ("delegated", "memory_format_ops_pass"))
    ),
    _row(
        "orders of memory of layers of 16 bits", "torch", folded,
        "torch._decomp.decompositions.should_fold", "e68ba993fd0f2ba4",
        ("torch._decomp.decompositions.matmul", "4ad59408a46fb89f"),
        why="upstream fails on a linear layer with int16 inputs that are in the order of channels_last",
        gain="such models are lowered; not with --as-upstream",
        changes_result=True,
    ),
)  # fmt: skip

VELA_PROCESS = (
    _row(
        "process of Vela", "executorch", vela_elsewhere,
        "executorch.backends.arm.arm_vela.vela", "",
        ("executorch.backends.arm.arm_vela.vela_compile", _VELA_COMPILE),
        why="upstream calls Vela in its own process, which Vela's compiler ends on some programs",
        gain="such an end is an error that names the operation; without it, the whole process ends without a word",
        changes_result=True,
    ),
)  # fmt: skip

STARTS_OF_FVPS = (
    _row(
        "starts of FVPs", "executorch", observe,
        "executorch.backends.arm.test.runner_utils._run_cmd", "71e71bdcd43c0b23",
        why="upstream's tests do not say whether they reach a device, nor what it answers",
        gain="`make upstream` counts the runs on a device and compares their outputs",
        changes_result=True,
    ),
)  # fmt: skip

CALLS_OF_VELA = (
    _row(
        "calls of Vela", "executorch", observe,
        "executorch.backends.arm.ethosu.backend.vela_compile", _VELA_COMPILE,
        why="a .pte does not hold the TOSA program that a delegate was compiled from, which is its reference",
        gain="`make upstream` has a reference for what upstream's tests compile",
        changes_result=True,
    ),
)  # fmt: skip

OF_LOWERING = (*ORIGINS, *TABLES_FIRST, *FUNCTIONS, *PARTS, *ORDERS, *VELA_PROCESS)
"""Those that decide what an artifact says: where one does not fit, a model is lowered bare."""
TABLE = (*SPEED, *ORIGINS, *TABLES_FIRST, *FUNCTIONS, *PARTS, *ORDERS, *VELA_PROCESS, *STARTS_OF_FVPS, *CALLS_OF_VELA)
