"""All patches of upstream. CONTRIBUTING.md says how to add a row, and how to renew a fingerprint.

The gains compare the CPU time of a whole lowering for an Ethos-U55-128 with all patches and with all but these: medians
of seven lowerings that alternate in one process. `python -m ethos_hil.suites.lab.self_bench patches` measures it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ethos_hil.lowering.upstream.patches.composites import collected_once
from ethos_hil.lowering.upstream.patches.decomposed import decomposed_once
from ethos_hil.lowering.upstream.patches.fake_cache import quantising_too
from ethos_hil.lowering.upstream.patches.generation import generated_on_demand
from ethos_hil.lowering.upstream.patches.histogram import searched_in_numbers
from ethos_hil.lowering.upstream.patches.history import shared_history
from ethos_hil.lowering.upstream.patches.keep_origins import traced
from ethos_hil.lowering.upstream.patches.observed import observed
from ethos_hil.lowering.upstream.patches.overrides import remembered_overrides
from ethos_hil.lowering.upstream.patches.parts import parts_in_order
from ethos_hil.lowering.upstream.patches.patch import Patch
from ethos_hil.lowering.upstream.patches.retracing import described_on_demand, plain_as_they_are, remembered_calls
from ethos_hil.lowering.upstream.patches.signature import names_of_buffers, names_of_parameters
from ethos_hil.lowering.upstream.patches.tables_first import tables_first
from ethos_hil.lowering.upstream.patches.unfolded import searched_where_there_may_be
from ethos_hil.lowering.upstream.patches.vela_process import vela_elsewhere

_TORCH = ("2.13.0",)
_TORCHAO = ("0.18.0",)
_EXECUTORCH = ("1.4.1",)
_PASSES = "executorch.backends.arm._passes"
_SDPA = "executorch.backends.transforms.decompose_sdpa.DecomposeScaledDotProductAttention"
_BASE = "executorch.exir.pass_base._ExportPassBase"
_SIGNATURE = "torch.export.graph_signature.ExportGraphSignature"
_FAKES = "torch._subclasses.fake_tensor.FakeTensorMode"
_OBSERVER = "torchao.quantization.pt2e.observer.HistogramObserver"
_QAT = "torchao.quantization.pt2e.qat_utils"
_COLLECTION = (
    (
        "torch._export.utils._collect_all_valid_cia_ops_for_namespace",
        "10e01e3ec33ff3eabddb1ec152d28644c915aa7d3f38e298b0afbb938eade167",
    ),
    (
        "torch._export.utils._collect_all_valid_cia_ops_for_aten_namespace",
        "bef06673f7016b9b42a31857a6df08ce55363b78e361281689dcf50f72e8d1ef",
    ),
    (
        "torch._export.utils._materialize_cpp_cia_ops",
        "2d470f71a4b7570b15fdc66753d61fac1e766b08c071c00d66238a472976380e",
    ),
    ("torch._export.utils._is_preservable_cia_op", "4f7c75b8b9940fe64c0615df2ca3e11db85850f7a6af7a314da09bc62d76b0a5"),
)


def _names(name: str, attribute: str, make: Callable[[Any], Any], known: str) -> Patch:
    """The row of a property of a program's signature.

    Args:
        name: the row's.
        attribute: the property.
        make: as in `Patch`.
        known: its fingerprint.
    """
    return Patch(
        name=name,
        package="torch",
        versions=_TORCH,
        owner=_SIGNATURE,
        attribute=attribute,
        make=make,
        fingerprints=(
            (f"{_SIGNATURE}.{attribute}", known),
            (
                "torch.export.graph_signature._immutable_dict",
                "4792580b5de81b245880129afe4230ec84ab05adfd39a804ca3a2ed0e5761abc",
            ),
        ),
        why="torch goes through all inputs of a program, slowly, whenever it is asked whether one is a weight",
        gain="without the two, MobileViT-XXS takes 1.04 times as long",
        changes_result=False,
    )


SPEED = (
    Patch(
        name="composites of decompositions",
        package="torch",
        versions=_TORCH,
        owner="torch.export.decomp_utils",
        attribute="_collect_all_valid_cia_ops",
        make=collected_once,
        fingerprints=(
            (
                "torch.export.decomp_utils._collect_all_valid_cia_ops",
                "2c619eaa62c86419f5d1e8450b6d8fbb3c55b8fc0c01a587fc100e828f79de88",
            ),
            *_COLLECTION,
        ),
        why="torch goes through all registered operators whenever it reads a table of decompositions",
        gain="without them a lowering takes 1.3 to 2.0 times as long (add, conv2d, softmax)",
        changes_result=False,
    ),
    Patch(
        name="composites of programs",
        package="torch",
        versions=_TORCH,
        owner="torch.export.exported_program",
        attribute="_collect_all_valid_cia_ops",
        make=collected_once,
        fingerprints=(
            (
                "torch.export.exported_program._collect_all_valid_cia_ops",
                "2c619eaa62c86419f5d1e8450b6d8fbb3c55b8fc0c01a587fc100e828f79de88",
            ),
            *_COLLECTION,
        ),
        why="torch goes through all registered operators whenever it decomposes a program",
        gain="without them a lowering takes 1.3 to 2.0 times as long (add, conv2d, softmax)",
        changes_result=False,
    ),
    Patch(
        name="overrides",
        package="torch",
        versions=_TORCH,
        owner="torch.export.exported_program",
        attribute="_override_composite_implicit_decomp",
        make=remembered_overrides,
        fingerprints=(
            (
                "torch.export.exported_program._override_composite_implicit_decomp",
                "267e32daf40ce6b2b02c9df81c9d0e6689d23b69c6cb90ae486d92a2f9666bb8",
            ),
            (
                "torch.export.exported_program._split_decomp_table_to_cia_and_python_decomp",
                "c0c9995789e840759c036bac472b1aaaf5521d1dd43699f09c124542f4135140",
            ),
            (
                "torch.export.exported_program._get_decomp_for_cia",
                "cad212b4112a463afbb8b48414c6e4e7ac07161398740af7bdebc326922a4d1c",
            ),
        ),
        why="torch makes a dozen Python kernels for each composite operator whenever it decomposes a program",
        gain="without it a lowering takes 1.3 to 1.7 times as long (add, conv2d, softmax)",
        changes_result=False,
    ),
    Patch(
        name="generation",
        package="torch",
        versions=_TORCH,
        owner="torch.fx.graph_module.GraphModule",
        attribute="recompile",
        make=generated_on_demand,
        fingerprints=(
            (
                "torch.fx.graph_module.GraphModule.recompile",
                "1b1ebcbaff23c4d2f642733f6c8f9082351f4fc69bf70e379f176fe25e327e1f",
            ),
            (
                "torch.fx.graph_module.GraphModule._recompile_submodules",
                "5e3a42bd7ea1367363b373cc556686bcaefd9c1711dee0ad2556f2a575dd1103",
            ),
        ),
        why="torch generates Python code for every graph module, and few of them are called",
        gain="without it a lowering takes 1.2 to 1.5 times as long (add, conv2d, softmax)",
        changes_result=False,
    ),
    Patch(
        name="history",
        package="torch",
        versions=_TORCH,
        owner="torch.fx.traceback.NodeSource",
        attribute="__deepcopy__",
        make=shared_history,
        fingerprints=(
            ("torch.fx.traceback.NodeSource", "a9bee091176c68360833b47b9185599bdf19bea4e5f94f999174cb93bf4e2e0c"),
        ),
        why="torch copies the whole history of a node to each node that is made of it",
        gain="without it a lowering takes 1.2 times as long (add, conv2d, softmax), 1.3 times for MobileNetV1 0.25",
        changes_result=False,
        adds=True,
    ),
    Patch(
        name="decomposed programs",
        package="torch",
        versions=_TORCH,
        owner="torch.export.exported_program.ExportedProgram",
        attribute="run_decompositions",
        make=decomposed_once,
        fingerprints=(
            (
                "torch.export.exported_program.ExportedProgram.run_decompositions",
                "ed8d4905731e3fb4b7330ecd152cf427218aaa8f93cf9a93bdb4db8868f29ee7",
            ),
            (
                "torch.export.exported_program._decompose_exported_program",
                "10672f3e2e98c4fa840863955faa89d69d2036cb43e012aff88ee8bd0cdfc6f8",
            ),
            (
                "torch.export.exported_program._decompose_and_get_gm_with_new_signature_constants",
                "39d1835aa56039016e296287eb2f0b3b12c0384541051148c8a099283ca4940b",
            ),
            (
                "torch.fx.traceback.set_current_meta",
                "2f08859ea6ff11054be24e9cafd2d433d6cf5d3bcef41528d1950963db6df4b7",
            ),
        ),
        why="torch traces a whole program to decompose it, also where nothing of it is to be decomposed",
        gain="without it and the next three, MobileNetV2 takes 1.6 times as long, EfficientNet-B0 1.8, an operator 1.3",
        changes_result=False,
    ),
    Patch(
        name="calls of operators",
        package="executorch",
        versions=_EXECUTORCH,
        owner=_BASE,
        attribute="_fx",
        make=remembered_calls,
        fingerprints=(
            (
                "executorch.exir.pass_base._ExportPassBase._fx",
                "cc967677ee34ee7ccf48307cc42521e93073f3a7da4b53b13433e7f2213f1d78",
            ),
            (
                "executorch.exir.pass_base._ExportPassBase.ExportTracer.set_metadata",
                "1a5c45eb889d1b2954f0d3de3ade39e6b97f896398dd03301dedb6732ef3cae8",
            ),
            (
                "executorch.exir.pass_base._ExportPassBase.ExportTracer.create_arg",
                "41e4b20cd1af088859b9ad39833c687bebb8887b60b92025998ffc8cfa0efbef",
            ),
            (
                "torch.fx.proxy.TracerBase.create_proxy",
                "14a51ab3ee1742b8e468b70dd583f1a3372605f33d448752cd159904570d2138",
            ),
            (
                "torch.fx.interpreter.Interpreter.call_function",
                "64588279b8f5a8913cb8750ebb03bd1b05b9ed34c1d3f8307de4434ac168c76f",
            ),
        ),
        why="each of ExecuTorch's passes calls every operator of the graph with fake tensors again",
        gain="see decomposed programs: most of it",
        changes_result=False,
    ),
    Patch(
        name="text of nodes",
        package="executorch",
        versions=_EXECUTORCH,
        owner=f"{_BASE}.ExportInterpreter",
        attribute="run_node",
        make=described_on_demand,
        fingerprints=(
            (
                "executorch.exir.pass_base._ExportPassBase.ExportInterpreter.run_node",
                "b40e58ac87e12fc4afd04d81c766fe951f228d54aafcf9c61707e93ca07f7aaf",
            ),
        ),
        why="each of ExecuTorch's passes writes out every node of the graph, for the messages of errors",
        gain="see decomposed programs",
        changes_result=False,
    ),
    Patch(
        name="plain arguments",
        package="executorch",
        versions=_EXECUTORCH,
        owner="executorch.exir.pass_base.ExportPass.ExportTracer",
        attribute="create_arg",
        make=plain_as_they_are,
        fingerprints=(
            (
                "executorch.exir.pass_base.ExportPass.ExportTracer.create_arg",
                "069f352902939b4f5cf88322ab72ada042d15ad660fc203f1f6404f7b1098d58",
            ),
            (
                "executorch.exir.pass_base._ExportPassBase.ExportTracer.create_arg",
                "41e4b20cd1af088859b9ad39833c687bebb8887b60b92025998ffc8cfa0efbef",
            ),
            (
                "torch.fx.proxy.TracerBase.create_arg",
                "0a76be4b7367508599c88d37440e442bda80adaf3305d127ac4b035ccdfebbf6",
            ),
        ),
        why="ExecuTorch and torch ask of every number of a list whether it is a module, a tensor or an opaque object",
        gain="see decomposed programs",
        changes_result=False,
    ),
    _names(
        "names of parameters",
        "inputs_to_parameters",
        names_of_parameters,
        "3021acee8effb403fa22269a7e9f3603af803e74514698bd47d690a135203716",
    ),
    _names(
        "names of buffers",
        "inputs_to_buffers",
        names_of_buffers,
        "7e54f81d592640dac092dc88c77f1c13ad622f41675064f73690802641711316",
    ),
    Patch(
        name="quantised fakes",
        package="torch",
        versions=_TORCH,
        owner=_FAKES,
        attribute="_validate_cache_key",
        make=quantising_too,
        fingerprints=(
            (f"{_FAKES}._validate_cache_key", "fe8e0e0fdd23a3e493b901a072659a5ff68e1e130d64fe89c6c17f18148e63f5"),
        ),
        why="torch's cache of what operators give for fake tensors leaves out those that quantise, half of all calls",
        gain="without it, MobileViT-XXS takes 1.06 times as long",
        changes_result=False,
    ),
    Patch(
        name="histogram",
        package="torchao",
        versions=_TORCHAO,
        owner=_OBSERVER,
        attribute="_non_linear_param_search",
        make=searched_in_numbers,
        fingerprints=(
            (
                f"{_OBSERVER}._non_linear_param_search",
                "6e4df4c38a62111aec22b286b61ba1807d1fc554bdc103a67c8a0d4eb9251425",
            ),
            (
                f"{_OBSERVER}._compute_quantization_error",
                "82427f6513c986a9b5c7132f5681fa3c5397e3bc475f5c70a405d3e8c200a5e3",
            ),
        ),
        why="torchao compares tensors of one element, tens of thousands of times for an activation",
        gain="without it the cold suites (every 40th case) take 1.06 times as long, a softmax 1.2 times",
        changes_result=False,
    ),
    Patch(
        name="folding of trained norms",
        package="torchao",
        versions=_TORCHAO,
        owner=_QAT,
        attribute="_fold_conv_bn_qat_helper",
        make=searched_where_there_may_be,
        fingerprints=(
            (f"{_QAT}._fold_conv_bn_qat_helper", "d4e3bfe6c7e2b89fefc825f49ccda3933d83587031d293d855920c5fc6932e8b"),
            (f"{_QAT}._fold_conv_bn_qat", "4ff482e44652446c779cbf9cecf01d368b6bb64ccbbc13cc5f66338b799ee03b"),
            (
                f"{_QAT}._get_quantized_qat_conv_bn_pattern",
                "6a59e91574fb899333f7fef1bbe2a7725c637995f33a998eac984c820ec6635b",
            ),
            (f"{_QAT}._duplicate_dequantize_node", "4c78967efaa470c324eb427defd5cd40c973474a337c25be5362109cb6b95217"),
            (f"{_QAT}._remove_extra_dequantize", "965d56280c16c83412bfe5979ae0d4daa0dc8d9a35e2ccd2cc7b55887028272e"),
        ),
        why="torchao traces 96 patterns of quantisation-aware training wherever a batch norm was left",
        gain="without it a network of a norm and two convolutions, one norm left alone, takes 20 s instead of 0.6 s",
        changes_result=False,
    ),
)
"""What torch, torchao and ExecuTorch do many times in a lowering and need not do."""


def _origins(operators: str, owner: str, *fingerprints: tuple[str, str]) -> Patch:
    """The row of a pass that takes operators apart.

    Args:
        operators: what it takes apart, for people.
        owner: its class, by the dotted name in ExecuTorch's folder of Arm passes.
        fingerprints: as in `Patch`.
    """
    return Patch(
        name=f"origins of {operators}",
        package="executorch",
        versions=_EXECUTORCH,
        owner=f"{_PASSES}.{owner}",
        attribute="call",
        make=traced,
        fingerprints=fingerprints,
        why="upstream's quantiser drops where the nodes come from that it puts in place of such operators",
        gain="the NPU operations that compute them have a line, a module and an operator of the model",
        changes_result=True,
    )


ORIGINS = (
    _origins(
        "embedding",
        "decompose_embedding_pass.DecomposeEmbeddingPass",
        (
            f"{_PASSES}.decompose_embedding_pass.DecomposeEmbeddingPass.call",
            "181923dbee6798401aaabff2dfaeb7f33ed16c0b3abaa07ce78f1cdc8f3b50c6",
        ),
    ),
    _origins(
        "attention",
        "decompose_sdpa_pass.DecomposeScaledDotProductAttentionPass",
        (
            f"{_PASSES}.decompose_sdpa_pass.DecomposeScaledDotProductAttentionPass.call",
            "e90d357dbeb527bdc2d9e02ab949e5483a94a7989388c412d904a9272f591551",
        ),
        (f"{_SDPA}._decompose_sdpa_node", "a5765581941d844d03e696a37921ab7885de76b3e4e9b7484e38131145b15f44"),
    ),
    _origins(
        "matmul, einsum and index_copy",
        "get_decomposition_pass.GetDecompositionPass",
        (
            f"{_PASSES}.get_decomposition_pass.GetDecompositionPass.call",
            "4fb9c79b7f799bdc5eebb16328a2fa08cdf8186be4773ec2ae5823c2a1458761",
        ),
    ),
    _origins(
        "rsub",
        "scalars_to_attribute_pass.ScalarsToAttributePass",
        (
            f"{_PASSES}.scalars_to_attribute_pass.ScalarsToAttributePass.call",
            "91601746193ff8eb1244fc3a5bfdf24934eb3ee024386e1c14af32c194d5acce",
        ),
        (
            f"{_PASSES}.scalars_to_attribute_pass.ScalarsToAttributePass._convert_scalar_args",
            "d5d5c73020bc66c298f49e8db45e1ca107f5c8b69066c0463a226de8be35d82e",
        ),
    ),
)
"""What keeps the map of NPU operations complete."""

TABLES_FIRST = (
    Patch(
        name="tables first",
        package="executorch",
        versions=_EXECUTORCH,
        owner=f"{_PASSES}.arm_pass_manager",
        attribute="_registered_pass_insertions",
        make=tables_first,
        fingerprints=(
            (
                f"{_PASSES}.arm_pass_manager.ArmPassManager._configure_pass_insertions",
                "01ab5f3b7ccc5d4912bfe39d43fc1830828c4bce26477fda88e110a72a30bd30",
            ),
            (
                f"{_PASSES}.arm_pass_manager.PassInsertions",
                "1dbfa84103dfe52823f8bb44f8a222e6ea695be40cc3e0112c2b381fa7157c2e",
            ),
        ),
        why="in upstream's order of passes, lowering fails on an average pool that is fed by a look-up",
        gain="such models can be lowered; it is applied only after upstream's own order has failed",
        changes_result=True,
    ),
)

PARTS = (
    Patch(
        name="parts of partitions",
        package="executorch",
        versions=_EXECUTORCH,
        owner="executorch.backends.arm.tosa.partitioner",
        attribute="_find_connected_components",
        make=parts_in_order,
        fingerprints=(
            (
                "executorch.backends.arm.tosa.partitioner._find_connected_components",
                "7802fc12443492e2beabb6408783d8abb648b5a6dbc28eef9df7c7973625edf5",
            ),
            (
                "executorch.backends.arm.tosa.partitioner.TOSAPartitioner._tag_module",
                "6da12d8e27f46de5521562e55208725659522a39709624fa644863350dd1c366",
            ),
        ),
        why="upstream numbers the parts of a partition that it splits by the addresses of nodes in memory",
        gain="a model with attention (Swin, MobileViT) becomes the same program in every process",
        changes_result=True,
    ),
)

VELA_PROCESS = (
    Patch(
        name="process of Vela",
        package="executorch",
        versions=_EXECUTORCH,
        owner="executorch.backends.arm.arm_vela",
        attribute="vela",
        make=vela_elsewhere,
        fingerprints=(
            (
                "executorch.backends.arm.arm_vela.vela_compile",
                "3ce4afd357fe3588c2b4c67fd063ecf9ac04718a369e9650f61ac7295b73c635",
            ),
        ),
        why="upstream calls Vela in its own process, which Vela's compiler ends on some programs",
        gain="such an end is an error that names the operation; without it, the whole process ends without a word",
        changes_result=True,
    ),
)

STARTS_OF_FVPS = (
    Patch(
        name="starts of FVPs",
        package="executorch",
        versions=_EXECUTORCH,
        owner="executorch.backends.arm.test.runner_utils",
        attribute="_run_cmd",
        make=observed,
        fingerprints=(
            (
                "executorch.backends.arm.test.runner_utils._run_cmd",
                "71e71bdcd43c0b23fb6da94cc4106d0229b3a4bf56960a7f80a6b50481bd6763",
            ),
        ),
        why="upstream's tests do not say whether they reach a device, nor what it answers",
        gain="`make upstream` counts the runs on a device and compares their outputs",
        changes_result=True,
    ),
)
CALLS_OF_VELA = (
    Patch(
        name="calls of Vela",
        package="executorch",
        versions=_EXECUTORCH,
        owner="executorch.backends.arm.ethosu.backend",
        attribute="vela_compile",
        make=observed,
        fingerprints=(
            (
                "executorch.backends.arm.ethosu.backend.vela_compile",
                "3ce4afd357fe3588c2b4c67fd063ecf9ac04718a369e9650f61ac7295b73c635",
            ),
        ),
        why="a .pte does not hold the TOSA program that a delegate was compiled from, which is its reference",
        gain="`make upstream` has a reference for what upstream's tests compile",
        changes_result=True,
    ),
)

TABLE = (*SPEED, *ORIGINS, *TABLES_FIRST, *PARTS, *VELA_PROCESS, *STARTS_OF_FVPS, *CALLS_OF_VELA)
